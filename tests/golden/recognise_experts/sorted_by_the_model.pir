// Rows that the model sorts itself for a grouped product: the sort, the histogram and the inverse become one
// expert_order; entries of experts that are read by the sorted ids follow the groups.
// RUN-PASSES: recognise_experts
// CHECK: [[order]], %[[position]], %[[counts]], %[[dropped]] = expert_order(%ids) {experts=4, segments=1, capacity=12, strict=false}
// CHECK: [[rows]] = take_rows(%x, %[[order]], %[[position]]) {repeat=2} : f32[12, 8]
// CHECK: [[gates]] = take_rows(%gate, %[[order]], %[[position]]) {repeat=1} : f32[12]
// CHECK: [[product]] = grouped_matmul(%[[rows]], %w, %[[counts]]) {transposed=true} : f32[12, 5]
// CHECK: [[bias]] = grouped_expand(%b, %[[counts]]) {rows=12} : f32[12, 5]
// CHECK: [[back]] = take_rows(%weighted, %[[position]], %[[order]]) {repeat=1} : f32[12, 5]
// CHECK-NOT: index_select
// CHECK-NOT: topk
// CHECK-NOT: scatter
graph {
  %x = input "x" : f32[6, 8]
  %ids = input "ids" : i64[12]
  %gate = input "gate" : f32[12]
  %w = parameter ["w"] : f32[4, 5, 8]
  %b = parameter ["b"] : f32[4, 5]
  %two = constant : i64[] data [2]
  %experts = constant : i64[4] data [0, 1, 2, 3]
  %places = constant : i64[12] data [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]
  %negative = neg(%ids)
  %least, %sorted = topk(%negative) {dim=0, k=12}
  %in_order = neg(%least)
  %token = div(%sorted, %two)
  %rows = index_select(%x, %token) {dim=0}
  %gates = index_select(%gate, %sorted) {dim=0}
  %column = reshape(%in_order) {shape=[12, 1]}
  %same = eq(%column, %experts)
  %ones = cast(%same) {to=f32}
  %histogram = sum(%ones) {dims=[0]}
  %whole = cast(%histogram) {to=i64}
  %counts = reshape(%whole) {shape=[1, 4]}
  %product = grouped_matmul(%rows, %w, %counts) {transposed=true}
  %bias = index_select(%b, %in_order) {dim=0}
  %h = add(%product, %bias)
  %gate_column = reshape(%gates) {shape=[12, 1]}
  %weighted = mul(%h, %gate_column)
  %empty = fill() {shape=[12], value=0.0, to=i64}
  %inverse = scatter(%empty, %sorted, %places) {dim=0}
  %back = index_select(%weighted, %inverse) {dim=0}
  %choices = reshape(%back) {shape=[6, 2, 5]}
  %out = sum(%choices) {dims=[1]}
  output "out" = %out
}
