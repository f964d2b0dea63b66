module {
  step batch 8 microbatches 2 split cut
  training clip 0.0
}
variant 4 {
  chunk 0 "all"
  graph {
    %x = input "x" : f32[4, 3, 8]
    %seed = seed_step
    %offset = sample_offset
    %t = permute(%x) {dims=[1, 0, 2]} chunk 0
    %rows = reshape(%t) {shape=[12, 8]} chunk 0
    %d = dropout(%rows, %seed, %offset) {p=0.5, key=1} chunk 0
    output "d" = %d
  }
}
variant 2 {
  chunk 0 "all"
  graph {
    %x = input "x" : f32[2, 3, 8]
    %seed = seed_step
    %offset = sample_offset
    %t = permute(%x) {dims=[1, 0, 2]} chunk 0
    %rows = reshape(%t) {shape=[6, 8]} chunk 0
    %d = dropout(%rows, %seed, %offset) {p=0.5, key=1} chunk 0
    output "d" = %d
  }
}
