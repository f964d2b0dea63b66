// No piece can know the mask of a statistic of the whole batch.
// RUN-PASSES: lay_out_dropout
// PARAMS: local_batch=2, pieces=4
// expect-error P0330: {{dropout of node 'drop' (module head) acts on a value that mixes the samples}}
graph {
  prov 0 model "drop" "head" ""
  %x = input "x" : f32[2, 3]
  %w = parameter ["w"] : f32[3]
  %seed_step = seed_step
  %sample_offset = sample_offset
  %h = mul(%x, %w)
  %m = mean(%h) {dims=[0]}
  %y = dropout(%m, %seed_step, %sample_offset) {p=0.5, key=1} prov 0
  output "y" = %y
}
