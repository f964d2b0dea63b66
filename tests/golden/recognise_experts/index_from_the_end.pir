// Ids that may be negative keep their wrap.
// RUN-PASSES: recognise_experts
// CHECK: %index = where(%negative, %wrapped, %ids)
// CHECK: expert_order(%index)
graph {
  %x = input "x" : f32[6, 3]
  %ids = input "ids" : i64[6]
  %w = parameter ["w"] : f32[4, 5, 3]
  %zero = constant : i64[] data [0]
  %four = constant : i64[] data [4]
  %negative = lt(%ids, %zero)
  %wrapped = add(%ids, %four)
  %index = where(%negative, %wrapped, %ids)
  %m = index_select(%w, %index) {dim=0}
  %row = reshape(%x) {shape=[6, 3, 1]}
  %y = matmul(%m, %row)
  output "y" = %y
}
