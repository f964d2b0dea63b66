// A result type that inference does not give.
// expect-error P0405: {{'y' is f32[5], inference gives f32[4]}}
graph {
  %x = input "x" : f32[4]
  %y = relu(%x) : f32[5]
}
