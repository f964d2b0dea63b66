// Counts belong to the experts of the weight.
graph {
  %x = input "x" : f32[6, 3]
  %w = parameter ["w"] : f32[4, 3, 5]
  %counts = input "counts" : i64[1, 3]
  // expect-error@+1 P0402: {{counts must be [segments, 4]}}
  %y = grouped_matmul(%x, %w, %counts)
  output "y" = %y
}
