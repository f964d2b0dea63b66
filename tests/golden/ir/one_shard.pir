// One part is the whole.
graph {
  // expect-error@+1 P0402: {{at least two parts of a first axis expected}}
  %w = parameter ["w"] : f32[4] shards 1 by 0
}
