// A term that no operator makes, as a constant, is made by one: a program adds it up over the step.
// RUN-PASSES: spread_losses
// CHECK: %[[place:[^ ]+]] = reshape(%one) {shape=[1]} : f32[1] chunk 1
// CHECK: %[[term:[^ ]+]] = sum(%[[place]])
// CHECK: loss_term %b
// CHECK: loss %[[term]]
module {
  step batch 2 microbatches 1
  training clip 0.0
}
variant 2 {
  chunk 0 "PP0"
  chunk 1 "PP1"
  graph {
    %x = input "x" : f32[2, 2]
    %one = constant : f32[] data [1.0]
    %y = relu(%x) chunk 0
    %a = sum(%y) {dims=[0, 1]} chunk 0
    %z = relu(%y) chunk 1
    %b = sum(%z) {dims=[0, 1]} chunk 1
    %two = add(%a, %b) chunk 1
    %loss = add(%two, %one) chunk 1
    loss %loss
  }
}
