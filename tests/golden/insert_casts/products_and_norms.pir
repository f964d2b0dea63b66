// Products take the narrow type, norms and sums f32; weights that are read narrow alone get masters, and a norm's stays.
// RUN-PASSES: insert_casts
// CHECK: %v = parameter ["v"] : bf16[2, 2] master f32 stored f32
// CHECK: %g = parameter ["g"] : f32[2]
// CHECK-NOT: master
// CHECK: %[[x16]] = cast(%x) {to=bf16} : bf16[2, 2] chunk 0
// CHECK: %y = linear(%[[x16]], %v, none) : bf16[2, 2] chunk 0
// CHECK: %z = gelu(%y) {approximate="none"} : bf16[2, 2] chunk 0
// CHECK: %[[z32]] = cast(%z) {to=f32} : f32[2, 2] chunk 0
// CHECK: %n, %n.1 = rms_norm(%[[z32]], %g)
// CHECK: %loss = sum(%n)
module {
  step batch 2 microbatches 1
  training clip 0.0
  precision compute bf16 master f32 reduce f32
}
variant 2 {
  chunk 0 "all"
  graph {
    %x = input "x" : f32[2, 2]
    %v = parameter ["v"] : f32[2, 2]
    %g = parameter ["g"] : f32[2]
    %y = linear(%x, %v, none) chunk 0
    %z = gelu(%y) {approximate="none"} chunk 0
    %n, %rstd = rms_norm(%z, %g) {axes=1, eps=1e-06} chunk 0
    %loss = sum(%n) {dims=[0, 1]} chunk 0
    loss %loss
  }
}
