// Batch statistics in the forward are not separable either.
// RUN-PASSES: normalise_losses
// PARAMS: local_batch=2, pieces=4
// expect-error P0331: {{'batch_norm' of node 'bn'}}
graph {
  prov 0 model "bn" "norm" ""
  %x = input "x" : f32[2, 3]
  %w = parameter ["w"] : f32[3]
  %y, %mean, %rstd = batch_norm(%x, %w, %w) prov 0
  %loss = mean(%y) {dims=[0, 1]}
  loss %loss
}
