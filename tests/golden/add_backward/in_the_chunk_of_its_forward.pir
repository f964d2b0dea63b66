// Backward ops take the chunk of the forward op that they serve, and the total gradient of every value is known.
// RUN-PASSES: add_backward
// CHECK: %[[z_grad]] = expand(%[[one]]) {shape=[2, 3]} : f32[2, 3] phase backward chunk 1
// CHECK: %[[y_grad]] = linear_backward_input(%[[z_grad]], %w) : f32[2, 3] phase backward chunk 1
// CHECK: %[[w_grad]] = linear_backward_weight(%[[z_grad]], %y) : f32[3, 3] phase backward chunk 1
// CHECK: accumulate_grad(%[[w_grad]]) {parameter=%w} phase backward chunk 1
// CHECK: %[[v_grad]] = linear_backward_weight(%[[y_grad]], %x) : f32[3, 3] phase backward chunk 0
// CHECK: accumulate_grad(%[[v_grad]]) {parameter=%v} phase backward chunk 0
// CHECK: gradients {
// CHECK: %v = %[[v_grad]]
// CHECK: %w = %[[w_grad]]
// CHECK: %y = %[[y_grad]]
// CHECK: %z = %[[z_grad]]
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
    %y = linear(%x, %v, none) chunk 0
    %z = linear(%y, %w, none) chunk 1
    %loss = sum(%z) {dims=[0, 1]} chunk 1
    loss %loss
  }
}
