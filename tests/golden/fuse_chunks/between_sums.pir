// What a sum over places leaves of a region joins what is computed before values enter the parts of the next region;
// conversions stay what they are.
// RUN-PASSES: fuse_chunks
// CHECK: chunk 0 "A" tags ["L" 0] region 0
// CHECK: chunk 1 "A.sum" tags ["L" 0] region 0 exchange
// CHECK: chunk 2 "A.rest" region 0
// CHECK: chunk 3 "B.enter" tags ["L" 1] region 0 exchange
// CHECK: chunk 4 "B.rest" tags ["L" 1] region 0
// CHECK-NOT: chunk 5 "
// CHECK: %y = add(%s, %x) : f32[1, 2] chunk 2
// CHECK: %z = tanh(%y) : f32[1, 2] chunk 2
// CHECK: %e = enter(%z) : f32[1, 2] chunk 3
module {
  step batch 1 microbatches 1
  training clip 0.0
}
variant 1 {
  tag "L" 2
  chunk 0 "A" tags ["L" 0] region 0
  chunk 1 "A.sum" tags ["L" 0] region 0 exchange
  chunk 2 "A.rest" tags ["L" 0] region 0
  chunk 3 "B" tags ["L" 1] region 1
  chunk 4 "B.enter" tags ["L" 1] region 1 exchange
  chunk 5 "B.rest" tags ["L" 1] region 1
  graph {
    %x = input "x" : f32[1, 2]
    %w = parameter ["w"] : f32[2, 2]
    %a = linear(%x, %w, none) chunk 0
    %s = all_reduce(%a) chunk 1
    %y = add(%s, %x) chunk 2
    %z = tanh(%y) chunk 3
    %e = enter(%z) chunk 4
    %loss = sum(%e) {dims=[0, 1]} chunk 5
    loss %loss
  }
}
distribution {
  world 2
  stream 0 "compute"
  stream 1 "tp"
  group 0 [0, 1] places 2
  cut 0 [[0, 1]] stream 1 @0:0:0+1
  chunk 0 {
    groups [0]
  }
  chunk 1 {
    groups [0]
  }
  chunk 2 {
    groups [0]
  }
  chunk 3 {
    groups [0]
  }
  chunk 4 {
    groups [0]
  }
  chunk 5 {
    groups [0]
  }
}
