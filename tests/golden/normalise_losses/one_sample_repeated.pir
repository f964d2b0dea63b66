// Tokens of one sample, repeated for two experts: the sum over experts mixes no samples.
// RUN-PASSES: normalise_losses
// PARAMS: local_batch=1, pieces=4
// CHECK: %y = sum(%each) {dims=[0], keepdim=false} : f32[3, 4]
// CHECK: div(%[[s]], %[[count]])
graph {
  %x = input "x" : f32[1, 3, 4]
  %w = parameter ["w"] : f32[4]
  %xw = mul(%x, %w)
  %tokens = reshape(%xw) {shape=[3, 4]}
  %repeated = expand(%tokens) {shape=[2, 3, 4]}
  %flat = reshape(%repeated) {shape=[6, 4]}
  %each = reshape(%flat) {shape=[2, 3, 4]}
  %y = sum(%each) {dims=[0]}
  %loss = mean(%y) {dims=[0, 1]}
  loss %loss
}
