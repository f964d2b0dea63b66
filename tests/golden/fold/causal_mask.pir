// A mask equal to the lower triangle on every head becomes is_causal.
// RUN-PASSES: fold
// CHECK-NOT: mask
// CHECK: scaled_dot_product_attention(%q, %k, %v) {is_causal=true, scale=0.5}
graph {
  %q = input "q" : f32[2, 2, 3, 4]
  %k = input "k" : f32[2, 2, 3, 4]
  %v = input "v" : f32[2, 2, 3, 4]
  %rows = constant : i64[3, 1] data [0, 1, 2]
  %columns = constant : i64[1, 3] data [0, 1, 2]
  %lower = le(%columns, %rows)
  %mask = expand(%lower) {shape=[2, 1, 3, 3]}
  %y, %lse = scaled_dot_product_attention(%q, %k, %v, %mask) {scale=0.5}
  output "y" = %y
}
