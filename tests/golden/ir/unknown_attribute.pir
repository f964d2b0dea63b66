// Attributes belong to the operator.
graph {
  %x = input "x" : f32[4]
  // expect-error@+1 P0402: {{the operator has no attribute 'axis'}}
  %y = softmax(%x) {axis=0}
}
