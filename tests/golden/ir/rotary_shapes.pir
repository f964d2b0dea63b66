// Tables of a rotary embedding are as wide as what they turn.
graph {
  %x = input "x" : f32[2, 3, 4]
  %cos = input "cos" : f32[3, 2]
  // expect-error@+1 P0402: {{rotary(f32[2, 3, 4], f32[3, 2], f32[3, 2]): operand 1 is no table for operand 0}}
  %y = rotary(%x, %cos, %cos)
  output "y" = %y
}
