// The loss is one number.
// expect-error P0409: {{the loss is f32[4]}}
graph {
  %x = input "x" : f32[4]
  loss %x
}
