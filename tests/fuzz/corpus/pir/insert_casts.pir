module {
  step batch 2 microbatches 1
  training clip 0.0
  precision compute bf16 master f32 reduce f32
}
variant 2 {
  chunk 0 "a"
  chunk 1 "out" exchange
  chunk 2 "b"
  graph {
    %x = input "x" : f32[2, 2]
    %g = parameter ["g"] : f32[2]
    %w = parameter ["w"] : f32[2, 2]
    %n, %rstd = rms_norm(%x, %g) {axes=1, eps=1e-06} chunk 0
    %sent = all_to_all(%n) chunk 1
    %y = linear(%sent, %w, none) chunk 2
    %loss = sum(%y) {dims=[0, 1]} chunk 2
    loss %loss
  }
}
