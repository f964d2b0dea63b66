// What the strategy says of element types stands in the module; what it leaves out has its default.
// RUN-PASSES: choose_step
// strategy: model: {batch: 8}
// strategy: precision: {compute: f16, reduce: bf16, loss_scale: dynamic, keep: ["*.router"]}
// CHECK: precision compute f16 master f32 reduce bf16 loss_scale dynamic 65536.0 keep ["*.router"] by
module {
  step batch 1 microbatches 1
  training clip 0.0
}
