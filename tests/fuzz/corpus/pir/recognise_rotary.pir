graph {
  %q = input "q" : f32[2, 3, 5, 4]
  %k = input "k" : f32[2, 3, 5, 4]
  %cos = input "cos" : f32[5, 4]
  %sin = input "sin" : f32[5, 4]
  %q1 = slice(%q) {dim=3, start=0, end=2, step=1}
  %q2 = slice(%q) {dim=3, start=2, end=4, step=1}
  %q3 = neg(%q2)
  %q4 = cat(%q3, %q1) {dim=3}
  %q5 = mul(%q, %cos)
  %q6 = mul(%q4, %sin)
  %turned = add(%q5, %q6)
  %k1 = slice(%k) {dim=3, start=0, end=2, step=1}
  %k2 = slice(%k) {dim=3, start=2, end=4, step=1}
  %k3 = neg(%k2)
  %k4 = cat(%k3, %k1) {dim=3}
  %k5 = mul(%cos, %k)
  %k6 = mul(%sin, %k4)
  %back = add(%k6, %k5)
  output "q" = %turned
  output "k" = %back
}
