graph {
  %x = input "x" : f32[2, 3, 4]
  %seed_step = seed_step
  %sample_offset = sample_offset
  %a = dropout(%x, %seed_step, %sample_offset) {p=0.5, key=1}
  %flat = reshape(%a) {shape=[6, 4]}
  %b = dropout(%flat, %seed_step, %sample_offset) {p=0.5, key=2}
  %back = reshape(%b) {shape=[2, 3, 4]}
  %turned = permute(%back) {dims=[1, 0, 2]}
  %c = dropout(%turned, %seed_step, %sample_offset) {p=0.5, key=3}
  %wide = reshape(%b) {shape=[2, 3, 2, 2]}
  %heads = permute(%wide) {dims=[0, 2, 1, 3]}
  %d = dropout(%heads, %seed_step, %sample_offset) {p=0.5, key=4}
  output "c" = %c
  output "d" = %d
}
