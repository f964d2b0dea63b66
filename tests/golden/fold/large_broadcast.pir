// A large constant of one number stays an expanded scalar; what repeats a small one stays a view.
// RUN-PASSES: fold
// CHECK: %zeros.element = constant : f32[] data [0.0]
// CHECK: %zeros = expand(%zeros.element) {shape=[40, 40]} : f32[40, 40]
// CHECK: %big = expand(%row) {shape=[400, 4]}
graph {
  %x = input "x" : f32[40, 40]
  %z = input "z" : f32[400, 4]
  %row = constant : f32[4] data [1.0, 2.0, 3.0, 4.0]
  %zeros = fill() {shape=[40, 40], value=0, to=f32}
  %big = expand(%row) {shape=[400, 4]}
  %y = maximum(%x, %zeros)
  %w = add(%z, %big)
  output "y" = %y
  output "w" = %w
}
