// A product of batch means is no sum over samples.
// RUN-PASSES: normalise_losses
// PARAMS: local_batch=2, pieces=4
// expect-error P0331: {{'mean' of node 'mean_1' (module mlp.1) at zoo.py:7 computes one value from all samples of the batch}}
graph {
  prov 0 model "mean_1" "mlp.1" "zoo.py:7"
  %x = input "x" : f32[2, 3]
  %w = parameter ["w"] : f32[7, 3]
  %y = linear(%x, %w) scope "mlp.1" prov 0
  %mean = mean(%y) {dims=[0]} scope "mlp.1" prov 0
  %square = mul(%mean, %mean) scope "mlp.1" prov 0
  %loss = sum(%square) {dims=[0]} scope "mlp.1" prov 0
  loss %loss
}
