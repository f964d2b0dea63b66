// A value must stand before its readers.
graph {
  // expect-error@+1 P0402: {{no value 'x' is defined before this line}}
  %y = relu(%x)
  %x = input "x" : f32[4]
}
