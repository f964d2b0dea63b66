// Biases gathered by the same ids are entries of each expert, and are added before the rows go back.
// RUN-PASSES: recognise_experts
// CHECK: %[[order]], %[[position]], %[[counts]], %[[dropped]] = expert_order(%ids)
// CHECK: [[rows]] = take_rows(%x, %[[order]], %[[position]]) {repeat=1}
// CHECK: [[product]] = grouped_matmul(%[[rows]], %w, %[[counts]]) {transposed=true}
// CHECK: [[bias]] = grouped_expand(%b, %[[counts]]) {rows=6} : f32[6, 5]
// CHECK: [[sum]] = add(%[[product]], %[[bias]]) : f32[6, 5]
// CHECK: take_rows(%[[sum]], %[[position]], %[[order]]) {repeat=1}
// CHECK-NOT: index_select
graph {
  %x = input "x" : f32[6, 3]
  %ids = input "ids" : i64[6]
  %w = parameter ["w"] : f32[4, 5, 3]
  %b = parameter ["b"] : f32[4, 5]
  %m = index_select(%w, %ids) {dim=0}
  %row = reshape(%x) {shape=[6, 3, 1]}
  %product = matmul(%m, %row)
  %flat = reshape(%product) {shape=[6, 5]}
  %bias = index_select(%b, %ids) {dim=0}
  %y = add(%flat, %bias)
  output "y" = %y
}
