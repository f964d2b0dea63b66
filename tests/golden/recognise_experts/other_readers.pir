// What is no row of its own goes back to the model's order first: dropout, and a sum over rows.
// RUN-PASSES: recognise_experts
// CHECK: [[first]] = grouped_matmul(%[[rows]], %w, %[[counts]])
// CHECK: [[back]] = take_rows(%[[first]], %[[position]], %[[order]]) {repeat=1}
// CHECK: %dropped = dropout(%flat,
// CHECK: [[again]] = take_rows(%[[dropped_rows]], %[[order]], %[[position]]) {repeat=1}
// CHECK: grouped_matmul(%[[again_rows]], %v, %[[counts]])
// CHECK: %total = sum(%flat)
graph {
  %x = input "x" : f32[6, 3]
  %ids = input "ids" : i64[6]
  %w = parameter ["w"] : f32[4, 5, 3]
  %v = parameter ["v"] : f32[4, 3, 5]
  %seed_step = seed_step
  %sample_offset = sample_offset
  %m = index_select(%w, %ids) {dim=0}
  %row = reshape(%x) {shape=[6, 3, 1]}
  %product = matmul(%m, %row)
  %flat = reshape(%product) {shape=[6, 5]}
  %dropped = dropout(%flat, %seed_step, %sample_offset) {p=0.5, key=1}
  %n = index_select(%v, %ids) {dim=0}
  %column = reshape(%dropped) {shape=[6, 5, 1]}
  %y = matmul(%n, %column)
  %total = sum(%flat) {dims=[0]}
  output "y" = %y
  output "total" = %total
}
