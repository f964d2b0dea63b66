// Ranks that share samples have the same running statistics; those of other replicas differ.
// RUN-PASSES: check_boundaries
// strategy: directives:
// strategy:   - {op: replicate, filter: {PP: 0}, devices: [0, 1, 2, 3]}
// CHECK: warning: running statistics 'bn.mean' and 1 more are kept by each of 2 devices from its own samples
module {
  step batch 8 microbatches 1 cut
  training clip 0.0
  lowered
}
variant 4 {
  chunk 0 "PP0" region 0
  chunk 1 "PP1" region 1
  graph {
    %x = input "x" : f32[4, 3]
    %mean = buffer ["bn.mean"] : f32[3]
    %var = buffer ["bn.var"] : f32[3]
    %y, %m, %r = batch_norm(%x, none, none, %mean, %var) chunk 0
    %z = relu(%y) chunk 1
    output "z" = %z
  }
}
distribution {
  world 4
  stream 0 "compute"
  group 0 [0..3] places 2
  chunk 0 {
    groups [0]
    devices [@1:4:47+12]
  }
  chunk 1 {
    groups [0]
    devices [@1:4:47+12]
  }
}
