// What a term is divided by must add up over batches.
// RUN-PASSES: derive_evaluation
// expect-error@+1 P0335: {{makes a number of the whole batch by which a term is divided}}
// strategy: eval: {batches: 2}
module {
  step batch 4 microbatches 2 split cut
  training clip 0.0
}
variant 2 {
  chunk 0 "all" region 0
  graph {
    %x = input "x" : f32[2, 3]
    %mask = input "mask" : f32[2, 3]
    %w = parameter ["w"] : f32[3, 3]
    %y = linear(%x, %w, none) chunk 0
    %s = sum(%y) {dims=[0, 1], keepdim=false} chunk 0
    %c = sum(%mask) {dims=[0, 1], keepdim=false} phase count chunk 0
    %total = step_sum(%c) phase count chunk 0
    %root = sqrt(%total) phase count_finish chunk 0
    %loss = div(%s, %root) chunk 0
    loss %loss
  }
}
distribution {
  world 1
  stream 0 "compute"
  group 0 [0]
  chunk 0 {
    groups [0 x2]
  }
}
