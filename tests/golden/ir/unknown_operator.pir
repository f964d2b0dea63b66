// An operator outside the set.
graph {
  %x = input "x" : f32[4]
  // expect-error@+1 P0402: {{no operator 'frobnicate'}}
  %y = frobnicate(%x)
}
