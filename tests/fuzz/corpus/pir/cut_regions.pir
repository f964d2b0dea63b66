module {
  step batch 4 microbatches 1
  training clip 0.0
}
variant 4 {
  graph {
    %x = input "x" : f32[4, 2]
    %v = parameter ["a.weight"] : f32[2, 2]
    %w = parameter ["b.weight"] : f32[2, 2]
    %y = linear(%x, %v, none) scope "a"
    %z = linear(%y, %w, none) scope "b"
    %loss = mean(%z) {dims=[0, 1]}
    loss %loss
  }
}
