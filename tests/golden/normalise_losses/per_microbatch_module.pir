// A glob covers a module and everything inside it, and nothing else.
// RUN-PASSES: normalise_losses
// PARAMS: local_batch=2, pieces=4, per_microbatch=mlp
// expect-error P0331: {{(module head)}}
graph {
  prov 0 model "a" "mlp.router" ""
  prov 1 model "b" "head" ""
  %x = input "x" : f32[2, 3]
  %w = parameter ["w"] : f32[7, 3]
  %y = linear(%x, %w) scope "mlp.router" prov 0
  %a = mean(%y) {dims=[0]} scope "mlp.router" prov 0
  %b = mean(%y) {dims=[0]} scope "head" prov 1
  %a2 = mul(%a, %a) scope "mlp.router" prov 0
  %b2 = mul(%b, %b) scope "head" prov 1
  %c = add(%a2, %b2)
  %loss = sum(%c) {dims=[0]}
  loss %loss
}
