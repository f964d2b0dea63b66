// Inputs of a model have names: data are fed by them.
graph {
  // expect-error@+1 P0402: {{an empty name}}
  %x = input "" : f32[4]
}
