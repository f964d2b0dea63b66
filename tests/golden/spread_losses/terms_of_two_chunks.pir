// Each term of a loss is added up in the chunk that makes it; a factor around their sum is repeated for each.
// RUN-PASSES: spread_losses
// CHECK-NOT: add
// CHECK: %[[first]] = mul(%a, %half) : f32[] chunk 0
// CHECK: %[[last]] = mul(%b, %half) : f32[] chunk 1
// CHECK: loss_term %[[first]]
// CHECK: loss %[[last]]
module {
  step batch 2 microbatches 1
  training clip 0.0
}
variant 2 {
  chunk 0 "PP0"
  chunk 1 "PP1"
  graph {
    %x = input "x" : f32[2, 2]
    %half = constant : f32[] data [0.5]
    %y = relu(%x) chunk 0
    %a = sum(%y) {dims=[0, 1]} chunk 0
    %z = relu(%y) chunk 1
    %b = sum(%z) {dims=[0, 1]} chunk 1
    %both = add(%a, %b) chunk 1
    %loss = mul(%both, %half) chunk 1
    loss %loss
  }
}
