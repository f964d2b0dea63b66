// What a mean divides by must be known before the forward.
// RUN-PASSES: normalise_losses
// PARAMS: local_batch=2, pieces=4
// expect-error P0332: {{depends on the parameter 'cw'}}
graph {
  %x = input "x" : f32[2, 3]
  %labels = input "labels" : i64[2]
  %w = parameter ["w"] : f32[7, 3]
  %cw = parameter ["cw"] : f32[7]
  %y = linear(%x, %w)
  %loss = cross_entropy_loss(%y, %labels, %cw)
  loss %loss
}
