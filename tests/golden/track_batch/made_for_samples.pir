// What has the batch in its shape though no sample is in it is numbered by the samples, too: what is repeated once for
// each, and rows that are named by their position in the step.
// RUN-PASSES: lay_out_dropout
// PARAMS: local_batch=2, pieces=4
// CHECK: %a = dropout(%repeated, %seed_step, %sample_offset) {p=0.5, key=1, outer=3, batch=2, inner=4}
// CHECK: %b = dropout(%rows, %seed_step, %sample_offset) {p=0.5, key=2, outer=1, batch=2, inner=4}
graph {
  %w = parameter ["w"] : f32[8, 4]
  %x = input "x" : f32[2, 4]
  %seed_step = seed_step
  %sample_offset = sample_offset
  %first = slice(%w) {dim=0, start=0, end=1, step=1}
  %repeated = expand(%first) {shape=[3, 2, 4], samples=1}
  %a = dropout(%repeated, %seed_step, %sample_offset) {p=0.5, key=1}
  %range = constant : i64[2] data [0, 1]
  %numbers = add(%range, %sample_offset)
  %rows = index_select(%w, %numbers) {dim=0}
  %b = dropout(%rows, %seed_step, %sample_offset) {p=0.5, key=2}
  output "a" = %a
  output "b" = %b
}
