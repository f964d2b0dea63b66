// A band is no triangle: the mask stays.
// RUN-PASSES: fold
// CHECK: %mask = constant : bool[3, 3] data [true, false, false, true, true, false, false, true, true]
// CHECK: scaled_dot_product_attention(%q, %k, %v, %mask) {is_causal=false, scale=1.0}
graph {
  %q = input "q" : f32[2, 2, 3, 4]
  %k = input "k" : f32[2, 2, 3, 4]
  %v = input "v" : f32[2, 2, 3, 4]
  %mask = constant : bool[3, 3] data [true, false, false, true, true, false, false, true, true]
  %y, %lse = scaled_dot_product_attention(%q, %k, %v, %mask)
  output "y" = %y
}
