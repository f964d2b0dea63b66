// A divisor made of sums over inputs alone is known before the forward, with the function applied to it.
// RUN-PASSES: normalise_losses
// PARAMS: local_batch=2, pieces=4
// CHECK: [[part]] = sum(%mask) {dims=[0, 1], keepdim=false} : f32[] phase count chunk 1
// CHECK: [[all]] = step_sum(%[[part]]) : f32[] phase count chunk 1
// CHECK: [[floor]] = clamp(%[[all]]) {min=1.0, max=inf} : f32[] phase count_finish chunk 1
// CHECK: %total = sum(%masked) {dims=[0, 1], keepdim=false} : f32[] chunk 1
// CHECK: [[loss]] = div(%total, %[[floor]]) : f32[] chunk 1
// CHECK: loss %[[loss]]
graph {
  %x = input "x" : f32[2, 3]
  %mask = input "mask" : f32[2, 3]
  %w = parameter ["w"] : f32[3, 3]
  %y = linear(%x, %w) chunk 0
  %masked = mul(%y, %mask) chunk 1
  %total = sum(%masked) {dims=[0, 1]} chunk 1
  %count = sum(%mask) {dims=[0, 1]} chunk 1
  %floor = clamp(%count) {min=1, max=inf} chunk 1
  %loss = div(%total, %floor) chunk 1
  loss %loss
}
