// Where the strategy keeps what a forward has gathered, backwards read that.
// RUN-PASSES: recompute
// CHECK-NOT: phase backward chunk 3
// CHECK: mul(%r, %g)
module {
  step batch 4 microbatches 2 split cut
  training clip 0.0
}
variant 2 {
  chunk 0 "PP0" region 0
  chunk 1 "PP0.gather" region 0 exchange
  chunk 2 "PP0.rest" region 0
  graph {
    %x = input "x" : f32[2, 3]
    %p = sin(%x) chunk 0
    %w = all_gather(%p) {parts=2, cut=0} chunk 1
    %r = reshape(%w) {shape=[4, 3]} chunk 2
    %y = tanh(%r) chunk 2
    %loss = sum(%y) {dims=[0, 1]} chunk 2
    %one = expand(%loss) {shape=[4, 3]} phase backward chunk 2
    %g = tanh_backward(%one, %y) phase backward chunk 2
    %h = mul(%r, %g) phase backward chunk 2
    loss %loss
  }
}
distribution {
  world 2
  stream 0 "compute"
  stream 1 "tp"
  group 0 [0..1] places 2
  cut 0 [[0..1]] stream 1 @0:0:0+1
  chunk 0 {
    groups [0 x2]
    cuts [0 dim sequence keeps_wholes @0:0:0+1]
  }
  chunk 1 {
    groups [0 x2]
    cuts [0 dim sequence keeps_wholes @0:0:0+1]
  }
  chunk 2 {
    groups [0 x2]
    cuts [0 dim sequence keeps_wholes @0:0:0+1]
  }
}
