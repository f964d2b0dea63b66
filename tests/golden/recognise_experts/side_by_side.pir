// One product for each token, with the matrices of its experts side by side, as an einsum over tokens and
// choices is written.
// RUN-PASSES: recognise_experts
// CHECK: [[order]], %[[position]], %[[counts]], %[[dropped]] = expert_order(%ids) {experts=4, segments=1, capacity=12, strict=false}
// CHECK: [[rows]] = take_rows(%x, %[[order]], %[[position]]) {repeat=2} : f32[12, 8]
// CHECK: [[y]] = grouped_matmul(%[[rows]], %w, %[[counts]]) {transposed=false} : f32[12, 5]
// CHECK: [[z]] = grouped_matmul(%[[again]], %v, %[[counts]]) {transposed=true} : f32[12, 5]
// CHECK-NOT: index_select
graph {
  %x = input "x" : f32[6, 8]
  %ids = input "ids" : i64[12]
  %w = parameter ["w"] : f32[4, 8, 5]
  %v = parameter ["v"] : f32[4, 5, 8]
  %m = index_select(%w, %ids) {dim=0}
  %choices = reshape(%m) {shape=[6, 2, 8, 5]}
  %turned = permute(%choices) {dims=[0, 2, 1, 3]}
  %wide = reshape(%turned) {shape=[6, 8, 10]}
  %row = reshape(%x) {shape=[6, 1, 8]}
  %product = matmul(%row, %wide)
  %y = reshape(%product) {shape=[6, 2, 5]}
  %n = index_select(%v, %ids) {dim=0}
  %n_choices = reshape(%n) {shape=[6, 2, 5, 8]}
  %n_wide = reshape(%n_choices) {shape=[6, 10, 8]}
  %column = reshape(%x) {shape=[6, 8, 1]}
  %n_product = matmul(%n_wide, %column)
  %z = reshape(%n_product) {shape=[6, 2, 5]}
  output "y" = %y
  output "z" = %z
}
