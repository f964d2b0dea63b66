module {
  step batch 2 microbatches 1
  training clip 0.0
}
variant 2 {
  chunk 0 "PP0"
  chunk 1 "PP1"
  graph {
    %x = input "x" : f32[2, 2]
    %half = constant : f32[] data [0.5]
    %y = relu(%x) chunk 0
    %a = sum(%y) {dims=[0, 1]} chunk 0
    %z = relu(%y) chunk 1
    %b = sum(%z) {dims=[0, 1]} chunk 1
    %both = add(%a, %b) chunk 1
    %loss = mul(%both, %half) chunk 1
    loss %loss
  }
}
