// A router has an axis of experts, but it is no expert.
// RUN-PASSES: partition_experts
// PARAMS: devices=2, sharded=0
// expect-error P0225: {{chunk0 has no weights that are indexed by expert}}
graph {
  %x = input "x" : f32[6, 8]
  %router = parameter ["router"] : f32[4, 8]
  %y = linear(%x, %router, none)
  %s = sum(%y) {dims=[0, 1]}
  loss %s
}
