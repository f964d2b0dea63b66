// A row's gradient is divided by how often the whole batch names it, so that gradients of pieces do not add up.
// RUN-PASSES: normalise_losses
// PARAMS: local_batch=2, pieces=4
// expect-error P0331: {{'embedding' of node 'embedding' (module table) at zoo.py:7}}
graph {
  prov 0 model "embedding" "table" "zoo.py:7"
  %x = input "x" : i64[2]
  %w = parameter ["w"] : f32[7, 3]
  %y = embedding(%w, %x) {scale_grad_by_freq=true} scope "table" prov 0
  %total = sum(%y) {dims=[0, 1]}
  %loss = neg(%total)
  loss %loss
}
