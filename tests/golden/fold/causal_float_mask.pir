// The same as a float mask of zeros and very negative numbers.
// RUN-PASSES: fold
// CHECK: scaled_dot_product_attention(%q, %k, %v) {is_causal=true, scale=1.0}
graph {
  %q = input "q" : f32[2, 2, 3, 4]
  %k = input "k" : f32[2, 2, 3, 4]
  %v = input "v" : f32[2, 2, 3, 4]
  %rows = constant : i64[3, 1] data [0, 1, 2]
  %columns = constant : i64[1, 3] data [0, 1, 2]
  %zero = constant : f32[] data [0.0]
  %low = constant : f32[] data [-3.4028235e38]
  %lower = le(%columns, %rows)
  %mask = where(%lower, %zero, %low)
  %y, %lse = scaled_dot_product_attention(%q, %k, %v, %mask)
  output "y" = %y
}
