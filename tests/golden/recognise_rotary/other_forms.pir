// The other sign, halves in the other order, another operand, and a trained table are something else.
// RUN-PASSES: recognise_rotary
// CHECK-NOT: rotary
// CHECK: output "trained"
graph {
  %q = input "q" : f32[5, 4]
  %k = input "k" : f32[5, 4]
  %cos = input "cos" : f32[5, 4]
  %sin = input "sin" : f32[5, 4]
  %w = parameter ["w"] : f32[4]
  %first = slice(%q) {dim=1, start=0, end=2, step=1}
  %second = slice(%q) {dim=1, start=2, end=4, step=1}
  %minus_first = neg(%first)
  %minus_second = neg(%second)
  %straight = mul(%q, %cos)
  %a = cat(%second, %minus_first) {dim=1}
  %b = mul(%a, %sin)
  %inverse = add(%straight, %b)
  %c = cat(%first, %minus_second) {dim=1}
  %d = mul(%c, %sin)
  %mirrored = add(%straight, %d)
  %e = cat(%minus_second, %first) {dim=1}
  %f = mul(%e, %sin)
  %of_k = mul(%k, %cos)
  %mixed = add(%of_k, %f)
  %table = exp(%w)
  %g = mul(%e, %table)
  %trained = add(%straight, %g)
  output "inverse" = %inverse
  output "mirrored" = %mirrored
  output "mixed" = %mixed
  output "trained" = %trained
}
