// Shape plumbing becomes one constant; what nothing reads is gone.
// RUN-PASSES: fold
// CHECK: %cast = constant : f32[4] data [0.0, 0.5, 1.0, 1.5]
// CHECK-NOT: arange
// CHECK-NOT: unread
// CHECK: %y = add(%x, %cast) : f32[2, 4]
graph {
  %x = input "x" : f32[2, 4]
  %one = constant : i64[1] data [1]
  %minus = constant : i64[] data [-1]
  %half = constant : f32[] data [0.5]
  %ones = expand(%one) {shape=[4]}
  %sum = cumsum(%ones) {dim=0}
  %arange = add(%sum, %minus)
  %as_float = cast(%arange) {to=f32}
  %cast = mul(%as_float, %half)
  %y = add(%x, %cast)
  %unread = exp(%x)
  output "y" = %y
}
