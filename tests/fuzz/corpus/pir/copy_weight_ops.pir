module {
  step batch 8 microbatches 1
  training clip 0.0
}
variant 8 {
  chunk 0 "PP0"
  chunk 1 "PP1"
  chunk 2 "PP2"
  graph {
    %x = input "x" : f32[8, 2]
    %w = parameter ["w"] : f32[2, 2]
    %bias = mul(%w, %w) chunk 0
    %y = matmul(%x, %bias) chunk 0
    %z = matmul(%y, %bias) chunk 1
    %r = matmul(%z, %bias) chunk 2
    %loss = sum(%r) {dims=[0, 1]} chunk 2
    loss %loss
  }
}
distribution {
  world 4
  stream 0 "compute"
  group 0 [0]
  group 1 [1]
  group 2 [2..3]
  chunk 0 {
    groups [0]
  }
  chunk 1 {
    groups [1]
  }
  chunk 2 {
    groups [2]
  }
}
