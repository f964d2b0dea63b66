module {
  step batch 2 microbatches 1
  training clip 0.0
}
variant 2 {
  chunk 0 "PP0"
  chunk 1 "PP1"
  graph {
    %x = input "x" : f32[2, 3]
    %v = parameter ["v"] : f32[3, 3]
    %w = parameter ["w"] : f32[3, 3]
    %s = constant : f32[1, 1] data [1.0]
    %y = linear(%x, %v, none) chunk 0
    %z = linear(%y, %w, none) chunk 1
    %z_grad = expand(%s) {shape=[2, 3]} phase backward chunk 1
    %y_grad = linear_backward_input(%z_grad, %w) phase backward chunk 1
    %w_grad = linear_backward_weight(%z_grad, %y) phase backward chunk 1
    accumulate_grad(%w_grad) {parameter=%w} phase backward chunk 1
    %v_grad = linear_backward_weight(%y_grad, %x) phase backward chunk 0
    accumulate_grad(%v_grad) {parameter=%v} phase backward chunk 0
  }
  gradients {
    %v = %v_grad
    %w = %w_grad
    %y = %y_grad
    %z = %z_grad
  }
}
distribution {
  world 1
  stream 0 "compute"
  group 0 [0]
  chunk 0 {
    groups [0]
  }
  chunk 1 {
    groups [0]
    backward_split
  }
}
