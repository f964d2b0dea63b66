// A grouped product whose counts are not those of the sort is left as the model has it.
// RUN-PASSES: recognise_experts
// CHECK: %least, %sorted = topk(%negative)
// CHECK: grouped_matmul(%rows, %w, %counts)
// CHECK-NOT: expert_order
graph {
  %x = input "x" : f32[12, 8]
  %ids = input "ids" : i64[12]
  %counts = input "counts" : i64[1, 4]
  %w = parameter ["w"] : f32[4, 5, 8]
  %negative = neg(%ids)
  %least, %sorted = topk(%negative) {dim=0, k=12}
  %rows = index_select(%x, %sorted) {dim=0}
  %y = grouped_matmul(%rows, %w, %counts) {transposed=true}
  output "y" = %y
}
