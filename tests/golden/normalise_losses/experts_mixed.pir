// A reading across rows that stand in the order of their experts mixes samples.
// RUN-PASSES: normalise_losses
// PARAMS: local_batch=2, pieces=4
// expect-error P0331: {{'reshape' of node 'pair'}}
graph {
  prov 0 model "pair" "head" ""
  %x = input "x" : f32[2, 3]
  %ids = input "ids" : i64[2]
  %w = parameter ["w"] : f32[4, 3, 3]
  %order, %position, %counts, %dropped = expert_order(%ids) {experts=4, segments=1, capacity=2}
  %rows = take_rows(%x, %order, %position) {repeat=1}
  %h = grouped_matmul(%rows, %w, %counts) {transposed=true}
  %pair = reshape(%h) {shape=[1, 6]} prov 0
  %most = amax(%pair) {dims=[0]}
  %loss = mean(%most) {dims=[0]}
  loss %loss
}
