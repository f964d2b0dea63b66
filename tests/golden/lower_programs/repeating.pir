// A graph that repeats forwards has values of its own before those that chunks exchange; what is exchanged is the same
// in both graphs, read from text, too.
// RUN-PASSES: split_backward,lower_programs
// CHECK: lowered
// CHECK: repeating
// CHECK: %y_again = tanh(%h_again) : f32[2, 3] phase backward chunk 1
// CHECK: %h_grad = cos(%y_grad) : f32[2, 3] phase backward chunk 1
module {
  step batch 4 microbatches 2 split cut
  training clip 0.0
}
variant 2 {
  chunk 0 "PP0"
  chunk 1 "PP1"
  graph {
    %x = input "x" : f32[2, 3]
    %w = parameter ["w"] : f32[2, 3]
    %m = mul(%x, %w) chunk 0
    %h = sin(%m) chunk 1
    %y = tanh(%h) chunk 1
    %loss = sum(%y) {dims=[0, 1]} chunk 1
    %one = expand(%loss) {shape=[2, 3]} phase backward chunk 1
    %y_grad = tanh_backward(%one, %y) phase backward chunk 1
    %h_grad = cos(%y_grad) phase backward chunk 1
    %w_grad = mul(%h_grad, %x) phase backward chunk 0
    accumulate_grad(%w_grad) {parameter=%w} phase backward chunk 0
    loss %loss
  }
  repeating
  graph {
    %x = input "x" : f32[2, 3]
    %w = parameter ["w"] : f32[2, 3]
    %m = mul(%x, %w) chunk 0
    %h = sin(%m) chunk 1
    %y = tanh(%h) chunk 1
    %loss = sum(%y) {dims=[0, 1]} chunk 1
    %one = expand(%loss) {shape=[2, 3]} phase backward chunk 1
    %h_again = sin(%m) phase backward chunk 1
    %y_again = tanh(%h_again) phase backward chunk 1
    %y_grad = tanh_backward(%one, %y_again) phase backward chunk 1
    %h_grad = cos(%y_grad) phase backward chunk 1
    %w_grad = mul(%h_grad, %x) phase backward chunk 0
    accumulate_grad(%w_grad) {parameter=%w} phase backward chunk 0
    loss %loss
  }
}
distribution {
  world 2
  stream 0 "compute"
  group 0 [0]
  group 1 [1]
  chunk 0 {
    groups [0 x2]
  }
  chunk 1 {
    groups [1 x2]
    recomputed [1, 1]
  }
}
