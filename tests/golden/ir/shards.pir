// A parameter of which a rank holds a part is printed again as it was read; its data are the whole.
// CHECK: %w = parameter ["w"] : f32[1, 2] shards 2 by 0 data [1.0, 2.0, 3.0, 4.0]
// CHECK: %v = parameter ["v"] : f32[2, 4] shards 4 by 1 file "m.onnx" offset 8 bytes 128 frozen
// CHECK: %y = all_to_all(%x) : f32[2, 3]
graph {
  %x = input "x" : f32[2, 3]
  %w = parameter ["w"] : f32[1, 2] shards 2 by 0 data [1, 2, 3, 4]
  %v = parameter ["v"] : f32[2, 4] shards 4 by 1 file "m.onnx" offset 8 bytes 128 frozen
  %y = all_to_all(%x)
}
