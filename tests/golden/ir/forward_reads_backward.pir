// Phases run one behind the other.
// expect-error P0410: {{forward reads backward}}
graph {
  %x = input "x" : f32[4]
  %y = relu(%x) phase backward
  %z = relu(%y)
}
