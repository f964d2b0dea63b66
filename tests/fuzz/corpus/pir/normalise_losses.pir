graph {
  prov 0 model "bn" "norm" ""
  %x = input "x" : f32[2, 3]
  %w = parameter ["w"] : f32[3]
  %y, %mean, %rstd = batch_norm(%x, %w, %w) prov 0
  %loss = mean(%y) {dims=[0, 1]}
  loss %loss
}
