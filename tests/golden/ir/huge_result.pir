// Small operands may broadcast to more elements than any machine holds.
graph {
  %a = input "a" : f32[1000000000, 1]
  %b = input "b" : f32[1, 1000000000]
  // expect-error@+1 P0402: {{too many elements}}
  %y = add(%a, %b)
}
