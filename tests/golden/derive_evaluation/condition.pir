// A mean that counts under a condition of the batch is none over batches.
// RUN-PASSES: derive_evaluation
// expect-error@+1 P0335: {{chooses by a number of the batch whether a mean counts}}
// strategy: eval: {batches: 2}
module {
  step batch 2 microbatches 1
  training clip 0.0
}
variant 2 {
  chunk 0 "all" region 0
  graph {
    %x = input "x" : f32[2, 3]
    %mask = input "mask" : f32[2, 3]
    %w = parameter ["w"] : f32[3, 3]
    %zero = constant : f32[] data [0.0]
    %y = linear(%x, %w, none) chunk 0
    %s = sum(%y) {dims=[0, 1], keepdim=false} chunk 0
    %c = sum(%mask) {dims=[0, 1], keepdim=false} chunk 0
    %mean = div(%s, %c) chunk 0
    %any = gt(%c, %zero) chunk 0
    %loss = where(%any, %mean, %zero) chunk 0
    loss %loss
  }
}
distribution {
  world 1
  stream 0 "compute"
  group 0 [0]
  chunk 0 {
    groups [0 x1]
  }
}
