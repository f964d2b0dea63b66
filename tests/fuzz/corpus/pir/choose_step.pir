module {
  step batch 1 microbatches 1
  training clip 0.0
}
