// A term that is the same for every piece enters with weight 1/pieces.
// RUN-PASSES: normalise_losses
// PARAMS: local_batch=2, pieces=4
// CHECK: %decay = sum(%square)
// CHECK: [[own]] = div(%decay, %scalar) : f32[]
// CHECK: add(%data, %[[own]])
graph {
  %x = input "x" : f32[2, 3]
  %w = parameter ["w"] : f32[3, 3]
  %square = mul(%w, %w)
  %decay = sum(%square) {dims=[0, 1]}
  %y = linear(%x, %w)
  %data = sum(%y) {dims=[0, 1]}
  %loss = add(%data, %decay)
  loss %loss
}
