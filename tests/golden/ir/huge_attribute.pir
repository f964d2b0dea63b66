// Numbers whose products would leave 64 bits are refused.
graph {
  %x = input "x" : f32[4]
  // expect-error@+1 P0402: {{an attribute is out of range}}
  %y = expand(%x) {shape=[9000000000000000000, 4]}
}
