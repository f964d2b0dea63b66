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
