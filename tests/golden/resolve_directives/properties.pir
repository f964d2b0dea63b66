// Every directive about a region is a property of it: its devices, how copies are kept, what it repeats, where it runs.
// RUN-PASSES: resolve_directives
// strategy: model: {batch: 8}
// strategy: optimizer: {sgd: {lr: 0.1}}
// strategy: directives:
// strategy:   - {op: place, filter: {PP: 0}, devices: [2]}
// strategy:   - {op: replicate, filter: {PP: 1}, devices: [1, 0], shard_params: true, bucket_size: 1, prefetch: 2}
// strategy:   - {op: recompute, filter: {PP: 0, MB: 1}}
// strategy:   - {op: stream, filter: {PP: 1, PASS: F}, name: fast}
// CHECK: group 0 [2]
// CHECK: group 1 [1, 0]
// CHECK: chunk 0 {
// CHECK: groups [0 x2]
// CHECK: recomputed [0, 1]
// CHECK: chunk 1 {
// CHECK: groups [1 x2]
// CHECK: replicate bucket 1048576 stream 1 gather 2 sharded parameters residency use prefetch 2
// CHECK: segment 1048576
// CHECK: computes [F 0 x2 on 4]
module {
  step batch 8 microbatches 2 split
  training clip 0.0
}
variant 2 {
  tag "PP" 2
  chunk 0 "PP0" tags ["PP" 0]
  chunk 1 "PP1" tags ["PP" 1]
  graph {
    %x = input "x" : f32[2, 2]
    %w = parameter ["w"] : f32[2, 2]
    %y = linear(%x, %w, none) chunk 0
    %loss = mean(%y) {dims=[0, 1]} chunk 1
    loss %loss
  }
}
