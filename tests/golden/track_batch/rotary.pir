// Samples stay apart in a rotary embedding, also where each has positions of its own.
// RUN-PASSES: lay_out_dropout
// PARAMS: local_batch=3, pieces=2
// CHECK: dropout(%y, %seed_step, %sample_offset) {p=0.5, key=1, outer=1, batch=3, inner=40}
graph {
  %x = input "x" : f32[3, 2, 5, 4]
  %cos = input "cos" : f32[3, 1, 5, 4]
  %sin = input "sin" : f32[3, 1, 5, 4]
  %seed_step = seed_step
  %sample_offset = sample_offset
  %y = rotary(%x, %cos, %sin)
  %z = dropout(%y, %seed_step, %sample_offset) {p=0.5, key=1}
  output "z" = %z
}
