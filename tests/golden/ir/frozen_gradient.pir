// Only trained parameters have gradients.
// expect-error P0411: {{'w' is not trained}}
graph {
  %w = parameter ["w"] : f32[4] frozen
  accumulate_grad(%w) {parameter=%w} phase backward
}
