// A mean over a piece becomes a sum over the batch of the step, in every variant the same number.
// RUN-PASSES: normalise_losses
// CHECK: variant 4 {
// CHECK: constant : f32[] data [16.0]
// CHECK: %[[sum]] = sum(%x) {dims=[0, 1], keepdim=false} : f32[] chunk 0
// CHECK: variant 2 {
// CHECK: constant : f32[] data [16.0]
module {
  step batch 8 microbatches 2 split cut
  training clip 0.0
}
variant 4 {
  chunk 0 "all"
  graph {
    %x = input "x" : f32[4, 2]
    %loss = mean(%x) {dims=[0, 1]} chunk 0
    loss %loss
  }
}
variant 2 {
  chunk 0 "all"
  graph {
    %x = input "x" : f32[2, 2]
    %loss = mean(%x) {dims=[0, 1]} chunk 0
    loss %loss
  }
}
