// A value without samples has one mask for the step: it does not follow the piece's offset.
// RUN-PASSES: lay_out_dropout
// PARAMS: local_batch=2, pieces=4
// CHECK: [[zero]] = constant : i64[1] data [0]
// CHECK: dropout(%w, %seed_step, %[[zero]]) {p=0.5, key=1, outer=1, batch=1, inner=12}
graph {
  %w = parameter ["w"] : f32[3, 4]
  %seed_step = seed_step
  %sample_offset = sample_offset
  %y = dropout(%w, %seed_step, %sample_offset) {p=0.5, key=1}
  output "y" = %y
}
