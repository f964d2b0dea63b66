// Four experts cannot be shared equally by three devices.
// RUN-PASSES: partition_experts
// PARAMS: devices=3, sharded=0
// expect-error P0241: {{chunk0 has 4 experts, which 3 devices cannot share equally}}
graph {
  %x = input "x" : f32[4, 6, 8]
  %w = parameter ["w"] : f32[4, 8, 8]
  %y = matmul(%x, %w)
  %s = sum(%y) {dims=[0, 1, 2]}
  loss %s
}
