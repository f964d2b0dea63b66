// Data must fill the type.
graph {
  // expect-error@+1 P0402: {{the data are 16 bytes, the type has 24}}
  %x = constant : i64[3] data [1, 2]
}
