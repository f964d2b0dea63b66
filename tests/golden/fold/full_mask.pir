// A mask that hides nothing is dropped, and causal attention stays causal.
// RUN-PASSES: fold
// CHECK: scaled_dot_product_attention(%q, %k, %v) {is_causal=false, scale=1.0}
// CHECK: scaled_dot_product_attention(%q, %k, %v) {is_causal=true, scale=1.0}
graph {
  %q = input "q" : f32[2, 2, 3, 4]
  %k = input "k" : f32[2, 2, 3, 4]
  %v = input "v" : f32[2, 2, 3, 4]
  %true = constant : bool[] data [true]
  %mask = expand(%true) {shape=[2, 1, 3, 3]}
  %y, %lse = scaled_dot_product_attention(%q, %k, %v, %mask)
  %z, %lse2 = scaled_dot_product_attention(%q, %k, %v, %mask) {is_causal=true}
  output "y" = %y
  output "z" = %z
}
