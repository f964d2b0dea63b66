module {
  step batch 4 microbatches 1
  training clip 0.0
}
variant 2 {
  tag "PP" 2
  chunk 0 "PP0" tags ["PP" 0]
  chunk 1 "PP1" tags ["PP" 1]
  graph {
    %x = input "x" : f32[2, 2]
    %w = parameter ["w"] : f32[2, 2]
    %y = linear(%x, %w, none) chunk 0
    %loss = mean(%y) {dims=[0, 1]} chunk 1
    loss %loss
  }
}
