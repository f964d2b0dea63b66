// Left alone: gathered matrices that meet several rows each, and matrices that are made from the input.
// RUN-PASSES: recognise_experts
// CHECK: %m = index_select(%w, %ids)
// CHECK: %y = matmul(%m, %several)
// CHECK: %n = index_select(%x, %ids)
// CHECK: %z = matmul(%n, %one)
// CHECK-NOT: expert_order
graph {
  %x = input "x" : f32[6, 5, 3]
  %ids = input "ids" : i64[6]
  %w = parameter ["w"] : f32[4, 5, 3]
  %m = index_select(%w, %ids) {dim=0}
  %several = permute(%x) {dims=[0, 2, 1]}
  %y = matmul(%m, %several)
  %n = index_select(%x, %ids) {dim=0}
  %one = slice(%several) {dim=2, start=0, end=1}
  %z = matmul(%n, %one)
  output "y" = %y
  output "z" = %z
}
