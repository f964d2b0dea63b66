module {
  step batch 8 microbatches 1
  training clip 0.0
}
variant 2 {
  tag "PP" 2
  chunk 0 "PP0" tags ["PP" 0]
  chunk 1 "PP1" tags ["PP" 1]
  graph {
    %x = input "x" : f32[2, 6]
  }
}
distribution {
  world 3
  stream 0 "compute"
  group 0 [0..1]
  group 1 [2]
  chunk 0 {
    groups [0]
  }
  chunk 1 {
    groups [1]
  }
}
