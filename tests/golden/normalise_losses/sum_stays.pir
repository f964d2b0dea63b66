// A sum over samples adds up over pieces as it is.
// RUN-PASSES: normalise_losses
// PARAMS: local_batch=2, pieces=4
// CHECK: %y = linear(%x, %w)
// CHECK: %loss = sum(%y) {dims=[0, 1], keepdim=false}
// CHECK: loss %loss
graph {
  %x = input "x" : f32[2, 3]
  %w = parameter ["w"] : f32[3, 3]
  %y = linear(%x, %w) chunk 0
  %loss = sum(%y) {dims=[0, 1]} chunk 0
  loss %loss
}
