graph {
  %x = input "x" : f32[2, 4]
  %one = constant : f32[] data [1.0]
  %zero = constant : f32[] data [0.0]
  %true = constant : bool[1] data [true]
  %a = mul(%x, %one)
  %b = add(%zero, %a)
  %c = reshape(%b) {shape=[2, 4]}
  %d = where(%true, %c, %zero)
  %y = relu(%d)
  output "y" = %y
}
