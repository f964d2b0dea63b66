// How many rows an expert has is a statistic of the piece.
// RUN-PASSES: normalise_losses
// PARAMS: local_batch=2, pieces=4
// expect-error P0331: {{'cast' of node 'load'}}
graph {
  prov 0 model "load" "head" ""
  %x = input "x" : f32[2, 3]
  %ids = input "ids" : i64[2]
  %w = parameter ["w"] : f32[4, 3, 3]
  %order, %position, %counts, %dropped = expert_order(%ids) {experts=4, segments=1, capacity=2}
  %rows = take_rows(%x, %order, %position) {repeat=1}
  %h = grouped_matmul(%rows, %w, %counts) {transposed=true}
  %back = take_rows(%h, %position, %order) {repeat=1}
  %load = cast(%counts) {to=f32} prov 0
  %square = mul(%load, %load)
  %balance = sum(%square) {dims=[0, 1]}
  %y = mean(%back) {dims=[0, 1]}
  %loss = add(%y, %balance)
  loss %loss
}
