// A penalty over the weights of all experts needs them all.
// RUN-PASSES: partition_experts
// PARAMS: devices=2, sharded=0
// expect-error P0333: {{'sum' of node 'penalty'}}
graph {
  prov 0 model "penalty" "experts" "model.py:7"
  %x = input "x" : f32[4, 6, 8]
  %w = parameter ["w"] : f32[4, 8, 8]
  %y = matmul(%x, %w)
  %s = sum(%y) {dims=[0, 1, 2]}
  %w2 = mul(%w, %w)
  %penalty = sum(%w2) {dims=[0, 1, 2]} prov 0
  %loss = add(%s, %penalty)
  loss %loss
}
