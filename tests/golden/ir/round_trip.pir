// Everything that the text form can say is printed again as it was read.
// CHECK: prov 1 derived "autodiff" [0]
// CHECK: %x = input "x" : f32[4, 8]
// CHECK: %mask = input "mask" : bool[8] static
// CHECK: %w = parameter ["w", "tied.w"] : f32[8, 8] file "model.onnx.data" offset 64 bytes 256 permutation [1, 0]
// CHECK: %b = parameter ["b"] : f32[8] frozen
// CHECK: %scale = parameter ["scale"] : f32[] buffer read
// CHECK: %kept = parameter ["kept"] : bool[8] buffer fixed
// CHECK: %"odd name" = constant : f32[3] data [0.1, -0.0, 1e+30]
// CHECK: %y = linear(%x, %w, %b) : f32[4, 8] chunk 1 scope "h.0" prov 0
// CHECK: %v, %i = topk(%y) {dim=1, k=2} : f32[4, 2], i64[4, 2]
// CHECK: accumulate_grad(%w) {parameter=%w} phase backward
// CHECK: loss %s
graph {
  prov 0 model "linear" "h.0" "model.py:3"
  prov 1 derived "autodiff" [0]
  %x = input "x" : f32[4, 8]
  %mask = input "mask" : bool[8] static
  %w = parameter ["w", "tied.w"] : f32[8, 8] file "model.onnx.data" offset 64 bytes 256 permutation [1, 0]
  %b = parameter ["b"] : f32[8] frozen
  %scale = parameter ["scale"] : f32[] buffer read
  %kept = parameter ["kept"] : bool[8] buffer fixed
  %"odd name" = constant : f32[3] data [0.1, -0.0, 1e30]
  %y = linear(%x, %w, %b) : f32[4, 8] chunk 1 scope "h.0" prov 0
  %v, %i = topk(%y) {dim=1, k=2}
  %s = sum(%v) {dims=[0, 1]}
  accumulate_grad(%w) {parameter=%w} phase backward
  output "loss" = %s
  loss %s
}
