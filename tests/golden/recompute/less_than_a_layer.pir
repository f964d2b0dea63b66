// A share that is less than a layer is of one: nothing is left out in silence.
// RUN-PASSES: recompute
// CHECK: tanh_backward(%one, %e)
// CHECK: tanh_backward(%ge, %d)
// CHECK: %[[a]] = linear(%x, %w, none) : f32[2, 4] phase backward chunk 0
// CHECK: %[[b]] = tanh(%[[a]]) : f32[2, 4] phase backward chunk 0
// CHECK: linear_backward_weight(%gd, %[[b]])
module {
  step batch 4 microbatches 2 split cut
  training clip 0.0
}
variant 2 {
  chunk 0 "PP0"
  graph {
    %x = input "x" : f32[2, 4]
    %w = parameter ["w"] : f32[4, 4]
    %v = parameter ["v"] : f32[4, 4]
    %a = linear(%x, %w, none) chunk 0 scope "h.0.attn"
    %b = tanh(%a) chunk 0 scope "h.0.mlp"
    %c = linear(%b, %v, none) chunk 0 scope "h.1.attn"
    %d = tanh(%c) chunk 0 scope "h.1.mlp.act"
    %e = tanh(%d) chunk 0 scope "norm"
    %loss = sum(%e) {dims=[0, 1]} chunk 0
    %one = expand(%loss) {shape=[2, 4]} phase backward chunk 0
    %ge = tanh_backward(%one, %e) phase backward chunk 0
    %gd = tanh_backward(%ge, %d) phase backward chunk 0
    %gv = linear_backward_weight(%gd, %b) phase backward chunk 0
    %gb = linear_backward_input(%gd, %v) phase backward chunk 0
    %ga = tanh_backward(%gb, %b) phase backward chunk 0
    %gw = linear_backward_weight(%ga, %x) phase backward chunk 0
    accumulate_grad(%gv) {parameter=%v} phase backward chunk 0
    accumulate_grad(%gw) {parameter=%w} phase backward chunk 0
    loss %loss
  }
}
distribution {
  world 1
  stream 0 "compute"
  group 0 [0]
  chunk 0 {
    groups [0 x2]
    recomputed [1 x2]
    repeats all layers 0.1
  }
}
