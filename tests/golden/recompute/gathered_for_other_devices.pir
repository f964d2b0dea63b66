// Only the devices that have the parts gather them again: a stage on other devices keeps the whole that it received.
// RUN-PASSES: recompute
// CHECK: chunk 1 "PP0.gather.again" region 0 exchange again
// CHECK: chunk 3 "PP1" region 1
// CHECK: tanh_backward(%one, %w)
// CHECK: %[[again]] = all_gather(%p) {parts=2, cut=0} : f32[2, 2, 3] phase backward chunk 1
// CHECK: mul(%g, %[[again]])
module {
  step batch 4 microbatches 2 split cut
  training clip 0.0
}
variant 2 {
  chunk 0 "PP0" region 0
  chunk 1 "PP0.gather" region 0 exchange
  chunk 2 "PP1" region 1
  graph {
    %x = input "x" : f32[2, 3]
    %p = sin(%x) chunk 0
    %w = all_gather(%p) {parts=2, cut=0} chunk 1
    %loss = sum(%w) {dims=[0, 1, 2]} chunk 2
    %one = expand(%loss) {shape=[2, 2, 3]} phase backward chunk 2
    %g = tanh_backward(%one, %w) phase backward chunk 2
    %h = mul(%g, %w) phase backward chunk 0
    loss %loss
  }
}
distribution {
  world 3
  stream 0 "compute"
  stream 1 "tp"
  group 0 [0..1] places 2
  group 1 [2]
  cut 0 [[0..1]] stream 1 @0:0:0+1
  chunk 0 {
    groups [0 x2]
    cuts [0 dim sequence @0:0:0+1]
  }
  chunk 1 {
    groups [0 x2]
    cuts [0 dim sequence @0:0:0+1]
  }
  chunk 2 {
    groups [1 x2]
  }
}
