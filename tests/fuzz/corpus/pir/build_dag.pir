module {
  step batch 8 microbatches 2 split cut
  training clip 0.0
  lowered
}
variant 4 {
  chunk 0 "PP0" region 0
  chunk 1 "PP1" region 1
  graph {
    %x = input "x" : f32[4, 3]
    %y = relu(%x) chunk 0
    %z = relu(%y) chunk 1
    %z_grad = relu_backward(%z, %z) phase backward chunk 1
    %y_grad = relu_backward(%z_grad, %y) phase backward chunk 0
    output "z" = %z
  }
}
distribution {
  world 2
  stream 0 "compute"
  stream 1 "pp"
  group 0 [0]
  group 1 [1]
  chunk 0 {
    groups [0 x2]
    messages 1
  }
  chunk 1 {
    groups [1 x2]
    messages 1
  }
}
