// What the loss has twice is added to the step's once, also where one of the two is a view; so is what differs from it by a factor.
// RUN-PASSES: spread_losses
// CHECK: %[[half]] = mul(%a, %factor) : f32[] chunk 0
// CHECK: %[[view]] = reshape(%reshape) {shape=[]} : f32[] chunk 0
// CHECK: %[[two]] = add(%[[half]], %[[view]]) : f32[] chunk 0
// CHECK: %[[all]] = add(%[[two]], %a) : f32[] chunk 0
// CHECK-NOT: loss_term %a
// CHECK: loss_term %[[all]]
// CHECK: loss %b
module {
  step batch 2 microbatches 1
  training clip 0.0
}
variant 2 {
  chunk 0 "PP0"
  chunk 1 "PP1"
  graph {
    %x = input "x" : f32[2, 2]
    %factor = constant : f32[] data [0.5]
    %y = relu(%x) chunk 0
    %a = sum(%y) {dims=[0, 1]} chunk 0
    %view = reshape(%a) {shape=[1]} chunk 0
    %z = relu(%y) chunk 1
    %b = sum(%z) {dims=[0, 1]} chunk 1
    %half = mul(%a, %factor) chunk 1
    %number = reshape(%view) {shape=[]} chunk 1
    %one = add(%half, %number) chunk 1
    %two = add(%one, %a) chunk 1
    %loss = add(%two, %b) chunk 1
    loss %loss
  }
}
