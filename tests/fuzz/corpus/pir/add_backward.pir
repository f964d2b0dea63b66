module {
  step batch 2 microbatches 1
  training clip 0.0
}
variant 2 {
  chunk 0 "PP0"
  chunk 1 "PP1"
  graph {
    %x = input "x" : f32[2, 3]
    %v = parameter ["v"] : f32[3, 3]
    %w = parameter ["w"] : f32[3, 3]
    %y = linear(%x, %v, none) chunk 0
    %z = linear(%y, %w, none) chunk 1
    %loss = sum(%z) {dims=[0, 1]} chunk 1
    loss %loss
  }
}
