module {
  step batch 1 microbatches 1
  training clip 0.0
}
variant 1 {
  tag "EP" 1
  chunk 0 "before" region 0
  chunk 1 "EP0" tags ["EP" 0] region 1 shard 0
  chunk 2 "behind" region 2
  graph {
    %x = input "x" : f32[1, 2]
    %w = parameter ["w"] : f32[2, 2]
    %a = relu(%x) chunk 0
    %b = linear(%a, %w, none) chunk 1
    %loss = sum(%b) {dims=[0, 1]} chunk 2
    loss %loss
  }
}
distribution {
  world 2
  stream 0 "compute"
  group 0 [0]
  group 1 [1]
  expert_groups 0 [[0]] stream 0 @0:0:0+1
  chunk 0 {
    groups [0]
  }
  chunk 1 {
    groups [0]
    shard 0
  }
  chunk 2 {
    groups [1]
  }
}
schedule {
  order {
    slot {
      member "{PASS: F}" chunks [0..2] microbatches [0] phases [F] @0:0:0+1
    }
  }
}
