module {
  step batch 16 microbatches 2 split
  training clip 0.0
}
