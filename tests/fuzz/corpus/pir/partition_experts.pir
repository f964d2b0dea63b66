graph {
  %x = input "x" : f32[12, 8]
  %ids = input "ids" : i64[12]
  %w = parameter ["w"] : f32[4, 8, 8]
  %b = parameter ["b"] : f32[4, 8]
  %order, %position, %counts, %dropped = expert_order(%ids) {experts=4, segments=1, capacity=12}
  %rows = take_rows(%x, %order, %position) {repeat=1}
  %h = grouped_matmul(%rows, %w, %counts) {transposed=false}
  %bias = grouped_expand(%b, %counts) {rows=12}
  %sum = add(%h, %bias)
  %halves = reshape(%sum) {shape=[12, 4, 2]}
  %a = tanh(%halves)
  %whole = reshape(%a) {shape=[12, 8]}
  %y = take_rows(%whole, %position, %order) {repeat=1}
  %s = sum(%y) {dims=[0, 1]}
  loss %s
}
