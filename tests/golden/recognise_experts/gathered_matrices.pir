// Two products over gathered matrices become grouped products on rows in one order; what stands between
// them stays in that order, and no op reads a gathered matrix.
// RUN-PASSES: recognise_experts
// CHECK: %[[order]], %[[position]], %[[counts]], %[[dropped]] = expert_order(%[[ids]]) {experts=4, segments=1, capacity=12, strict=false}
// CHECK: take_rows(%x, %[[order]], %[[position]]) {repeat=2} : f32[12, 8]
// CHECK: [[up]] = grouped_matmul(%[[rows]], %w1, %[[counts]]) {transposed=true} : f32[12, 6]
// CHECK: [[act]] = silu(%[[up]]) : f32[12, 6]
// CHECK: [[down]] = grouped_matmul(%[[act]], %w2, %[[counts]]) {transposed=false} : f32[12, 8]
// CHECK: take_rows(%[[down]], %[[position]], %[[order]]) {repeat=1} : f32[12, 8]
// CHECK-NOT: index_select
graph {
  %x = input "x" : f32[6, 8]
  %w1 = parameter ["w1"] : f32[4, 6, 8]
  %w2 = parameter ["w2"] : f32[4, 6, 8]
  %router = parameter ["router"] : f32[4, 8]
  %zero = constant : i64[] data [0]
  %four = constant : i64[] data [4]
  %scores = linear(%x, %router)
  %gate, %chosen = topk(%scores) {dim=1, k=2}
  %ids = reshape(%chosen) {shape=[12]}
  %negative = lt(%ids, %zero)
  %wrapped = add(%ids, %four)
  %index = where(%negative, %wrapped, %ids)
  %x1 = reshape(%x) {shape=[6, 1, 8]}
  %x2 = expand(%x1) {shape=[6, 2, 8]}
  %rows = reshape(%x2) {shape=[12, 8, 1]}
  %m1 = index_select(%w1, %index) {dim=0}
  %y1 = matmul(%m1, %rows)
  %h = reshape(%y1) {shape=[12, 6]}
  %act = silu(%h)
  %m2 = index_select(%w2, %index) {dim=0}
  %row = reshape(%act) {shape=[12, 1, 6]}
  %y2 = matmul(%row, %m2)
  %y = reshape(%y2) {shape=[6, 2, 8]}
  %weight = reshape(%gate) {shape=[6, 2, 1]}
  %weighted = mul(%y, %weight)
  %out = sum(%weighted) {dims=[1]}
  output "out" = %out
}
