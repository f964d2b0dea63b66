// Rows in two axes, tokens and choices; the row of a token is broadcast over its choices, and matrices are
// transposed after they are gathered.
// RUN-PASSES: recognise_experts
// CHECK: %[[order]], %[[position]], %[[counts]], %[[dropped]] = expert_order(%[[ids]]) {experts=4, segments=1, capacity=12, strict=false}
// CHECK: take_rows(%[[tokens]], %[[order]], %[[position]]) {repeat=2} : f32[12, 8]
// CHECK: [[y]] = grouped_matmul(%[[rows]], %w, %[[counts]]) {transposed=true} : f32[12, 5]
// CHECK: [[back]] = take_rows(%[[y]], %[[position]], %[[order]]) {repeat=1}
// CHECK: reshape(%[[back]]) {shape=[6, 2, 1, 5]}
// CHECK-NOT: index_select
graph {
  %x = input "x" : f32[6, 8]
  %chosen = input "ids" : i64[6, 2]
  %w = parameter ["w"] : f32[4, 5, 8]
  %ids = reshape(%chosen) {shape=[12]}
  %m = index_select(%w, %ids) {dim=0}
  %m2 = reshape(%m) {shape=[6, 2, 5, 8]}
  %turned = permute(%m2) {dims=[0, 1, 3, 2]}
  %row = reshape(%x) {shape=[6, 1, 1, 8]}
  %y = matmul(%row, %turned)
  output "y" = %y
}
