// Constants of one type and one content are one constant.
// RUN-PASSES: fold
// CHECK: %first = constant : f32[2] data [1.0, 2.0]
// CHECK-NOT: constant
// CHECK: %y = add(%x, %first)
// CHECK: %z = mul(%y, %first)
graph {
  %x = input "x" : f32[2]
  %first = constant : f32[2] data [1.0, 2.0]
  %second = constant : f32[2] data [1.0, 2.0]
  %y = add(%x, %first)
  %z = mul(%y, %second)
  output "z" = %z
}
