module {
  step batch 2 microbatches 1
  training clip 0.0
}
variant 2 {
  chunk 0 "all"
  graph {
    %x = input "x" : f32[2, 3]
    %y = relu(%x) chunk 0
    output "y" = %y
  }
}
distribution {
  world 1
  stream 0 "compute"
  group 0 [0]
  chunk 0 {
    groups [0]
  }
}
