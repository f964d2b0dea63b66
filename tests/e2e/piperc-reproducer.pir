// strategy: piper: 1
// strategy: model: {batch: 8}
// strategy: annotate:
// strategy:   - {tag: PP, starts: ["net.model.layers.0", "net.model.layers.2"]}
// strategy:   - {tag: EP, modules: ["*.mlp"]}
// strategy: directives:
// strategy:   - {op: place, filter: {PP: 0}, devices: [0, 1]}
// strategy:   - {op: replicate, filter: {PP: 0}, devices: [0, 1], bucket_size: 0.05, shard_params: true}
// strategy:   - {op: shard, filter: {PP: 0, EP: "*"}, devices: [0, 1], capacity: {factor: 1.0, overflow: drop}}
// strategy:   - {op: place, filter: {PP: 1}, devices: [2, 3]}
// strategy:   - {op: replicate, filter: {PP: 1}, devices: [2, 3], bucket_size: 0.05, shard_params: true}
// strategy:   - {op: shard, filter: {PP: 1, EP: "*"}, devices: [2, 3], capacity: {factor: 1.0, overflow: drop}}
// strategy: schedule: {family: 1f1b, microbatches: 2}
// strategy: per_microbatch: ["*"]
// strategy: optimizer: {sgd: {"lr": 0.05, "momentum": 0.9}}
// set: eval.data=held_out.safetensors
// set: eval.every=1
// set: eval.batches=1
// model: /tmp/proofs/capacity/mixtral.onnx
// piper-opt piperc-reproducer.pir --passes emit_plans
module {
  step batch 8 microbatches 2 split cut by @1:13:11+1
  per_microbatch ["*"]
  training clip 0.0 update 0
  lowered
}
provenance {
  prov 0 directive "optimizer" "mixtral-pp2_ep2_parameters-capacity.yaml:15:12"
  prov 1 directive "replicate" "mixtral-pp2_ep2_parameters-capacity.yaml:8:5"
  prov 2 directive "replicate" "mixtral-pp2_ep2_parameters-capacity.yaml:11:5"
  prov 3 directive "shard" "mixtral-pp2_ep2_parameters-capacity.yaml:9:5"
  prov 4 directive "shard" "mixtral-pp2_ep2_parameters-capacity.yaml:12:5"
  prov 5 directive "place" "mixtral-pp2_ep2_parameters-capacity.yaml:7:5"
  prov 6 directive "place" "mixtral-pp2_ep2_parameters-capacity.yaml:10:5"
  prov 7 derived "count of a mean loss" [6]
  prov 8 derived "loss of the step" [6]
  prov 9 derived "number of dropped rows" [5, 5, 6, 6]
  prov 10 derived "insert_transfers" [5]
  prov 11 derived "insert_transfers" [6]
}
variant 2 {
  tag "EP" 4
  tag "PP" 2
  chunk 0 "PP0/1" tags ["PP" 0] region 0
  chunk 1 "PP0/2" tags ["PP" 0] region 0
  chunk 2 "EP0.PP0.counts" tags ["EP" 0, "PP" 0] region 0 exchange shard 0
  chunk 3 "EP0.PP0.rest" tags ["EP" 0, "PP" 0] region 0 shard 0
  chunk 4 "EP0.PP0.to_experts" tags ["EP" 0, "PP" 0] region 0 exchange shard 0
  chunk 5 "EP0.PP0.experts/1" tags ["EP" 0, "PP" 0] region 0 shard 0
  chunk 6 "EP0.PP0.experts/2" tags ["EP" 0, "PP" 0] region 0 shard 0
  chunk 7 "EP0.PP0.from_experts" tags ["EP" 0, "PP" 0] region 0 exchange shard 0
  chunk 8 "PP0.2" tags ["PP" 0] region 0
  chunk 9 "PP1" tags ["PP" 1] region 3
  chunk 10 "EP1.PP0" tags ["EP" 1, "PP" 0] region 4 shard 0
  chunk 11 "EP1.PP0.counts" tags ["EP" 1, "PP" 0] region 4 exchange shard 0
  chunk 12 "EP1.PP0.rest" tags ["EP" 1, "PP" 0] region 4 shard 0
  chunk 13 "EP1.PP0.to_experts" tags ["EP" 1, "PP" 0] region 4 exchange shard 0
  chunk 14 "EP1.PP0.experts/1" tags ["EP" 1, "PP" 0] region 4 shard 0
  chunk 15 "EP1.PP0.experts/2" tags ["EP" 1, "PP" 0] region 4 shard 0
  chunk 16 "EP1.PP0.from_experts" tags ["EP" 1, "PP" 0] region 4 exchange shard 0
  chunk 17 "PP0.3" tags ["PP" 0] region 4
  chunk 18 "PP1.2" tags ["PP" 1] region 6
  chunk 19 "PP1.3" tags ["PP" 1] region 7
  chunk 20 "EP2.PP1.counts" tags ["EP" 2, "PP" 1] region 7 exchange shard 1
  chunk 21 "EP2.PP1.rest" tags ["EP" 2, "PP" 1] region 7 shard 1
  chunk 22 "EP2.PP1.to_experts" tags ["EP" 2, "PP" 1] region 7 exchange shard 1
  chunk 23 "EP2.PP1.experts/1" tags ["EP" 2, "PP" 1] region 7 shard 1
  chunk 24 "EP2.PP1.experts/2" tags ["EP" 2, "PP" 1] region 7 shard 1
  chunk 25 "EP2.PP1.from_experts" tags ["EP" 2, "PP" 1] region 7 exchange shard 1
  chunk 26 "PP1.4" tags ["PP" 1] region 7
  chunk 27 "EP3.PP1.counts" tags ["EP" 3, "PP" 1] region 7 exchange shard 1
  chunk 28 "EP3.PP1.rest" tags ["EP" 3, "PP" 1] region 7 shard 1
  chunk 29 "EP3.PP1.to_experts" tags ["EP" 3, "PP" 1] region 7 exchange shard 1
  chunk 30 "EP3.PP1.experts/1" tags ["EP" 3, "PP" 1] region 7 shard 1
  chunk 31 "EP3.PP1.experts/2" tags ["EP" 3, "PP" 1] region 7 shard 1
  chunk 32 "EP3.PP1.from_experts" tags ["EP" 3, "PP" 1] region 7 exchange shard 1
  chunk 33 "PP1.5" tags ["PP" 1] region 7
  graph {
    prov 0 model "sym_size_int_40" "" "runtime_assert.py:24"
    prov 1 model "embedding" "net.model.embed_tokens" "modeling_mixtral.py:436"
    prov 2 model "arange" "net.model" "modeling_mixtral.py:440"
    prov 3 model "add_4" "net.model" "modeling_mixtral.py:440"
    prov 4 model "unsqueeze" "net.model" "modeling_mixtral.py:441"
    prov 5 model "expand" "net.model" "modeling_mixtral.py:444"
    prov 6 model "slice_1" "net.model" "modeling_mixtral.py:444"
    prov 7 model "slice_2" "net.model" "modeling_mixtral.py:444"
    prov 8 model "sub_4" "net.model" "modeling_mixtral.py:444"
    prov 9 model "cat" "net.model" "modeling_mixtral.py:444"
    prov 10 model "slice_3" "net.model" "modeling_mixtral.py:444"
    prov 11 model "slice_4" "net.model" "modeling_mixtral.py:444"
    prov 12 model "sub_9" "net.model" "modeling_mixtral.py:444"
    prov 13 model "ne" "net.model" "modeling_mixtral.py:444"
    prov 14 model "convert_element_type_default" "net.model" "modeling_mixtral.py:444"
    prov 15 model "cumsum" "net.model" "modeling_mixtral.py:444"
    prov 16 model "expand_1" "net.model" "modeling_mixtral.py:444"
    prov 17 model "arange_1" "net.model" "modeling_mixtral.py:444"
    prov 18 model "arange_3" "net.model" "modeling_mixtral.py:444"
    prov 19 model "add_28" "net.model" "modeling_mixtral.py:444"
    prov 20 model "arange_4" "net.model" "modeling_mixtral.py:444"
    prov 21 model "add_29" "net.model" "modeling_mixtral.py:444"
    prov 22 model "slice_5" "net.model" "modeling_mixtral.py:444"
    prov 23 model "unsqueeze_1" "net.model" "modeling_mixtral.py:444"
    prov 24 model "unsqueeze_2" "net.model" "modeling_mixtral.py:444"
    prov 25 model "unsqueeze_3" "net.model" "modeling_mixtral.py:444"
    prov 26 model "unsqueeze_7" "net.model" "modeling_mixtral.py:444"
    prov 27 model "unsqueeze_8" "net.model" "modeling_mixtral.py:444"
    prov 28 model "unsqueeze_9" "net.model" "modeling_mixtral.py:444"
    prov 29 model "unsqueeze_10" "net.model" "modeling_mixtral.py:444"
    prov 30 model "unsqueeze_11" "net.model" "modeling_mixtral.py:444"
    prov 31 model "unsqueeze_12" "net.model" "modeling_mixtral.py:444"
    prov 32 model "new_ones" "net.model" "modeling_mixtral.py:444"
    prov 33 model "index" "net.model" "modeling_mixtral.py:444"
    prov 34 model "index_1" "net.model" "modeling_mixtral.py:444"
    prov 35 model "eq_22" "net.model" "modeling_mixtral.py:444"
    prov 36 model "bitwise_and" "net.model" "modeling_mixtral.py:444"
    prov 37 model "index_2" "net.model" "modeling_mixtral.py:444"
    prov 38 model "index_3" "net.model" "modeling_mixtral.py:444"
    prov 39 model "le" "net.model" "modeling_mixtral.py:444"
    prov 40 model "bitwise_and_1" "net.model" "modeling_mixtral.py:444"
    prov 41 model "expand_2" "net.model" "modeling_mixtral.py:444"
    prov 42 model "unsqueeze_13" "net.model.rotary_emb" "modeling_mixtral.py:192"
    prov 43 model "_to_copy" "net.model.rotary_emb" "modeling_mixtral.py:192"
    prov 44 model "mul_38" "net.model.rotary_emb" "modeling_mixtral.py:192"
    prov 45 model "cat_1" "net.model.rotary_emb" "modeling_mixtral.py:193"
    prov 46 model "cos" "net.model.rotary_emb" "modeling_mixtral.py:194"
    prov 47 model "mul_39" "net.model.rotary_emb" "modeling_mixtral.py:194"
    prov 48 model "sin" "net.model.rotary_emb" "modeling_mixtral.py:195"
    prov 49 model "mul_40" "net.model.rotary_emb" "modeling_mixtral.py:195"
    prov 50 model "pow_1" "net.model.layers.0.input_layernorm" "modeling_mixtral.py:145"
    prov 51 model "mean" "net.model.layers.0.input_layernorm" "modeling_mixtral.py:145"
    prov 52 model "add_97" "net.model.layers.0.input_layernorm" "modeling_mixtral.py:146"
    prov 53 model "rsqrt" "net.model.layers.0.input_layernorm" "modeling_mixtral.py:146"
    prov 54 model "mul_49" "net.model.layers.0.input_layernorm" "modeling_mixtral.py:146"
    prov 55 model "mul_52" "net.model.layers.0.input_layernorm" "modeling_mixtral.py:147"
    prov 56 model "linear" "net.model.layers.0.self_attn.q_proj" "modeling_mixtral.py:299"
    prov 57 model "view" "net.model.layers.0.self_attn" "modeling_mixtral.py:299"
    prov 58 model "transpose" "net.model.layers.0.self_attn" "modeling_mixtral.py:299"
    prov 59 model "linear_1" "net.model.layers.0.self_attn.k_proj" "modeling_mixtral.py:300"
    prov 60 model "view_1" "net.model.layers.0.self_attn" "modeling_mixtral.py:300"
    prov 61 model "transpose_1" "net.model.layers.0.self_attn" "modeling_mixtral.py:300"
    prov 62 model "linear_2" "net.model.layers.0.self_attn.v_proj" "modeling_mixtral.py:301"
    prov 63 model "view_2" "net.model.layers.0.self_attn" "modeling_mixtral.py:301"
    prov 64 model "transpose_2" "net.model.layers.0.self_attn" "modeling_mixtral.py:301"
    prov 65 model "unsqueeze_14" "net.model.layers.0.self_attn" "modeling_mixtral.py:304"
    prov 66 model "unsqueeze_15" "net.model.layers.0.self_attn" "modeling_mixtral.py:304"
    prov 67 model "mul_73" "net.model.layers.0.self_attn" "modeling_mixtral.py:304"
    prov 68 model "slice_6" "net.model.layers.0.self_attn" "modeling_mixtral.py:304"
    prov 69 model "slice_7" "net.model.layers.0.self_attn" "modeling_mixtral.py:304"
    prov 70 model "neg" "net.model.layers.0.self_attn" "modeling_mixtral.py:304"
    prov 71 model "cat_2" "net.model.layers.0.self_attn" "modeling_mixtral.py:304"
    prov 72 model "mul_84" "net.model.layers.0.self_attn" "modeling_mixtral.py:304"
    prov 73 model "add_186" "net.model.layers.0.self_attn" "modeling_mixtral.py:304"
    prov 74 model "mul_89" "net.model.layers.0.self_attn" "modeling_mixtral.py:304"
    prov 75 model "slice_8" "net.model.layers.0.self_attn" "modeling_mixtral.py:304"
    prov 76 model "slice_9" "net.model.layers.0.self_attn" "modeling_mixtral.py:304"
    prov 77 model "neg_1" "net.model.layers.0.self_attn" "modeling_mixtral.py:304"
    prov 78 model "cat_3" "net.model.layers.0.self_attn" "modeling_mixtral.py:304"
    prov 79 model "mul_100" "net.model.layers.0.self_attn" "modeling_mixtral.py:304"
    prov 80 model "add_222" "net.model.layers.0.self_attn" "modeling_mixtral.py:304"
    prov 81 model "slice_10" "net.model.layers.0.self_attn" "modeling_mixtral.py:313"
    prov 82 model "unsqueeze_16" "net.model.layers.0.self_attn" "modeling_mixtral.py:313"
    prov 83 model "expand_3" "net.model.layers.0.self_attn" "modeling_mixtral.py:313"
    prov 84 model "clone" "net.model.layers.0.self_attn" "modeling_mixtral.py:313"
    prov 85 model "_unsafe_view" "net.model.layers.0.self_attn" "modeling_mixtral.py:313"
    prov 86 model "slice_11" "net.model.layers.0.self_attn" "modeling_mixtral.py:313"
    prov 87 model "unsqueeze_17" "net.model.layers.0.self_attn" "modeling_mixtral.py:313"
    prov 88 model "expand_4" "net.model.layers.0.self_attn" "modeling_mixtral.py:313"
    prov 89 model "clone_1" "net.model.layers.0.self_attn" "modeling_mixtral.py:313"
    prov 90 model "_unsafe_view_1" "net.model.layers.0.self_attn" "modeling_mixtral.py:313"
    prov 91 model "scaled_dot_product_attention" "net.model.layers.0.self_attn" "modeling_mixtral.py:313"
    prov 92 model "clone_2" "net.model.layers.0.self_attn" "modeling_mixtral.py:313"
    prov 93 model "view_3" "net.model.layers.0.self_attn" "modeling_mixtral.py:313"
    prov 94 model "transpose_3" "net.model.layers.0.self_attn" "modeling_mixtral.py:313"
    prov 95 model "clone_3" "net.model.layers.0.self_attn" "modeling_mixtral.py:325"
    prov 96 model "_unsafe_view_2" "net.model.layers.0.self_attn" "modeling_mixtral.py:325"
    prov 97 model "linear_3" "net.model.layers.0.self_attn.o_proj" "modeling_mixtral.py:326"
    prov 98 model "add_317" "net.model.layers.0" "modeling_mixtral.py:360"
    prov 99 model "pow_2" "net.model.layers.0.post_attention_layernorm" "modeling_mixtral.py:145"
    prov 100 model "mean_1" "net.model.layers.0.post_attention_layernorm" "modeling_mixtral.py:145"
    prov 101 model "add_330" "net.model.layers.0.post_attention_layernorm" "modeling_mixtral.py:146"
    prov 102 model "rsqrt_1" "net.model.layers.0.post_attention_layernorm" "modeling_mixtral.py:146"
    prov 103 model "mul_222" "net.model.layers.0.post_attention_layernorm" "modeling_mixtral.py:146"
    prov 104 model "mul_225" "net.model.layers.0.post_attention_layernorm" "modeling_mixtral.py:147"
    prov 105 model "view_4" "net.model.layers.0.mlp" "modeling_mixtral.py:125"
    prov 106 model "view_5" "net.model.layers.0.mlp.gate" "modeling_mixtral.py:104"
    prov 107 model "linear_4" "net.model.layers.0.mlp.gate" "modeling_mixtral.py:105"
    prov 108 model "softmax" "net.model.layers.0.mlp.gate" "modeling_mixtral.py:106"
    prov 109 model "topk" "net.model.layers.0.mlp.gate" "modeling_mixtral.py:107"
    prov 110 model "sum_1" "net.model.layers.0.mlp.gate" "modeling_mixtral.py:108"
    prov 111 model "div" "net.model.layers.0.mlp.gate" "modeling_mixtral.py:108"
    prov 112 model "repeat_interleave" "net.model.layers.0.mlp.experts" "moe.py:634"
    prov 113 model "view_7" "net.model.layers.0.mlp.experts" "moe.py:634"
    prov 114 model "index_4" "net.model.layers.0.mlp.experts" "moe.py:634"
    prov 115 model "unsqueeze_18" "net.model.layers.0.mlp.experts" "moe.py:634"
    prov 116 model "bmm" "net.model.layers.0.mlp.experts" "moe.py:634"
    prov 117 model "squeeze" "net.model.layers.0.mlp.experts" "moe.py:634"
    prov 118 model "split" "net.model.layers.0.mlp.experts" "moe.py:634"
    prov 119 model "getitem_2" "net.model.layers.0.mlp.experts" "moe.py:634"
    prov 120 model "getitem_3" "net.model.layers.0.mlp.experts" "moe.py:634"
    prov 121 model "silu" "net.model.layers.0.mlp.experts.act_fn" "activations.py:103"
    prov 122 model "mul_273" "net.model.layers.0.mlp.experts" "moe.py:634"
    prov 123 model "index_5" "net.model.layers.0.mlp.experts" "moe.py:634"
    prov 124 model "unsqueeze_19" "net.model.layers.0.mlp.experts" "moe.py:634"
    prov 125 model "bmm_1" "net.model.layers.0.mlp.experts" "moe.py:634"
    prov 126 model "squeeze_1" "net.model.layers.0.mlp.experts" "moe.py:634"
    prov 127 model "view_9" "net.model.layers.0.mlp.experts" "moe.py:634"
    prov 128 model "unsqueeze_21" "net.model.layers.0.mlp.experts" "moe.py:634"
    prov 129 model "mul_285" "net.model.layers.0.mlp.experts" "moe.py:634"
    prov 130 model "mul_288" "net.model.layers.0.mlp.experts" "moe.py:634"
    prov 131 model "view_10" "net.model.layers.0.mlp.experts" "moe.py:634"
    prov 132 model "sum_2" "net.model.layers.0.mlp.experts" "moe.py:634"
    prov 133 model "view_11" "net.model.layers.0.mlp" "modeling_mixtral.py:128"
    prov 134 model "add_443" "net.model.layers.0" "modeling_mixtral.py:364"
    prov 135 model "pow_3" "net.model.layers.1.input_layernorm" "modeling_mixtral.py:145"
    prov 136 model "mean_2" "net.model.layers.1.input_layernorm" "modeling_mixtral.py:145"
    prov 137 model "add_456" "net.model.layers.1.input_layernorm" "modeling_mixtral.py:146"
    prov 138 model "rsqrt_2" "net.model.layers.1.input_layernorm" "modeling_mixtral.py:146"
    prov 139 model "mul_308" "net.model.layers.1.input_layernorm" "modeling_mixtral.py:146"
    prov 140 model "mul_311" "net.model.layers.1.input_layernorm" "modeling_mixtral.py:147"
    prov 141 model "linear_5" "net.model.layers.1.self_attn.q_proj" "modeling_mixtral.py:299"
    prov 142 model "view_12" "net.model.layers.1.self_attn" "modeling_mixtral.py:299"
    prov 143 model "transpose_4" "net.model.layers.1.self_attn" "modeling_mixtral.py:299"
    prov 144 model "linear_6" "net.model.layers.1.self_attn.k_proj" "modeling_mixtral.py:300"
    prov 145 model "view_13" "net.model.layers.1.self_attn" "modeling_mixtral.py:300"
    prov 146 model "transpose_5" "net.model.layers.1.self_attn" "modeling_mixtral.py:300"
    prov 147 model "linear_7" "net.model.layers.1.self_attn.v_proj" "modeling_mixtral.py:301"
    prov 148 model "view_14" "net.model.layers.1.self_attn" "modeling_mixtral.py:301"
    prov 149 model "transpose_6" "net.model.layers.1.self_attn" "modeling_mixtral.py:301"
    prov 150 model "unsqueeze_22" "net.model.layers.1.self_attn" "modeling_mixtral.py:304"
    prov 151 model "unsqueeze_23" "net.model.layers.1.self_attn" "modeling_mixtral.py:304"
    prov 152 model "mul_332" "net.model.layers.1.self_attn" "modeling_mixtral.py:304"
    prov 153 model "slice_12" "net.model.layers.1.self_attn" "modeling_mixtral.py:304"
    prov 154 model "slice_13" "net.model.layers.1.self_attn" "modeling_mixtral.py:304"
    prov 155 model "neg_2" "net.model.layers.1.self_attn" "modeling_mixtral.py:304"
    prov 156 model "cat_4" "net.model.layers.1.self_attn" "modeling_mixtral.py:304"
    prov 157 model "mul_343" "net.model.layers.1.self_attn" "modeling_mixtral.py:304"
    prov 158 model "add_545" "net.model.layers.1.self_attn" "modeling_mixtral.py:304"
    prov 159 model "mul_348" "net.model.layers.1.self_attn" "modeling_mixtral.py:304"
    prov 160 model "slice_14" "net.model.layers.1.self_attn" "modeling_mixtral.py:304"
    prov 161 model "slice_15" "net.model.layers.1.self_attn" "modeling_mixtral.py:304"
    prov 162 model "neg_3" "net.model.layers.1.self_attn" "modeling_mixtral.py:304"
    prov 163 model "cat_5" "net.model.layers.1.self_attn" "modeling_mixtral.py:304"
    prov 164 model "mul_359" "net.model.layers.1.self_attn" "modeling_mixtral.py:304"
    prov 165 model "add_581" "net.model.layers.1.self_attn" "modeling_mixtral.py:304"
    prov 166 model "slice_16" "net.model.layers.1.self_attn" "modeling_mixtral.py:313"
    prov 167 model "unsqueeze_24" "net.model.layers.1.self_attn" "modeling_mixtral.py:313"
    prov 168 model "expand_5" "net.model.layers.1.self_attn" "modeling_mixtral.py:313"
    prov 169 model "clone_4" "net.model.layers.1.self_attn" "modeling_mixtral.py:313"
    prov 170 model "_unsafe_view_3" "net.model.layers.1.self_attn" "modeling_mixtral.py:313"
    prov 171 model "slice_17" "net.model.layers.1.self_attn" "modeling_mixtral.py:313"
    prov 172 model "unsqueeze_25" "net.model.layers.1.self_attn" "modeling_mixtral.py:313"
    prov 173 model "expand_6" "net.model.layers.1.self_attn" "modeling_mixtral.py:313"
    prov 174 model "clone_5" "net.model.layers.1.self_attn" "modeling_mixtral.py:313"
    prov 175 model "_unsafe_view_4" "net.model.layers.1.self_attn" "modeling_mixtral.py:313"
    prov 176 model "scaled_dot_product_attention_1" "net.model.layers.1.self_attn" "modeling_mixtral.py:313"
    prov 177 model "clone_6" "net.model.layers.1.self_attn" "modeling_mixtral.py:313"
    prov 178 model "view_15" "net.model.layers.1.self_attn" "modeling_mixtral.py:313"
    prov 179 model "transpose_7" "net.model.layers.1.self_attn" "modeling_mixtral.py:313"
    prov 180 model "clone_7" "net.model.layers.1.self_attn" "modeling_mixtral.py:325"
    prov 181 model "_unsafe_view_5" "net.model.layers.1.self_attn" "modeling_mixtral.py:325"
    prov 182 model "linear_8" "net.model.layers.1.self_attn.o_proj" "modeling_mixtral.py:326"
    prov 183 model "add_676" "net.model.layers.1" "modeling_mixtral.py:360"
    prov 184 model "pow_4" "net.model.layers.1.post_attention_layernorm" "modeling_mixtral.py:145"
    prov 185 model "mean_3" "net.model.layers.1.post_attention_layernorm" "modeling_mixtral.py:145"
    prov 186 model "add_689" "net.model.layers.1.post_attention_layernorm" "modeling_mixtral.py:146"
    prov 187 model "rsqrt_3" "net.model.layers.1.post_attention_layernorm" "modeling_mixtral.py:146"
    prov 188 model "mul_481" "net.model.layers.1.post_attention_layernorm" "modeling_mixtral.py:146"
    prov 189 model "mul_484" "net.model.layers.1.post_attention_layernorm" "modeling_mixtral.py:147"
    prov 190 model "view_16" "net.model.layers.1.mlp" "modeling_mixtral.py:125"
    prov 191 model "view_17" "net.model.layers.1.mlp.gate" "modeling_mixtral.py:104"
    prov 192 model "linear_9" "net.model.layers.1.mlp.gate" "modeling_mixtral.py:105"
    prov 193 model "softmax_1" "net.model.layers.1.mlp.gate" "modeling_mixtral.py:106"
    prov 194 model "topk_1" "net.model.layers.1.mlp.gate" "modeling_mixtral.py:107"
    prov 195 model "sum_3" "net.model.layers.1.mlp.gate" "modeling_mixtral.py:108"
    prov 196 model "div_1" "net.model.layers.1.mlp.gate" "modeling_mixtral.py:108"
    prov 197 model "repeat_interleave_1" "net.model.layers.1.mlp.experts" "moe.py:634"
    prov 198 model "view_19" "net.model.layers.1.mlp.experts" "moe.py:634"
    prov 199 model "index_6" "net.model.layers.1.mlp.experts" "moe.py:634"
    prov 200 model "unsqueeze_26" "net.model.layers.1.mlp.experts" "moe.py:634"
    prov 201 model "bmm_2" "net.model.layers.1.mlp.experts" "moe.py:634"
    prov 202 model "squeeze_2" "net.model.layers.1.mlp.experts" "moe.py:634"
    prov 203 model "split_1" "net.model.layers.1.mlp.experts" "moe.py:634"
    prov 204 model "getitem_6" "net.model.layers.1.mlp.experts" "moe.py:634"
    prov 205 model "getitem_7" "net.model.layers.1.mlp.experts" "moe.py:634"
    prov 206 model "silu_1" "net.model.layers.1.mlp.experts.act_fn" "activations.py:103"
    prov 207 model "mul_532" "net.model.layers.1.mlp.experts" "moe.py:634"
    prov 208 model "index_7" "net.model.layers.1.mlp.experts" "moe.py:634"
    prov 209 model "unsqueeze_27" "net.model.layers.1.mlp.experts" "moe.py:634"
    prov 210 model "bmm_3" "net.model.layers.1.mlp.experts" "moe.py:634"
    prov 211 model "squeeze_3" "net.model.layers.1.mlp.experts" "moe.py:634"
    prov 212 model "view_21" "net.model.layers.1.mlp.experts" "moe.py:634"
    prov 213 model "unsqueeze_29" "net.model.layers.1.mlp.experts" "moe.py:634"
    prov 214 model "mul_544" "net.model.layers.1.mlp.experts" "moe.py:634"
    prov 215 model "view_22" "net.model.layers.1.mlp.experts" "moe.py:634"
    prov 216 model "sum_4" "net.model.layers.1.mlp.experts" "moe.py:634"
    prov 217 model "view_23" "net.model.layers.1.mlp" "modeling_mixtral.py:128"
    prov 218 model "add_802" "net.model.layers.1" "modeling_mixtral.py:364"
    prov 219 model "pow_5" "net.model.layers.2.input_layernorm" "modeling_mixtral.py:145"
    prov 220 model "mean_4" "net.model.layers.2.input_layernorm" "modeling_mixtral.py:145"
    prov 221 model "add_815" "net.model.layers.2.input_layernorm" "modeling_mixtral.py:146"
    prov 222 model "rsqrt_4" "net.model.layers.2.input_layernorm" "modeling_mixtral.py:146"
    prov 223 model "mul_566" "net.model.layers.2.input_layernorm" "modeling_mixtral.py:146"
    prov 224 model "mul_569" "net.model.layers.2.input_layernorm" "modeling_mixtral.py:147"
    prov 225 model "linear_10" "net.model.layers.2.self_attn.q_proj" "modeling_mixtral.py:299"
    prov 226 model "view_24" "net.model.layers.2.self_attn" "modeling_mixtral.py:299"
    prov 227 model "transpose_8" "net.model.layers.2.self_attn" "modeling_mixtral.py:299"
    prov 228 model "linear_11" "net.model.layers.2.self_attn.k_proj" "modeling_mixtral.py:300"
    prov 229 model "view_25" "net.model.layers.2.self_attn" "modeling_mixtral.py:300"
    prov 230 model "transpose_9" "net.model.layers.2.self_attn" "modeling_mixtral.py:300"
    prov 231 model "linear_12" "net.model.layers.2.self_attn.v_proj" "modeling_mixtral.py:301"
    prov 232 model "view_26" "net.model.layers.2.self_attn" "modeling_mixtral.py:301"
    prov 233 model "transpose_10" "net.model.layers.2.self_attn" "modeling_mixtral.py:301"
    prov 234 model "unsqueeze_30" "net.model.layers.2.self_attn" "modeling_mixtral.py:304"
    prov 235 model "unsqueeze_31" "net.model.layers.2.self_attn" "modeling_mixtral.py:304"
    prov 236 model "mul_590" "net.model.layers.2.self_attn" "modeling_mixtral.py:304"
    prov 237 model "slice_18" "net.model.layers.2.self_attn" "modeling_mixtral.py:304"
    prov 238 model "slice_19" "net.model.layers.2.self_attn" "modeling_mixtral.py:304"
    prov 239 model "neg_4" "net.model.layers.2.self_attn" "modeling_mixtral.py:304"
    prov 240 model "cat_6" "net.model.layers.2.self_attn" "modeling_mixtral.py:304"
    prov 241 model "mul_601" "net.model.layers.2.self_attn" "modeling_mixtral.py:304"
    prov 242 model "add_904" "net.model.layers.2.self_attn" "modeling_mixtral.py:304"
    prov 243 model "mul_606" "net.model.layers.2.self_attn" "modeling_mixtral.py:304"
    prov 244 model "slice_20" "net.model.layers.2.self_attn" "modeling_mixtral.py:304"
    prov 245 model "slice_21" "net.model.layers.2.self_attn" "modeling_mixtral.py:304"
    prov 246 model "neg_5" "net.model.layers.2.self_attn" "modeling_mixtral.py:304"
    prov 247 model "cat_7" "net.model.layers.2.self_attn" "modeling_mixtral.py:304"
    prov 248 model "mul_617" "net.model.layers.2.self_attn" "modeling_mixtral.py:304"
    prov 249 model "add_940" "net.model.layers.2.self_attn" "modeling_mixtral.py:304"
    prov 250 model "slice_22" "net.model.layers.2.self_attn" "modeling_mixtral.py:313"
    prov 251 model "unsqueeze_32" "net.model.layers.2.self_attn" "modeling_mixtral.py:313"
    prov 252 model "expand_7" "net.model.layers.2.self_attn" "modeling_mixtral.py:313"
    prov 253 model "clone_8" "net.model.layers.2.self_attn" "modeling_mixtral.py:313"
    prov 254 model "_unsafe_view_6" "net.model.layers.2.self_attn" "modeling_mixtral.py:313"
    prov 255 model "slice_23" "net.model.layers.2.self_attn" "modeling_mixtral.py:313"
    prov 256 model "unsqueeze_33" "net.model.layers.2.self_attn" "modeling_mixtral.py:313"
    prov 257 model "expand_8" "net.model.layers.2.self_attn" "modeling_mixtral.py:313"
    prov 258 model "clone_9" "net.model.layers.2.self_attn" "modeling_mixtral.py:313"
    prov 259 model "_unsafe_view_7" "net.model.layers.2.self_attn" "modeling_mixtral.py:313"
    prov 260 model "scaled_dot_product_attention_2" "net.model.layers.2.self_attn" "modeling_mixtral.py:313"
    prov 261 model "clone_10" "net.model.layers.2.self_attn" "modeling_mixtral.py:313"
    prov 262 model "view_27" "net.model.layers.2.self_attn" "modeling_mixtral.py:313"
    prov 263 model "transpose_11" "net.model.layers.2.self_attn" "modeling_mixtral.py:313"
    prov 264 model "clone_11" "net.model.layers.2.self_attn" "modeling_mixtral.py:325"
    prov 265 model "_unsafe_view_8" "net.model.layers.2.self_attn" "modeling_mixtral.py:325"
    prov 266 model "linear_13" "net.model.layers.2.self_attn.o_proj" "modeling_mixtral.py:326"
    prov 267 model "add_1035" "net.model.layers.2" "modeling_mixtral.py:360"
    prov 268 model "pow_6" "net.model.layers.2.post_attention_layernorm" "modeling_mixtral.py:145"
    prov 269 model "mean_5" "net.model.layers.2.post_attention_layernorm" "modeling_mixtral.py:145"
    prov 270 model "add_1048" "net.model.layers.2.post_attention_layernorm" "modeling_mixtral.py:146"
    prov 271 model "rsqrt_5" "net.model.layers.2.post_attention_layernorm" "modeling_mixtral.py:146"
    prov 272 model "mul_739" "net.model.layers.2.post_attention_layernorm" "modeling_mixtral.py:146"
    prov 273 model "mul_742" "net.model.layers.2.post_attention_layernorm" "modeling_mixtral.py:147"
    prov 274 model "view_28" "net.model.layers.2.mlp" "modeling_mixtral.py:125"
    prov 275 model "view_29" "net.model.layers.2.mlp.gate" "modeling_mixtral.py:104"
    prov 276 model "linear_14" "net.model.layers.2.mlp.gate" "modeling_mixtral.py:105"
    prov 277 model "softmax_2" "net.model.layers.2.mlp.gate" "modeling_mixtral.py:106"
    prov 278 model "topk_2" "net.model.layers.2.mlp.gate" "modeling_mixtral.py:107"
    prov 279 model "sum_5" "net.model.layers.2.mlp.gate" "modeling_mixtral.py:108"
    prov 280 model "div_2" "net.model.layers.2.mlp.gate" "modeling_mixtral.py:108"
    prov 281 model "repeat_interleave_2" "net.model.layers.2.mlp.experts" "moe.py:634"
    prov 282 model "view_31" "net.model.layers.2.mlp.experts" "moe.py:634"
    prov 283 model "index_8" "net.model.layers.2.mlp.experts" "moe.py:634"
    prov 284 model "unsqueeze_34" "net.model.layers.2.mlp.experts" "moe.py:634"
    prov 285 model "bmm_4" "net.model.layers.2.mlp.experts" "moe.py:634"
    prov 286 model "squeeze_4" "net.model.layers.2.mlp.experts" "moe.py:634"
    prov 287 model "split_2" "net.model.layers.2.mlp.experts" "moe.py:634"
    prov 288 model "getitem_10" "net.model.layers.2.mlp.experts" "moe.py:634"
    prov 289 model "getitem_11" "net.model.layers.2.mlp.experts" "moe.py:634"
    prov 290 model "silu_2" "net.model.layers.2.mlp.experts.act_fn" "activations.py:103"
    prov 291 model "mul_790" "net.model.layers.2.mlp.experts" "moe.py:634"
    prov 292 model "index_9" "net.model.layers.2.mlp.experts" "moe.py:634"
    prov 293 model "unsqueeze_35" "net.model.layers.2.mlp.experts" "moe.py:634"
    prov 294 model "bmm_5" "net.model.layers.2.mlp.experts" "moe.py:634"
    prov 295 model "squeeze_5" "net.model.layers.2.mlp.experts" "moe.py:634"
    prov 296 model "view_33" "net.model.layers.2.mlp.experts" "moe.py:634"
    prov 297 model "unsqueeze_37" "net.model.layers.2.mlp.experts" "moe.py:634"
    prov 298 model "mul_802" "net.model.layers.2.mlp.experts" "moe.py:634"
    prov 299 model "view_34" "net.model.layers.2.mlp.experts" "moe.py:634"
    prov 300 model "sum_6" "net.model.layers.2.mlp.experts" "moe.py:634"
    prov 301 model "view_35" "net.model.layers.2.mlp" "modeling_mixtral.py:128"
    prov 302 model "add_1161" "net.model.layers.2" "modeling_mixtral.py:364"
    prov 303 model "pow_7" "net.model.layers.3.input_layernorm" "modeling_mixtral.py:145"
    prov 304 model "mean_6" "net.model.layers.3.input_layernorm" "modeling_mixtral.py:145"
    prov 305 model "add_1174" "net.model.layers.3.input_layernorm" "modeling_mixtral.py:146"
    prov 306 model "rsqrt_6" "net.model.layers.3.input_layernorm" "modeling_mixtral.py:146"
    prov 307 model "mul_824" "net.model.layers.3.input_layernorm" "modeling_mixtral.py:146"
    prov 308 model "mul_827" "net.model.layers.3.input_layernorm" "modeling_mixtral.py:147"
    prov 309 model "linear_15" "net.model.layers.3.self_attn.q_proj" "modeling_mixtral.py:299"
    prov 310 model "view_36" "net.model.layers.3.self_attn" "modeling_mixtral.py:299"
    prov 311 model "transpose_12" "net.model.layers.3.self_attn" "modeling_mixtral.py:299"
    prov 312 model "linear_16" "net.model.layers.3.self_attn.k_proj" "modeling_mixtral.py:300"
    prov 313 model "view_37" "net.model.layers.3.self_attn" "modeling_mixtral.py:300"
    prov 314 model "transpose_13" "net.model.layers.3.self_attn" "modeling_mixtral.py:300"
    prov 315 model "linear_17" "net.model.layers.3.self_attn.v_proj" "modeling_mixtral.py:301"
    prov 316 model "view_38" "net.model.layers.3.self_attn" "modeling_mixtral.py:301"
    prov 317 model "transpose_14" "net.model.layers.3.self_attn" "modeling_mixtral.py:301"
    prov 318 model "unsqueeze_38" "net.model.layers.3.self_attn" "modeling_mixtral.py:304"
    prov 319 model "unsqueeze_39" "net.model.layers.3.self_attn" "modeling_mixtral.py:304"
    prov 320 model "mul_848" "net.model.layers.3.self_attn" "modeling_mixtral.py:304"
    prov 321 model "slice_24" "net.model.layers.3.self_attn" "modeling_mixtral.py:304"
    prov 322 model "slice_25" "net.model.layers.3.self_attn" "modeling_mixtral.py:304"
    prov 323 model "neg_6" "net.model.layers.3.self_attn" "modeling_mixtral.py:304"
    prov 324 model "cat_8" "net.model.layers.3.self_attn" "modeling_mixtral.py:304"
    prov 325 model "mul_859" "net.model.layers.3.self_attn" "modeling_mixtral.py:304"
    prov 326 model "add_1263" "net.model.layers.3.self_attn" "modeling_mixtral.py:304"
    prov 327 model "mul_864" "net.model.layers.3.self_attn" "modeling_mixtral.py:304"
    prov 328 model "slice_26" "net.model.layers.3.self_attn" "modeling_mixtral.py:304"
    prov 329 model "slice_27" "net.model.layers.3.self_attn" "modeling_mixtral.py:304"
    prov 330 model "neg_7" "net.model.layers.3.self_attn" "modeling_mixtral.py:304"
    prov 331 model "cat_9" "net.model.layers.3.self_attn" "modeling_mixtral.py:304"
    prov 332 model "mul_875" "net.model.layers.3.self_attn" "modeling_mixtral.py:304"
    prov 333 model "add_1299" "net.model.layers.3.self_attn" "modeling_mixtral.py:304"
    prov 334 model "slice_28" "net.model.layers.3.self_attn" "modeling_mixtral.py:313"
    prov 335 model "unsqueeze_40" "net.model.layers.3.self_attn" "modeling_mixtral.py:313"
    prov 336 model "expand_9" "net.model.layers.3.self_attn" "modeling_mixtral.py:313"
    prov 337 model "clone_12" "net.model.layers.3.self_attn" "modeling_mixtral.py:313"
    prov 338 model "_unsafe_view_9" "net.model.layers.3.self_attn" "modeling_mixtral.py:313"
    prov 339 model "slice_29" "net.model.layers.3.self_attn" "modeling_mixtral.py:313"
    prov 340 model "unsqueeze_41" "net.model.layers.3.self_attn" "modeling_mixtral.py:313"
    prov 341 model "expand_10" "net.model.layers.3.self_attn" "modeling_mixtral.py:313"
    prov 342 model "clone_13" "net.model.layers.3.self_attn" "modeling_mixtral.py:313"
    prov 343 model "_unsafe_view_10" "net.model.layers.3.self_attn" "modeling_mixtral.py:313"
    prov 344 model "scaled_dot_product_attention_3" "net.model.layers.3.self_attn" "modeling_mixtral.py:313"
    prov 345 model "clone_14" "net.model.layers.3.self_attn" "modeling_mixtral.py:313"
    prov 346 model "view_39" "net.model.layers.3.self_attn" "modeling_mixtral.py:313"
    prov 347 model "transpose_15" "net.model.layers.3.self_attn" "modeling_mixtral.py:313"
    prov 348 model "clone_15" "net.model.layers.3.self_attn" "modeling_mixtral.py:325"
    prov 349 model "_unsafe_view_11" "net.model.layers.3.self_attn" "modeling_mixtral.py:325"
    prov 350 model "linear_18" "net.model.layers.3.self_attn.o_proj" "modeling_mixtral.py:326"
    prov 351 model "add_1394" "net.model.layers.3" "modeling_mixtral.py:360"
    prov 352 model "pow_8" "net.model.layers.3.post_attention_layernorm" "modeling_mixtral.py:145"
    prov 353 model "mean_7" "net.model.layers.3.post_attention_layernorm" "modeling_mixtral.py:145"
    prov 354 model "add_1407" "net.model.layers.3.post_attention_layernorm" "modeling_mixtral.py:146"
    prov 355 model "rsqrt_7" "net.model.layers.3.post_attention_layernorm" "modeling_mixtral.py:146"
    prov 356 model "mul_997" "net.model.layers.3.post_attention_layernorm" "modeling_mixtral.py:146"
    prov 357 model "mul_1000" "net.model.layers.3.post_attention_layernorm" "modeling_mixtral.py:147"
    prov 358 model "view_40" "net.model.layers.3.mlp" "modeling_mixtral.py:125"
    prov 359 model "view_41" "net.model.layers.3.mlp.gate" "modeling_mixtral.py:104"
    prov 360 model "linear_19" "net.model.layers.3.mlp.gate" "modeling_mixtral.py:105"
    prov 361 model "softmax_3" "net.model.layers.3.mlp.gate" "modeling_mixtral.py:106"
    prov 362 model "topk_3" "net.model.layers.3.mlp.gate" "modeling_mixtral.py:107"
    prov 363 model "sum_7" "net.model.layers.3.mlp.gate" "modeling_mixtral.py:108"
    prov 364 model "div_3" "net.model.layers.3.mlp.gate" "modeling_mixtral.py:108"
    prov 365 model "repeat_interleave_3" "net.model.layers.3.mlp.experts" "moe.py:634"
    prov 366 model "view_43" "net.model.layers.3.mlp.experts" "moe.py:634"
    prov 367 model "index_10" "net.model.layers.3.mlp.experts" "moe.py:634"
    prov 368 model "unsqueeze_42" "net.model.layers.3.mlp.experts" "moe.py:634"
    prov 369 model "bmm_6" "net.model.layers.3.mlp.experts" "moe.py:634"
    prov 370 model "squeeze_6" "net.model.layers.3.mlp.experts" "moe.py:634"
    prov 371 model "split_3" "net.model.layers.3.mlp.experts" "moe.py:634"
    prov 372 model "getitem_14" "net.model.layers.3.mlp.experts" "moe.py:634"
    prov 373 model "getitem_15" "net.model.layers.3.mlp.experts" "moe.py:634"
    prov 374 model "silu_3" "net.model.layers.3.mlp.experts.act_fn" "activations.py:103"
    prov 375 model "mul_1048" "net.model.layers.3.mlp.experts" "moe.py:634"
    prov 376 model "index_11" "net.model.layers.3.mlp.experts" "moe.py:634"
    prov 377 model "unsqueeze_43" "net.model.layers.3.mlp.experts" "moe.py:634"
    prov 378 model "bmm_7" "net.model.layers.3.mlp.experts" "moe.py:634"
    prov 379 model "squeeze_7" "net.model.layers.3.mlp.experts" "moe.py:634"
    prov 380 model "view_45" "net.model.layers.3.mlp.experts" "moe.py:634"
    prov 381 model "unsqueeze_45" "net.model.layers.3.mlp.experts" "moe.py:634"
    prov 382 model "mul_1060" "net.model.layers.3.mlp.experts" "moe.py:634"
    prov 383 model "view_46" "net.model.layers.3.mlp.experts" "moe.py:634"
    prov 384 model "sum_8" "net.model.layers.3.mlp.experts" "moe.py:634"
    prov 385 model "view_47" "net.model.layers.3.mlp" "modeling_mixtral.py:128"
    prov 386 model "add_1520" "net.model.layers.3" "modeling_mixtral.py:364"
    prov 387 model "pow_9" "net.model.norm" "modeling_mixtral.py:145"
    prov 388 model "mean_8" "net.model.norm" "modeling_mixtral.py:145"
    prov 389 model "add_1533" "net.model.norm" "modeling_mixtral.py:146"
    prov 390 model "rsqrt_8" "net.model.norm" "modeling_mixtral.py:146"
    prov 391 model "mul_1082" "net.model.norm" "modeling_mixtral.py:146"
    prov 392 model "mul_1085" "net.model.norm" "modeling_mixtral.py:147"
    prov 393 model "slice_30" "net" "modeling_mixtral.py:615"
    prov 394 model "linear_20" "net.lm_head" "modeling_mixtral.py:616"
    prov 395 model "pad" "net" "modeling_mixtral.py:620"
    prov 396 model "slice_31" "net" "modeling_mixtral.py:620"
    prov 397 model "clone_16" "net" "modeling_mixtral.py:620"
    prov 398 model "view_48" "net" "modeling_mixtral.py:620"
    prov 399 model "view_49" "net" "modeling_mixtral.py:620"
    prov 400 model "cross_entropy_loss" "net" "modeling_mixtral.py:620"
    prov 401 model "zeros" "net" "modeling_mixtral.py:624"
    prov 402 model "zeros_1" "net" "modeling_mixtral.py:624"
    prov 403 model "softmax_4" "net" "modeling_mixtral.py:624"
    prov 404 model "topk_4" "net" "modeling_mixtral.py:624"
    prov 405 model "view_50" "net" "modeling_mixtral.py:624"
    prov 406 model "_to_copy_1" "net" "modeling_mixtral.py:624"
    prov 407 model "histc" "net" "modeling_mixtral.py:624"
    prov 408 model "add_1585" "net" "modeling_mixtral.py:624"
    prov 409 model "sum_9" "net" "modeling_mixtral.py:624"
    prov 410 model "add_1586" "net" "modeling_mixtral.py:624"
    prov 411 model "sym_float" "net" "modeling_mixtral.py:624"
    prov 412 model "softmax_5" "net" "modeling_mixtral.py:624"
    prov 413 model "topk_5" "net" "modeling_mixtral.py:624"
    prov 414 model "view_51" "net" "modeling_mixtral.py:624"
    prov 415 model "_to_copy_2" "net" "modeling_mixtral.py:624"
    prov 416 model "histc_1" "net" "modeling_mixtral.py:624"
    prov 417 model "add_1600" "net" "modeling_mixtral.py:624"
    prov 418 model "sum_10" "net" "modeling_mixtral.py:624"
    prov 419 model "add_1601" "net" "modeling_mixtral.py:624"
    prov 420 model "add_1602" "net" "modeling_mixtral.py:624"
    prov 421 model "softmax_6" "net" "modeling_mixtral.py:624"
    prov 422 model "topk_6" "net" "modeling_mixtral.py:624"
    prov 423 model "view_52" "net" "modeling_mixtral.py:624"
    prov 424 model "_to_copy_3" "net" "modeling_mixtral.py:624"
    prov 425 model "histc_2" "net" "modeling_mixtral.py:624"
    prov 426 model "add_1616" "net" "modeling_mixtral.py:624"
    prov 427 model "sum_11" "net" "modeling_mixtral.py:624"
    prov 428 model "add_1617" "net" "modeling_mixtral.py:624"
    prov 429 model "add_1618" "net" "modeling_mixtral.py:624"
    prov 430 model "softmax_7" "net" "modeling_mixtral.py:624"
    prov 431 model "topk_7" "net" "modeling_mixtral.py:624"
    prov 432 model "view_53" "net" "modeling_mixtral.py:624"
    prov 433 model "_to_copy_4" "net" "modeling_mixtral.py:624"
    prov 434 model "histc_3" "net" "modeling_mixtral.py:624"
    prov 435 model "add_1632" "net" "modeling_mixtral.py:624"
    prov 436 model "sum_12" "net" "modeling_mixtral.py:624"
    prov 437 model "add_1633" "net" "modeling_mixtral.py:624"
    prov 438 model "add_1634" "net" "modeling_mixtral.py:624"
    prov 439 model "div_4" "net" "modeling_mixtral.py:624"
    prov 440 model "div_5" "net" "modeling_mixtral.py:624"
    prov 441 model "unsqueeze_46" "net" "modeling_mixtral.py:624"
    prov 442 model "mul_1147" "net" "modeling_mixtral.py:624"
    prov 443 model "sum_13" "net" "modeling_mixtral.py:624"
    prov 444 model "scalar_tensor_default" "net" "modeling_mixtral.py:624"
    prov 445 model "mul_1148" "net" "modeling_mixtral.py:624"
    prov 446 model "mul_1149" "net" "modeling_mixtral.py:631"
    prov 447 model "add_1635" "net" "modeling_mixtral.py:631"
    prov 448 derived "recognise_experts" [116]
    prov 449 derived "recognise_experts" [125]
    prov 450 derived "recognise_experts" [117]
    prov 451 derived "recognise_experts" [118]
    prov 452 derived "recognise_experts" [121]
    prov 453 derived "recognise_experts" [122]
    prov 454 derived "recognise_experts" [124]
    prov 455 derived "recognise_experts" [201]
    prov 456 derived "recognise_experts" [210]
    prov 457 derived "recognise_experts" [202]
    prov 458 derived "recognise_experts" [203]
    prov 459 derived "recognise_experts" [206]
    prov 460 derived "recognise_experts" [207]
    prov 461 derived "recognise_experts" [209]
    prov 462 derived "recognise_experts" [285]
    prov 463 derived "recognise_experts" [294]
    prov 464 derived "recognise_experts" [286]
    prov 465 derived "recognise_experts" [287]
    prov 466 derived "recognise_experts" [290]
    prov 467 derived "recognise_experts" [291]
    prov 468 derived "recognise_experts" [293]
    prov 469 derived "recognise_experts" [369]
    prov 470 derived "recognise_experts" [378]
    prov 471 derived "recognise_experts" [370]
    prov 472 derived "recognise_experts" [371]
    prov 473 derived "recognise_experts" [374]
    prov 474 derived "recognise_experts" [375]
    prov 475 derived "recognise_experts" [377]
    prov 476 derived "normalise_losses" [400]
    prov 477 derived "normalise_losses" [395]
    prov 478 derived "normalise_losses" [396]
    prov 479 derived "normalise_losses" [399]
    prov 480 derived "normalise_losses" [442]
    prov 481 derived "normalise_losses" [443]
    prov 482 derived "normalise_losses" [445]
    prov 483 derived "normalise_losses" [446]
    prov 484 derived "normalise_losses" [447]
    prov 485 directive "shard" "mixtral-pp2_ep2_parameters-capacity.yaml:9:5"
    prov 486 directive "shard" "mixtral-pp2_ep2_parameters-capacity.yaml:12:5"
    prov 487 derived "partition_experts" [448, 485]
    prov 488 derived "partition_experts" [451, 485]
    prov 489 derived "partition_experts" [452, 485]
    prov 490 derived "partition_experts" [453, 485]
    prov 491 derived "partition_experts" [449, 485]
    prov 492 derived "partition_experts" [455, 485]
    prov 493 derived "partition_experts" [458, 485]
    prov 494 derived "partition_experts" [459, 485]
    prov 495 derived "partition_experts" [460, 485]
    prov 496 derived "partition_experts" [456, 485]
    prov 497 derived "partition_experts" [462, 486]
    prov 498 derived "partition_experts" [465, 486]
    prov 499 derived "partition_experts" [466, 486]
    prov 500 derived "partition_experts" [467, 486]
    prov 501 derived "partition_experts" [463, 486]
    prov 502 derived "partition_experts" [469, 486]
    prov 503 derived "partition_experts" [472, 486]
    prov 504 derived "partition_experts" [473, 486]
    prov 505 derived "partition_experts" [474, 486]
    prov 506 derived "partition_experts" [470, 486]
    prov 507 derived "autodiff" []
    prov 508 derived "autodiff" [484]
    prov 509 derived "autodiff" [476]
    prov 510 derived "autodiff" [398]
    prov 511 derived "autodiff" [394]
    prov 512 derived "autodiff" [392]
    prov 513 derived "autodiff" [386]
    prov 514 derived "autodiff" [385]
    prov 515 derived "autodiff" [384]
    prov 516 derived "autodiff" [383]
    prov 517 derived "autodiff" [382]
    prov 518 derived "autodiff" [379]
    prov 519 derived "autodiff" [470]
    prov 520 derived "autodiff" [506]
    prov 521 derived "autodiff" [505]
    prov 522 derived "autodiff" [504]
    prov 523 derived "autodiff" [503]
    prov 524 derived "autodiff" [502]
    prov 525 derived "autodiff" [483]
    prov 526 derived "autodiff" [482]
    prov 527 derived "autodiff" [481]
    prov 528 derived "autodiff" [480]
    prov 529 derived "autodiff" [442]
    prov 530 derived "autodiff" [441]
    prov 531 derived "autodiff" [440]
    prov 532 derived "autodiff" [437]
    prov 533 derived "autodiff" [436]
    prov 534 derived "autodiff" [430]
    prov 535 derived "autodiff" [381]
    prov 536 derived "autodiff" [380]
    prov 537 derived "autodiff" [469]
    prov 538 derived "autodiff" [364]
    prov 539 derived "autodiff" [363]
    prov 540 derived "autodiff" [362]
    prov 541 derived "autodiff" [361]
    prov 542 derived "autodiff" [360]
    prov 543 derived "autodiff" [358]
    prov 544 derived "autodiff" [357]
    prov 545 derived "autodiff" [351]
    prov 546 derived "autodiff" [350]
    prov 547 derived "autodiff" [349]
    prov 548 derived "autodiff" [347]
    prov 549 derived "autodiff" [344]
    prov 550 derived "autodiff" [343]
    prov 551 derived "autodiff" [341]
    prov 552 derived "autodiff" [340]
    prov 553 derived "autodiff" [338]
    prov 554 derived "autodiff" [336]
    prov 555 derived "autodiff" [335]
    prov 556 derived "autodiff" [333]
    prov 557 derived "autodiff" [326]
    prov 558 derived "autodiff" [317]
    prov 559 derived "autodiff" [316]
    prov 560 derived "autodiff" [315]
    prov 561 derived "autodiff" [314]
    prov 562 derived "autodiff" [313]
    prov 563 derived "autodiff" [312]
    prov 564 derived "autodiff" [311]
    prov 565 derived "autodiff" [310]
    prov 566 derived "autodiff" [309]
    prov 567 derived "autodiff" [308]
    prov 568 derived "autodiff" [302]
    prov 569 derived "autodiff" [301]
    prov 570 derived "autodiff" [300]
    prov 571 derived "autodiff" [299]
    prov 572 derived "autodiff" [298]
    prov 573 derived "autodiff" [295]
    prov 574 derived "autodiff" [463]
    prov 575 derived "autodiff" [501]
    prov 576 derived "autodiff" [500]
    prov 577 derived "autodiff" [499]
    prov 578 derived "autodiff" [498]
    prov 579 derived "autodiff" [497]
    prov 580 derived "autodiff" [428]
    prov 581 derived "autodiff" [427]
    prov 582 derived "autodiff" [421]
    prov 583 derived "autodiff" [297]
    prov 584 derived "autodiff" [296]
    prov 585 derived "autodiff" [462]
    prov 586 derived "autodiff" [280]
    prov 587 derived "autodiff" [279]
    prov 588 derived "autodiff" [278]
    prov 589 derived "autodiff" [277]
    prov 590 derived "autodiff" [276]
    prov 591 derived "autodiff" [274]
    prov 592 derived "autodiff" [273]
    prov 593 derived "autodiff" [267]
    prov 594 derived "autodiff" [266]
    prov 595 derived "autodiff" [265]
    prov 596 derived "autodiff" [263]
    prov 597 derived "autodiff" [260]
    prov 598 derived "autodiff" [259]
    prov 599 derived "autodiff" [257]
    prov 600 derived "autodiff" [256]
    prov 601 derived "autodiff" [254]
    prov 602 derived "autodiff" [252]
    prov 603 derived "autodiff" [251]
    prov 604 derived "autodiff" [249]
    prov 605 derived "autodiff" [242]
    prov 606 derived "autodiff" [233]
    prov 607 derived "autodiff" [232]
    prov 608 derived "autodiff" [231]
    prov 609 derived "autodiff" [230]
    prov 610 derived "autodiff" [229]
    prov 611 derived "autodiff" [228]
    prov 612 derived "autodiff" [227]
    prov 613 derived "autodiff" [226]
    prov 614 derived "autodiff" [225]
    prov 615 derived "autodiff" [224]
    prov 616 derived "autodiff" [218]
    prov 617 derived "autodiff" [217]
    prov 618 derived "autodiff" [216]
    prov 619 derived "autodiff" [215]
    prov 620 derived "autodiff" [214]
    prov 621 derived "autodiff" [211]
    prov 622 derived "autodiff" [456]
    prov 623 derived "autodiff" [496]
    prov 624 derived "autodiff" [495]
    prov 625 derived "autodiff" [494]
    prov 626 derived "autodiff" [493]
    prov 627 derived "autodiff" [492]
    prov 628 derived "autodiff" [419]
    prov 629 derived "autodiff" [418]
    prov 630 derived "autodiff" [412]
    prov 631 derived "autodiff" [213]
    prov 632 derived "autodiff" [212]
    prov 633 derived "autodiff" [455]
    prov 634 derived "autodiff" [196]
    prov 635 derived "autodiff" [195]
    prov 636 derived "autodiff" [194]
    prov 637 derived "autodiff" [193]
    prov 638 derived "autodiff" [192]
    prov 639 derived "autodiff" [190]
    prov 640 derived "autodiff" [189]
    prov 641 derived "autodiff" [183]
    prov 642 derived "autodiff" [182]
    prov 643 derived "autodiff" [181]
    prov 644 derived "autodiff" [179]
    prov 645 derived "autodiff" [176]
    prov 646 derived "autodiff" [175]
    prov 647 derived "autodiff" [173]
    prov 648 derived "autodiff" [172]
    prov 649 derived "autodiff" [170]
    prov 650 derived "autodiff" [168]
    prov 651 derived "autodiff" [167]
    prov 652 derived "autodiff" [165]
    prov 653 derived "autodiff" [158]
    prov 654 derived "autodiff" [149]
    prov 655 derived "autodiff" [148]
    prov 656 derived "autodiff" [147]
    prov 657 derived "autodiff" [146]
    prov 658 derived "autodiff" [145]
    prov 659 derived "autodiff" [144]
    prov 660 derived "autodiff" [143]
    prov 661 derived "autodiff" [142]
    prov 662 derived "autodiff" [141]
    prov 663 derived "autodiff" [140]
    prov 664 derived "autodiff" [134]
    prov 665 derived "autodiff" [133]
    prov 666 derived "autodiff" [132]
    prov 667 derived "autodiff" [131]
    prov 668 derived "autodiff" [129]
    prov 669 derived "autodiff" [126]
    prov 670 derived "autodiff" [449]
    prov 671 derived "autodiff" [491]
    prov 672 derived "autodiff" [490]
    prov 673 derived "autodiff" [489]
    prov 674 derived "autodiff" [488]
    prov 675 derived "autodiff" [487]
    prov 676 derived "autodiff" [409]
    prov 677 derived "autodiff" [403]
    prov 678 derived "autodiff" [128]
    prov 679 derived "autodiff" [127]
    prov 680 derived "autodiff" [448]
    prov 681 derived "autodiff" [111]
    prov 682 derived "autodiff" [110]
    prov 683 derived "autodiff" [109]
    prov 684 derived "autodiff" [108]
    prov 685 derived "autodiff" [107]
    prov 686 derived "autodiff" [105]
    prov 687 derived "autodiff" [104]
    prov 688 derived "autodiff" [98]
    prov 689 derived "autodiff" [97]
    prov 690 derived "autodiff" [96]
    prov 691 derived "autodiff" [94]
    prov 692 derived "autodiff" [91]
    prov 693 derived "autodiff" [90]
    prov 694 derived "autodiff" [88]
    prov 695 derived "autodiff" [87]
    prov 696 derived "autodiff" [85]
    prov 697 derived "autodiff" [83]
    prov 698 derived "autodiff" [82]
    prov 699 derived "autodiff" [80]
    prov 700 derived "autodiff" [73]
    prov 701 derived "autodiff" [64]
    prov 702 derived "autodiff" [63]
    prov 703 derived "autodiff" [62]
    prov 704 derived "autodiff" [61]
    prov 705 derived "autodiff" [60]
    prov 706 derived "autodiff" [59]
    prov 707 derived "autodiff" [58]
    prov 708 derived "autodiff" [57]
    prov 709 derived "autodiff" [56]
    prov 710 derived "autodiff" [55]
    prov 711 derived "autodiff" [1]
    %input_ids = input "input_ids" : i64[2, 16]
    %labels = input "labels" : i64[2, 16]
    %net.model.embed_tokens.weight = parameter ["net.model.embed_tokens.weight"] : f32[97, 64] file "/tmp/proofs/capacity/mixtral.onnx" offset 2384617 bytes 24832
    %net.model.layers.0.self_attn.q_proj.weight = parameter ["net.model.layers.0.self_attn.q_proj.weight"] : f32[64, 64] file "/tmp/proofs/capacity/mixtral.onnx" offset 2409507 bytes 16384
    %net.model.layers.0.self_attn.k_proj.weight = parameter ["net.model.layers.0.self_attn.k_proj.weight"] : f32[32, 64] file "/tmp/proofs/capacity/mixtral.onnx" offset 2425947 bytes 8192
    %net.model.layers.0.self_attn.v_proj.weight = parameter ["net.model.layers.0.self_attn.v_proj.weight"] : f32[32, 64] file "/tmp/proofs/capacity/mixtral.onnx" offset 2434195 bytes 8192
    %net.model.layers.0.self_attn.o_proj.weight = parameter ["net.model.layers.0.self_attn.o_proj.weight"] : f32[64, 64] file "/tmp/proofs/capacity/mixtral.onnx" offset 2442445 bytes 16384
    %net.model.layers.0.mlp.gate.weight = parameter ["net.model.layers.0.mlp.gate.weight"] : f32[4, 64] file "/tmp/proofs/capacity/mixtral.onnx" offset 2458877 bytes 1024
    %net.model.layers.0.mlp.experts.gate_up_proj = parameter ["net.model.layers.0.mlp.experts.gate_up_proj"] : f32[2, 320, 64] shards 2 by 0 file "/tmp/proofs/capacity/mixtral.onnx" offset 2459963 bytes 327680
    %net.model.layers.0.mlp.experts.down_proj = parameter ["net.model.layers.0.mlp.experts.down_proj"] : f32[2, 64, 160] shards 2 by 0 file "/tmp/proofs/capacity/mixtral.onnx" offset 2787702 bytes 163840
    %net.model.layers.0.input_layernorm.weight = parameter ["net.model.layers.0.input_layernorm.weight"] : f32[64] file "/tmp/proofs/capacity/mixtral.onnx" offset 2951595 bytes 256
    %net.model.layers.0.post_attention_layernorm.weight = parameter ["net.model.layers.0.post_attention_layernorm.weight"] : f32[64] file "/tmp/proofs/capacity/mixtral.onnx" offset 2951913 bytes 256
    %net.model.layers.1.self_attn.q_proj.weight = parameter ["net.model.layers.1.self_attn.q_proj.weight"] : f32[64, 64] file "/tmp/proofs/capacity/mixtral.onnx" offset 2952227 bytes 16384
    %net.model.layers.1.self_attn.k_proj.weight = parameter ["net.model.layers.1.self_attn.k_proj.weight"] : f32[32, 64] file "/tmp/proofs/capacity/mixtral.onnx" offset 2968667 bytes 8192
    %net.model.layers.1.self_attn.v_proj.weight = parameter ["net.model.layers.1.self_attn.v_proj.weight"] : f32[32, 64] file "/tmp/proofs/capacity/mixtral.onnx" offset 2976915 bytes 8192
    %net.model.layers.1.self_attn.o_proj.weight = parameter ["net.model.layers.1.self_attn.o_proj.weight"] : f32[64, 64] file "/tmp/proofs/capacity/mixtral.onnx" offset 2985165 bytes 16384
    %net.model.layers.1.mlp.gate.weight = parameter ["net.model.layers.1.mlp.gate.weight"] : f32[4, 64] file "/tmp/proofs/capacity/mixtral.onnx" offset 3001597 bytes 1024
    %net.model.layers.1.mlp.experts.gate_up_proj = parameter ["net.model.layers.1.mlp.experts.gate_up_proj"] : f32[2, 320, 64] shards 2 by 0 file "/tmp/proofs/capacity/mixtral.onnx" offset 3002683 bytes 327680
    %net.model.layers.1.mlp.experts.down_proj = parameter ["net.model.layers.1.mlp.experts.down_proj"] : f32[2, 64, 160] shards 2 by 0 file "/tmp/proofs/capacity/mixtral.onnx" offset 3330422 bytes 163840
    %net.model.layers.1.input_layernorm.weight = parameter ["net.model.layers.1.input_layernorm.weight"] : f32[64] file "/tmp/proofs/capacity/mixtral.onnx" offset 3494315 bytes 256
    %net.model.layers.1.post_attention_layernorm.weight = parameter ["net.model.layers.1.post_attention_layernorm.weight"] : f32[64] file "/tmp/proofs/capacity/mixtral.onnx" offset 3494633 bytes 256
    %net.model.layers.2.self_attn.q_proj.weight = parameter ["net.model.layers.2.self_attn.q_proj.weight"] : f32[64, 64] file "/tmp/proofs/capacity/mixtral.onnx" offset 3494947 bytes 16384
    %net.model.layers.2.self_attn.k_proj.weight = parameter ["net.model.layers.2.self_attn.k_proj.weight"] : f32[32, 64] file "/tmp/proofs/capacity/mixtral.onnx" offset 3511387 bytes 8192
    %net.model.layers.2.self_attn.v_proj.weight = parameter ["net.model.layers.2.self_attn.v_proj.weight"] : f32[32, 64] file "/tmp/proofs/capacity/mixtral.onnx" offset 3519635 bytes 8192
    %net.model.layers.2.self_attn.o_proj.weight = parameter ["net.model.layers.2.self_attn.o_proj.weight"] : f32[64, 64] file "/tmp/proofs/capacity/mixtral.onnx" offset 3527885 bytes 16384
    %net.model.layers.2.mlp.gate.weight = parameter ["net.model.layers.2.mlp.gate.weight"] : f32[4, 64] file "/tmp/proofs/capacity/mixtral.onnx" offset 3544317 bytes 1024
    %net.model.layers.2.mlp.experts.gate_up_proj = parameter ["net.model.layers.2.mlp.experts.gate_up_proj"] : f32[2, 320, 64] shards 2 by 1 file "/tmp/proofs/capacity/mixtral.onnx" offset 3545403 bytes 327680
    %net.model.layers.2.mlp.experts.down_proj = parameter ["net.model.layers.2.mlp.experts.down_proj"] : f32[2, 64, 160] shards 2 by 1 file "/tmp/proofs/capacity/mixtral.onnx" offset 3873142 bytes 163840
    %net.model.layers.2.input_layernorm.weight = parameter ["net.model.layers.2.input_layernorm.weight"] : f32[64] file "/tmp/proofs/capacity/mixtral.onnx" offset 4037035 bytes 256
    %net.model.layers.2.post_attention_layernorm.weight = parameter ["net.model.layers.2.post_attention_layernorm.weight"] : f32[64] file "/tmp/proofs/capacity/mixtral.onnx" offset 4037353 bytes 256
    %net.model.layers.3.self_attn.q_proj.weight = parameter ["net.model.layers.3.self_attn.q_proj.weight"] : f32[64, 64] file "/tmp/proofs/capacity/mixtral.onnx" offset 4037667 bytes 16384
    %net.model.layers.3.self_attn.k_proj.weight = parameter ["net.model.layers.3.self_attn.k_proj.weight"] : f32[32, 64] file "/tmp/proofs/capacity/mixtral.onnx" offset 4054107 bytes 8192
    %net.model.layers.3.self_attn.v_proj.weight = parameter ["net.model.layers.3.self_attn.v_proj.weight"] : f32[32, 64] file "/tmp/proofs/capacity/mixtral.onnx" offset 4062355 bytes 8192
    %net.model.layers.3.self_attn.o_proj.weight = parameter ["net.model.layers.3.self_attn.o_proj.weight"] : f32[64, 64] file "/tmp/proofs/capacity/mixtral.onnx" offset 4070605 bytes 16384
    %net.model.layers.3.mlp.gate.weight = parameter ["net.model.layers.3.mlp.gate.weight"] : f32[4, 64] file "/tmp/proofs/capacity/mixtral.onnx" offset 4087037 bytes 1024
    %net.model.layers.3.mlp.experts.gate_up_proj = parameter ["net.model.layers.3.mlp.experts.gate_up_proj"] : f32[2, 320, 64] shards 2 by 1 file "/tmp/proofs/capacity/mixtral.onnx" offset 4088123 bytes 327680
    %net.model.layers.3.mlp.experts.down_proj = parameter ["net.model.layers.3.mlp.experts.down_proj"] : f32[2, 64, 160] shards 2 by 1 file "/tmp/proofs/capacity/mixtral.onnx" offset 4415862 bytes 163840
    %net.model.layers.3.input_layernorm.weight = parameter ["net.model.layers.3.input_layernorm.weight"] : f32[64] file "/tmp/proofs/capacity/mixtral.onnx" offset 4579755 bytes 256
    %net.model.layers.3.post_attention_layernorm.weight = parameter ["net.model.layers.3.post_attention_layernorm.weight"] : f32[64] file "/tmp/proofs/capacity/mixtral.onnx" offset 4580073 bytes 256
    %net.model.norm.weight = parameter ["net.model.norm.weight"] : f32[64] file "/tmp/proofs/capacity/mixtral.onnx" offset 4580362 bytes 256
    %net.lm_head.weight = parameter ["net.lm_head.weight"] : f32[97, 64] file "/tmp/proofs/capacity/mixtral.onnx" offset 4580652 bytes 24832
    %unsqueeze_14 = constant : f32[1, 1, 16, 16] data "0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f40510a3f83f67b3f3cdf7f3ff7fe7f3ff8ff7f3f0000803f0000803f0000803f40510a3f83f67b3f3cdf7f3ff7fe7f3ff8ff7f3f0000803f0000803f0000803f3311d5bea5fa6f3ff97c7f3fdbfb7f3fdeff7f3fffff7f3f0000803f0000803f3311d5bea5fa6f3ff97c7f3fdbfb7f3fdeff7f3fffff7f3f0000803f0000803f26707dbf296d5c3f4fd97e3fadf67f3fb5ff7f3ffeff7f3f0000803f0000803f26707dbf296d5c3f4fd97e3fadf67f3fb5ff7f3ffeff7f3f0000803f0000803f305527bfedeb413f69f47d3f6cef7f3f7aff7f3ffcff7f3f0000803f0000803f305527bfedeb413f69f47d3f6cef7f3f7aff7f3ffcff7f3f0000803f0000803f2c3c913ef14c213f81ce7c3f19e67f3f2eff7f3ff9ff7f3f0000803f0000803f2c3c913ef14c213f81ce7c3f19e67f3f2eff7f3ff9ff7f3f0000803f0000803fb8cd753f352ff73ee3677b3fb3da7f3fd2fe7f3ff6ff7f3f0000803f0000803fb8cd753f352ff73ee3677b3fb3da7f3fd2fe7f3ff6ff7f3f0000803f0000803fbdff403fbaf8a33eeac0793f3bcd7f3f65fe7f3ff3ff7f3f0000803f0000803fbdff403fbaf8a33eeac0793f3bcd7f3f65fe7f3ff3ff7f3f0000803f0000803ff6fd14bea32c173e02da773fb2bd7f3fe7fd7f3fefff7f3fffff7f3f0000803ff6fd14bea32c173e02da773fb2bd7f3fe7fd7f3fefff7f3fffff7f3f0000803fd53f69bf3ae6f2bca9b3753f16ac7f3f59fd7f3febff7f3fffff7f3f0000803fd53f69bf3ae6f2bca9b3753f16ac7f3f59fd7f3febff7f3fffff7f3f0000803f64cd56bf0bf152be6a4e733f68987f3fb9fc7f3fe5ff7f3fffff7f3f0000803f64cd56bf0bf152be6a4e733f68987f3fb9fc7f3fe5ff7f3fffff7f3f0000803f7205913b126fc0bee4aa703fa8827f3f09fc7f3fe0ff7f3fffff7f3f0000803f7205913b126fc0bee4aa703fa8827f3f09fc7f3fe0ff7f3fffff7f3f0000803fd006583ff0a908bfc3c96d3fd76a7f3f48fb7f3fdaff7f3fffff7f3f0000803fd006583ff0a908bfc3c96d3fd76a7f3f48fb7f3fdaff7f3fffff7f3f0000803f6f4e683fe9cc2cbfc2ab6a3ff5507f3f76fa7f3fd3ff7f3fffff7f3f0000803f6f4e683fe9cc2cbfc2ab6a3ff5507f3f76fa7f3fd3ff7f3fffff7f3f0000803fd7040c3ea97c4bbfb151673f02357f3f94f97f3fccff7f3ffeff7f3f0000803fd7040c3ea97c4bbfb151673f02357f3f94f97f3fccff7f3ffeff7f3f0000803fe87a42bf71c163bf68bc633ffd167f3fa1f87f3fc4ff7f3ffeff7f3f0000803fe87a42bf71c163bf68bc633ffd167f3fa1f87f3fc4ff7f3ffeff7f3f0000803f"
    %unsqueeze_15 = constant : f32[1, 1, 16, 16] data "00000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000a46a573f3a23353e5c81013d5c44b83b6e12833a53773a39b2a20438c1b0bc36a46a573f3a23353e5c81013d5c44b83b6e12833a53773a39b2a20438c1b0bc36b7c7683ff647b23ec970813d9d43383c6912033b5377ba39b2a28438c1b03c37b7c7683ff647b23ec970813d9d43383c6912033b5377ba39b2a28438c1b03c37c381103e6c2f023fc1ffc13dc7318a3c939b443b7ed90b3a0bf4c63891848d37c381103e6c2f023fc1ffc13dc7318a3c939b443b7ed90b3a0bf4c63891848d37cfbd41bfbc1f273f892e013ea240b83c5812833b52773a3ab2a20439c1b0bc37cfbd41bfbc1f273f892e013ea240b83c5812833b52773a3ab2a20439c1b0bc37107c75bfabca463f1f3c213efe4de63cded6a33b2615693a5ecb2539f1dceb37107c75bfabca463f1f3c213efe4de63cded6a33b2615693a5ecb2539f1dceb378c0f8fbe8830603f6f20413ebf2c0a3d599bc43b7cd98b3a0bf4463991840d388c0f8fbe8830603f6f20413ebf2c0a3d599bc43b7cd98b3a0bf4463991840d384630283f4484723f51d3603e5f31213dc75fe53b6628a33ab81c6839a91a25384630283f4484723f51d3603e5f31213dc75fe53b6628a33ab81c6839a91a253895467d3fe3317d3f5226803eb334383d1312033c4f77ba3ab2a28439c1b03c3895467d3fe3317d3f5226803eb334383d1312033c4f77ba3ab2a28439c1b03c383201d33e2fe37f3f2ec28f3e89364f3d3b74133c37c6d13a08379539d94654383201d33e2fe37f3f2ec28f3e89364f3d3b74133c37c6d13a08379539d9465438f8440bbf6a827a3f3f399f3eb036663d58d6233c2015e93a5ecba539f1dc6b38f8440bbf6a827a3f3f399f3eb036663d58d6233c2015e93a5ecba539f1dc6b385cff7fbf013b6d3f8c87ae3efb347d3d6b38343c0432003bb55fb63985b981385cff7fbf013b6d3f8c87ae3efb347d3d6b38343c0432003bb55fb63985b98138d85c09bf2b78583f2ca9bd3e9d188a3d719a443c77d90b3b0bf4c63991848d38d85c09bf2b78583f2ca9bd3e9d188a3d719a443c77d90b3b0bf4c63991848d382220d73e86e13c3f419acc3e9e95953d6bfc543cea80173b6188d7399d4f99382220d73e86e13c3f419acc3e9e95953d6bfc543cea80173b6188d7399d4f993872987d3fd7551b3ff556db3e6811a13d575e653c5e28233bb81ce839a91aa53872987d3fd7551b3ff556db3e6811a13d575e653c5e28233bb81ce839a91aa5384479263fe7c7e93e85dbe93ee58bac3d34c0753cd0cf2e3b0db1f839b5e5b0384479263fe7c7e93e85dbe93ee58bac3d34c0753cd0cf2e3b0db1f839b5e5b038"
    %scalar_11 = constant : i64[] data [0]
    %scalar_12 = constant : i64[] data [4]
    %histc.4 = constant : f32[4] data [0.0, 1.0, 2.0, 3.0]
    %histc.7 = constant : f32[4] data [1.0, 2.0, 3.0, 4.0]
    %scalar_42 = constant : f32[] data [4.0]
    %histc.8 = constant : bool[4] data [false, false, false, true]
    %scalar_64 = constant : f32[] data [128.0]
    %scalar_67 = constant : f32[] data [0.02]
    %scalar = constant : f32[] data [4.0]
    %scalar_2 = constant : f32[] data [1.0]
    %scalar_3 = constant : f32[] data [0.08]
    %embedding = embedding(%net.model.embed_tokens.weight, %input_ids) {padding_idx=-1, scale_grad_by_freq=false} : f32[2, 16, 64] chunk 0 scope "net.model.embed_tokens" prov 1
    %mul_52, %mul_52.1 = rms_norm(%embedding, %net.model.layers.0.input_layernorm.weight) {axes=1, eps=9.999999747378752e-06} : f32[2, 16, 64], f32[32] chunk 1 scope "net.model.layers.0.input_layernorm" prov 55
    %linear = linear(%mul_52, %net.model.layers.0.self_attn.q_proj.weight, none) : f32[2, 16, 64] chunk 1 scope "net.model.layers.0.self_attn.q_proj" prov 56
    %view = reshape(%linear) {shape=[2, 16, 4, 16]} : f32[2, 16, 4, 16] chunk 1 scope "net.model.layers.0.self_attn" prov 57
    %transpose = permute(%view) {dims=[0, 2, 1, 3]} : f32[2, 4, 16, 16] chunk 1 scope "net.model.layers.0.self_attn" prov 58
    %linear_1 = linear(%mul_52, %net.model.layers.0.self_attn.k_proj.weight, none) : f32[2, 16, 32] chunk 1 scope "net.model.layers.0.self_attn.k_proj" prov 59
    %view_1 = reshape(%linear_1) {shape=[2, 16, 2, 16]} : f32[2, 16, 2, 16] chunk 1 scope "net.model.layers.0.self_attn" prov 60
    %transpose_1 = permute(%view_1) {dims=[0, 2, 1, 3]} : f32[2, 2, 16, 16] chunk 1 scope "net.model.layers.0.self_attn" prov 61
    %linear_2 = linear(%mul_52, %net.model.layers.0.self_attn.v_proj.weight, none) : f32[2, 16, 32] chunk 1 scope "net.model.layers.0.self_attn.v_proj" prov 62
    %view_2 = reshape(%linear_2) {shape=[2, 16, 2, 16]} : f32[2, 16, 2, 16] chunk 1 scope "net.model.layers.0.self_attn" prov 63
    %transpose_2 = permute(%view_2) {dims=[0, 2, 1, 3]} : f32[2, 2, 16, 16] chunk 1 scope "net.model.layers.0.self_attn" prov 64
    %add_186 = rotary(%transpose, %unsqueeze_14, %unsqueeze_15) : f32[2, 4, 16, 16] chunk 1 scope "net.model.layers.0.self_attn" prov 73
    %add_222 = rotary(%transpose_1, %unsqueeze_14, %unsqueeze_15) : f32[2, 2, 16, 16] chunk 1 scope "net.model.layers.0.self_attn" prov 80
    %unsqueeze_16 = reshape(%add_222) {shape=[2, 2, 1, 16, 16]} : f32[2, 2, 1, 16, 16] chunk 1 scope "net.model.layers.0.self_attn" prov 82
    %expand_3 = expand(%unsqueeze_16) {shape=[2, 2, 2, 16, 16]} : f32[2, 2, 2, 16, 16] chunk 1 scope "net.model.layers.0.self_attn" prov 83
    %_unsafe_view = reshape(%expand_3) {shape=[2, 4, 16, 16]} : f32[2, 4, 16, 16] chunk 1 scope "net.model.layers.0.self_attn" prov 85
    %unsqueeze_17 = reshape(%transpose_2) {shape=[2, 2, 1, 16, 16]} : f32[2, 2, 1, 16, 16] chunk 1 scope "net.model.layers.0.self_attn" prov 87
    %expand_4 = expand(%unsqueeze_17) {shape=[2, 2, 2, 16, 16]} : f32[2, 2, 2, 16, 16] chunk 1 scope "net.model.layers.0.self_attn" prov 88
    %_unsafe_view_1 = reshape(%expand_4) {shape=[2, 4, 16, 16]} : f32[2, 4, 16, 16] chunk 1 scope "net.model.layers.0.self_attn" prov 90
    %scaled_dot_product_attention, %scaled_dot_product_attention.1 = scaled_dot_product_attention(%add_186, %_unsafe_view, %_unsafe_view_1) {is_causal=true, scale=0.25} : f32[2, 4, 16, 16], f32[2, 4, 16] chunk 1 scope "net.model.layers.0.self_attn" prov 91
    %transpose_3 = permute(%scaled_dot_product_attention) {dims=[0, 2, 1, 3]} : f32[2, 16, 4, 16] chunk 1 scope "net.model.layers.0.self_attn" prov 94
    %_unsafe_view_2 = reshape(%transpose_3) {shape=[2, 16, 64]} : f32[2, 16, 64] chunk 1 scope "net.model.layers.0.self_attn" prov 96
    %linear_3 = linear(%_unsafe_view_2, %net.model.layers.0.self_attn.o_proj.weight, none) : f32[2, 16, 64] chunk 1 scope "net.model.layers.0.self_attn.o_proj" prov 97
    %add_317 = add(%embedding, %linear_3) : f32[2, 16, 64] chunk 1 scope "net.model.layers.0" prov 98
    %mul_225, %mul_225.1 = rms_norm(%add_317, %net.model.layers.0.post_attention_layernorm.weight) {axes=1, eps=9.999999747378752e-06} : f32[2, 16, 64], f32[32] chunk 1 scope "net.model.layers.0.post_attention_layernorm" prov 104
    %view_4 = reshape(%mul_225) {shape=[32, 64]} : f32[32, 64] chunk 1 scope "net.model.layers.0.mlp" prov 105
    %linear_4 = linear(%view_4, %net.model.layers.0.mlp.gate.weight, none) : f32[32, 4] chunk 1 scope "net.model.layers.0.mlp.gate" prov 107
    %softmax = softmax(%linear_4) {dim=1} : f32[32, 4] chunk 1 scope "net.model.layers.0.mlp.gate" prov 108
    %getitem, %getitem.1 = topk(%softmax) {dim=1, k=2} : f32[32, 2], i64[32, 2] chunk 1 scope "net.model.layers.0.mlp.gate" prov 109
    %sum_1 = sum(%getitem) {dims=[1], keepdim=true} : f32[32, 1] chunk 1 scope "net.model.layers.0.mlp.gate" prov 110
    %div = div(%getitem, %sum_1) : f32[32, 2] chunk 1 scope "net.model.layers.0.mlp.gate" prov 111
    %reshape = reshape(%getitem.1) {shape=[64]} : i64[64] chunk 1 scope "net.model.layers.0.mlp.experts" prov 448
    %reshape_2 = reshape(%mul_225) {shape=[32, 64]} : f32[32, 64] chunk 1 scope "net.model.layers.0.mlp.experts" prov 448
    %view_9 = reshape(%div) {shape=[64]} : f32[64] chunk 1 scope "net.model.layers.0.mlp.experts" prov 127
    %unsqueeze_21 = reshape(%view_9) {shape=[64, 1]} : f32[64, 1] chunk 1 scope "net.model.layers.0.mlp.experts" prov 128
    %softmax_4 = softmax(%linear_4) {dim=1} : f32[32, 4] chunk 9 scope "net" prov 403
    %topk_4__0, %topk_4__0.1 = topk(%softmax_4) {dim=1, k=2} : f32[32, 2], i64[32, 2] chunk 9 scope "net" prov 404
    %view_50 = reshape(%topk_4__0.1) {shape=[64]} : i64[64] chunk 9 scope "net" prov 405
    %_to_copy_1 = cast(%view_50) {to=f32} : f32[64] chunk 9 scope "net" prov 406
    %histc.1 = reshape(%_to_copy_1) {shape=[64, 1]} : f32[64, 1] chunk 9 scope "net" prov 407
    %histc.9 = ge(%histc.1, %histc.4) : bool[64, 4] chunk 9 scope "net" prov 407
    %histc.10 = lt(%histc.1, %histc.7) : bool[64, 4] chunk 9 scope "net" prov 407
    %histc.11 = le(%histc.1, %scalar_42) : bool[64, 1] chunk 9 scope "net" prov 407
    %histc.12 = logical_and(%histc.8, %histc.11) : bool[64, 4] chunk 9 scope "net" prov 407
    %histc.13 = logical_or(%histc.10, %histc.12) : bool[64, 4] chunk 9 scope "net" prov 407
    %histc.14 = logical_and(%histc.9, %histc.13) : bool[64, 4] chunk 9 scope "net" prov 407
    %histc.15 = cast(%histc.14) {to=f32} : f32[64, 4] chunk 9 scope "net" prov 407
    %histc = sum(%histc.15) {dims=[0], keepdim=false} : f32[4] chunk 9 scope "net" prov 407
    %sum_9 = sum(%softmax_4) {dims=[0], keepdim=false} : f32[4] chunk 9 scope "net" prov 409
    %pad = pad(%labels) {low=[0, 0], high=[0, 1], value=-100.0} : i64[2, 17] chunk 33 scope "net" prov 395
    %slice_31 = slice(%pad) {dim=1, start=1, end=17, step=1} : i64[2, 16] chunk 33 scope "net" prov 396
    %view_49 = reshape(%slice_31) {shape=[32]} : i64[32] chunk 33 scope "net" prov 399
    %pad_2 = pad(%labels) {low=[0, 0], high=[0, 1], value=-100.0} : i64[2, 17] phase count chunk 33 scope "net" prov 477
    %slice_9 = slice(%pad_2) {dim=1, start=1, end=17, step=1} : i64[2, 16] phase count chunk 33 scope "net" prov 478
    %reshape_3 = reshape(%slice_9) {shape=[32]} : i64[32] phase count chunk 33 scope "net" prov 479
    %cross_entropy_count = cross_entropy_count(%reshape_3) {ignore_index=-100, label_smoothing=0.0} : f32[] phase count chunk 33 scope "net" prov 476
    %step_sum = step_sum(%cross_entropy_count) : f32[] phase count chunk 33 scope "net" prov 476
    %reciprocal = reciprocal(%step_sum) : f32[] phase count_finish chunk 33 scope "net" prov 476
    %expert_order_5, %expert_order_5.1, %expert_order_5.2, %expert_order_5.3 = expert_order(%reshape) {experts=4, segments=2, capacity=16, strict=false} : i64[64], i64[64], i64[2, 2], i64[] chunk 1 scope "net.model.layers.0.mlp.experts" prov 487
    %expert_order_5.2.received = all_to_all(%expert_order_5.2) : i64[2, 2] chunk 2 scope "net.model.layers.0.mlp.experts" prov 487
    %sum_14 = sum(%expert_order_5.2) {dims=[1], keepdim=false} : i64[2] chunk 1 scope "net.model.layers.0.mlp.experts" prov 487
    %sum_15 = sum(%expert_order_5.2.received) {dims=[1], keepdim=false} : i64[2] chunk 3 scope "net.model.layers.0.mlp.experts" prov 487
    %take_rows_2 = take_rows(%reshape_2, %expert_order_5, %expert_order_5.1) {repeat=2} : f32[64, 64] chunk 1 scope "net.model.layers.0.mlp.experts" prov 487
    %reshape_4 = reshape(%take_rows_2) {shape=[2, 32, 64]} : f32[2, 32, 64] chunk 1 scope "net.model.layers.0.mlp.experts" prov 487
    %take_rows.received = all_to_all(%reshape_4, %sum_14, %sum_15) : f32[2, 32, 64] chunk 4 scope "net.model.layers.0.mlp.experts" prov 487
    %reshape_5 = reshape(%take_rows.received) {shape=[64, 64]} : f32[64, 64] chunk 5 scope "net.model.layers.0.mlp.experts" prov 487
    %grouped_matmul_9 = grouped_matmul(%reshape_5, %net.model.layers.0.mlp.experts.gate_up_proj, %expert_order_5.2.received) {transposed=true} : f32[64, 320] chunk 5 scope "net.model.layers.0.mlp.experts" prov 487
    %slice_10 = slice(%grouped_matmul_9) {dim=1, start=0, end=160, step=1} : f32[64, 160] chunk 6 scope "net.model.layers.0.mlp.experts" prov 488
    %silu_2_2 = silu(%slice_10) : f32[64, 160] chunk 6 scope "net.model.layers.0.mlp.experts.act_fn" prov 489
    %slice_2_2 = slice(%grouped_matmul_9) {dim=1, start=160, end=320, step=1} : f32[64, 160] chunk 6 scope "net.model.layers.0.mlp.experts" prov 488
    %mul_8 = mul(%silu_2_2, %slice_2_2) : f32[64, 160] chunk 6 scope "net.model.layers.0.mlp.experts" prov 490
    %grouped_matmul_2_2 = grouped_matmul(%mul_8, %net.model.layers.0.mlp.experts.down_proj, %expert_order_5.2.received) {transposed=true} : f32[64, 64] chunk 6 scope "net.model.layers.0.mlp.experts" prov 491
    %reshape_6 = reshape(%grouped_matmul_2_2) {shape=[2, 32, 64]} : f32[2, 32, 64] chunk 6 scope "net.model.layers.0.mlp.experts" prov 491
    %take_rows_3.returned = all_to_all(%reshape_6, %sum_15, %sum_14) : f32[2, 32, 64] chunk 7 scope "net.model.layers.0.mlp.experts" prov 491
    %reshape_7 = reshape(%take_rows_3.returned) {shape=[64, 64]} : f32[64, 64] chunk 8 scope "net.model.layers.0.mlp.experts" prov 491
    %take_rows_3_2 = take_rows(%reshape_7, %expert_order_5.1, %expert_order_5) {repeat=1} : f32[64, 64] chunk 8 scope "net.model.layers.0.mlp.experts" prov 491
    %reshape_8 = reshape(%take_rows_3_2) {shape=[64, 64, 1]} : f32[64, 64, 1] chunk 8 scope "net.model.layers.0.mlp.experts" prov 449
    %squeeze_1 = reshape(%reshape_8) {shape=[64, 64]} : f32[64, 64] chunk 8 scope "net.model.layers.0.mlp.experts" prov 126
    %mul_285 = mul(%squeeze_1, %unsqueeze_21) : f32[64, 64] chunk 8 scope "net.model.layers.0.mlp.experts" prov 129
    %view_10 = reshape(%mul_285) {shape=[32, 2, 64]} : f32[32, 2, 64] chunk 8 scope "net.model.layers.0.mlp.experts" prov 131
    %sum_2 = sum(%view_10) {dims=[1], keepdim=false} : f32[32, 64] chunk 8 scope "net.model.layers.0.mlp.experts" prov 132
    %view_11 = reshape(%sum_2) {shape=[2, 16, 64]} : f32[2, 16, 64] chunk 8 scope "net.model.layers.0.mlp" prov 133
    %add_443 = add(%add_317, %view_11) : f32[2, 16, 64] chunk 8 scope "net.model.layers.0" prov 134
    %mul_311, %mul_311.1 = rms_norm(%add_443, %net.model.layers.1.input_layernorm.weight) {axes=1, eps=9.999999747378752e-06} : f32[2, 16, 64], f32[32] chunk 8 scope "net.model.layers.1.input_layernorm" prov 140
    %linear_5 = linear(%mul_311, %net.model.layers.1.self_attn.q_proj.weight, none) : f32[2, 16, 64] chunk 8 scope "net.model.layers.1.self_attn.q_proj" prov 141
    %view_12 = reshape(%linear_5) {shape=[2, 16, 4, 16]} : f32[2, 16, 4, 16] chunk 8 scope "net.model.layers.1.self_attn" prov 142
    %transpose_4 = permute(%view_12) {dims=[0, 2, 1, 3]} : f32[2, 4, 16, 16] chunk 8 scope "net.model.layers.1.self_attn" prov 143
    %linear_6 = linear(%mul_311, %net.model.layers.1.self_attn.k_proj.weight, none) : f32[2, 16, 32] chunk 8 scope "net.model.layers.1.self_attn.k_proj" prov 144
    %view_13 = reshape(%linear_6) {shape=[2, 16, 2, 16]} : f32[2, 16, 2, 16] chunk 8 scope "net.model.layers.1.self_attn" prov 145
    %transpose_5 = permute(%view_13) {dims=[0, 2, 1, 3]} : f32[2, 2, 16, 16] chunk 8 scope "net.model.layers.1.self_attn" prov 146
    %linear_7 = linear(%mul_311, %net.model.layers.1.self_attn.v_proj.weight, none) : f32[2, 16, 32] chunk 8 scope "net.model.layers.1.self_attn.v_proj" prov 147
    %view_14 = reshape(%linear_7) {shape=[2, 16, 2, 16]} : f32[2, 16, 2, 16] chunk 8 scope "net.model.layers.1.self_attn" prov 148
    %transpose_6 = permute(%view_14) {dims=[0, 2, 1, 3]} : f32[2, 2, 16, 16] chunk 8 scope "net.model.layers.1.self_attn" prov 149
    %add_545 = rotary(%transpose_4, %unsqueeze_14, %unsqueeze_15) : f32[2, 4, 16, 16] chunk 8 scope "net.model.layers.1.self_attn" prov 158
    %add_581 = rotary(%transpose_5, %unsqueeze_14, %unsqueeze_15) : f32[2, 2, 16, 16] chunk 8 scope "net.model.layers.1.self_attn" prov 165
    %unsqueeze_24 = reshape(%add_581) {shape=[2, 2, 1, 16, 16]} : f32[2, 2, 1, 16, 16] chunk 8 scope "net.model.layers.1.self_attn" prov 167
    %expand_5 = expand(%unsqueeze_24) {shape=[2, 2, 2, 16, 16]} : f32[2, 2, 2, 16, 16] chunk 8 scope "net.model.layers.1.self_attn" prov 168
    %_unsafe_view_3 = reshape(%expand_5) {shape=[2, 4, 16, 16]} : f32[2, 4, 16, 16] chunk 8 scope "net.model.layers.1.self_attn" prov 170
    %unsqueeze_25 = reshape(%transpose_6) {shape=[2, 2, 1, 16, 16]} : f32[2, 2, 1, 16, 16] chunk 8 scope "net.model.layers.1.self_attn" prov 172
    %expand_6 = expand(%unsqueeze_25) {shape=[2, 2, 2, 16, 16]} : f32[2, 2, 2, 16, 16] chunk 8 scope "net.model.layers.1.self_attn" prov 173
    %_unsafe_view_4 = reshape(%expand_6) {shape=[2, 4, 16, 16]} : f32[2, 4, 16, 16] chunk 8 scope "net.model.layers.1.self_attn" prov 175
    %scaled_dot_product_attention_1, %scaled_dot_product_attention_1.1 = scaled_dot_product_attention(%add_545, %_unsafe_view_3, %_unsafe_view_4) {is_causal=true, scale=0.25} : f32[2, 4, 16, 16], f32[2, 4, 16] chunk 8 scope "net.model.layers.1.self_attn" prov 176
    %transpose_7 = permute(%scaled_dot_product_attention_1) {dims=[0, 2, 1, 3]} : f32[2, 16, 4, 16] chunk 8 scope "net.model.layers.1.self_attn" prov 179
    %_unsafe_view_5 = reshape(%transpose_7) {shape=[2, 16, 64]} : f32[2, 16, 64] chunk 8 scope "net.model.layers.1.self_attn" prov 181
    %linear_8 = linear(%_unsafe_view_5, %net.model.layers.1.self_attn.o_proj.weight, none) : f32[2, 16, 64] chunk 8 scope "net.model.layers.1.self_attn.o_proj" prov 182
    %add_676 = add(%add_443, %linear_8) : f32[2, 16, 64] chunk 8 scope "net.model.layers.1" prov 183
    %mul_484, %mul_484.1 = rms_norm(%add_676, %net.model.layers.1.post_attention_layernorm.weight) {axes=1, eps=9.999999747378752e-06} : f32[2, 16, 64], f32[32] chunk 8 scope "net.model.layers.1.post_attention_layernorm" prov 189
    %view_16 = reshape(%mul_484) {shape=[32, 64]} : f32[32, 64] chunk 10 scope "net.model.layers.1.mlp" prov 190
    %linear_9 = linear(%view_16, %net.model.layers.1.mlp.gate.weight, none) : f32[32, 4] chunk 10 scope "net.model.layers.1.mlp.gate" prov 192
    %softmax_1 = softmax(%linear_9) {dim=1} : f32[32, 4] chunk 10 scope "net.model.layers.1.mlp.gate" prov 193
    %getitem_4, %getitem_4.1 = topk(%softmax_1) {dim=1, k=2} : f32[32, 2], i64[32, 2] chunk 10 scope "net.model.layers.1.mlp.gate" prov 194
    %sum_3 = sum(%getitem_4) {dims=[1], keepdim=true} : f32[32, 1] chunk 10 scope "net.model.layers.1.mlp.gate" prov 195
    %div_1 = div(%getitem_4, %sum_3) : f32[32, 2] chunk 10 scope "net.model.layers.1.mlp.gate" prov 196
    %reshape_9 = reshape(%getitem_4.1) {shape=[64]} : i64[64] chunk 10 scope "net.model.layers.1.mlp.experts" prov 455
    %reshape_10 = reshape(%mul_484) {shape=[32, 64]} : f32[32, 64] chunk 10 scope "net.model.layers.1.mlp.experts" prov 455
    %view_21 = reshape(%div_1) {shape=[64]} : f32[64] chunk 10 scope "net.model.layers.1.mlp.experts" prov 212
    %unsqueeze_29 = reshape(%view_21) {shape=[64, 1]} : f32[64, 1] chunk 10 scope "net.model.layers.1.mlp.experts" prov 213
    %softmax_5 = softmax(%linear_9) {dim=1} : f32[32, 4] chunk 18 scope "net" prov 412
    %topk_5__0, %topk_5__0.1 = topk(%softmax_5) {dim=1, k=2} : f32[32, 2], i64[32, 2] chunk 18 scope "net" prov 413
    %view_51 = reshape(%topk_5__0.1) {shape=[64]} : i64[64] chunk 18 scope "net" prov 414
    %_to_copy_2 = cast(%view_51) {to=f32} : f32[64] chunk 18 scope "net" prov 415
    %histc_1.1 = reshape(%_to_copy_2) {shape=[64, 1]} : f32[64, 1] chunk 18 scope "net" prov 416
    %histc_1.9 = ge(%histc_1.1, %histc.4) : bool[64, 4] chunk 18 scope "net" prov 416
    %histc_1.10 = lt(%histc_1.1, %histc.7) : bool[64, 4] chunk 18 scope "net" prov 416
    %histc_1.11 = le(%histc_1.1, %scalar_42) : bool[64, 1] chunk 18 scope "net" prov 416
    %histc_1.12 = logical_and(%histc.8, %histc_1.11) : bool[64, 4] chunk 18 scope "net" prov 416
    %histc_1.13 = logical_or(%histc_1.10, %histc_1.12) : bool[64, 4] chunk 18 scope "net" prov 416
    %histc_1.14 = logical_and(%histc_1.9, %histc_1.13) : bool[64, 4] chunk 18 scope "net" prov 416
    %histc_1.15 = cast(%histc_1.14) {to=f32} : f32[64, 4] chunk 18 scope "net" prov 416
    %histc_1 = sum(%histc_1.15) {dims=[0], keepdim=false} : f32[4] chunk 18 scope "net" prov 416
    %add_1600 = add(%histc, %histc_1) : f32[4] chunk 18 scope "net" prov 417
    %sum_10 = sum(%softmax_5) {dims=[0], keepdim=false} : f32[4] chunk 18 scope "net" prov 418
    %add_1601 = add(%sum_9, %sum_10) : f32[4] chunk 18 scope "net" prov 419
    %expert_order_2_2, %expert_order_2_2.1, %expert_order_2_2.2, %expert_order_2_2.3 = expert_order(%reshape_9) {experts=4, segments=2, capacity=16, strict=false} : i64[64], i64[64], i64[2, 2], i64[] chunk 10 scope "net.model.layers.1.mlp.experts" prov 492
    %expert_order_2_2.2.received = all_to_all(%expert_order_2_2.2) : i64[2, 2] chunk 11 scope "net.model.layers.1.mlp.experts" prov 492
    %sum_16 = sum(%expert_order_2_2.2) {dims=[1], keepdim=false} : i64[2] chunk 10 scope "net.model.layers.1.mlp.experts" prov 492
    %sum_17 = sum(%expert_order_2_2.2.received) {dims=[1], keepdim=false} : i64[2] chunk 12 scope "net.model.layers.1.mlp.experts" prov 492
    %take_rows_4_2 = take_rows(%reshape_10, %expert_order_2_2, %expert_order_2_2.1) {repeat=2} : f32[64, 64] chunk 10 scope "net.model.layers.1.mlp.experts" prov 492
    %reshape_11 = reshape(%take_rows_4_2) {shape=[2, 32, 64]} : f32[2, 32, 64] chunk 10 scope "net.model.layers.1.mlp.experts" prov 492
    %take_rows_4.received = all_to_all(%reshape_11, %sum_16, %sum_17) : f32[2, 32, 64] chunk 13 scope "net.model.layers.1.mlp.experts" prov 492
    %reshape_12 = reshape(%take_rows_4.received) {shape=[64, 64]} : f32[64, 64] chunk 14 scope "net.model.layers.1.mlp.experts" prov 492
    %grouped_matmul_3_2 = grouped_matmul(%reshape_12, %net.model.layers.1.mlp.experts.gate_up_proj, %expert_order_2_2.2.received) {transposed=true} : f32[64, 320] chunk 14 scope "net.model.layers.1.mlp.experts" prov 492
    %slice_3_2 = slice(%grouped_matmul_3_2) {dim=1, start=0, end=160, step=1} : f32[64, 160] chunk 15 scope "net.model.layers.1.mlp.experts" prov 493
    %silu_3_2 = silu(%slice_3_2) : f32[64, 160] chunk 15 scope "net.model.layers.1.mlp.experts.act_fn" prov 494
    %slice_4_2 = slice(%grouped_matmul_3_2) {dim=1, start=160, end=320, step=1} : f32[64, 160] chunk 15 scope "net.model.layers.1.mlp.experts" prov 493
    %mul_2_2 = mul(%silu_3_2, %slice_4_2) : f32[64, 160] chunk 15 scope "net.model.layers.1.mlp.experts" prov 495
    %grouped_matmul_4_2 = grouped_matmul(%mul_2_2, %net.model.layers.1.mlp.experts.down_proj, %expert_order_2_2.2.received) {transposed=true} : f32[64, 64] chunk 15 scope "net.model.layers.1.mlp.experts" prov 496
    %reshape_13 = reshape(%grouped_matmul_4_2) {shape=[2, 32, 64]} : f32[2, 32, 64] chunk 15 scope "net.model.layers.1.mlp.experts" prov 496
    %take_rows_6.returned = all_to_all(%reshape_13, %sum_17, %sum_16) : f32[2, 32, 64] chunk 16 scope "net.model.layers.1.mlp.experts" prov 496
    %reshape_14 = reshape(%take_rows_6.returned) {shape=[64, 64]} : f32[64, 64] chunk 17 scope "net.model.layers.1.mlp.experts" prov 496
    %take_rows_6_2 = take_rows(%reshape_14, %expert_order_2_2.1, %expert_order_2_2) {repeat=1} : f32[64, 64] chunk 17 scope "net.model.layers.1.mlp.experts" prov 496
    %reshape_16 = reshape(%take_rows_6_2) {shape=[64, 64, 1]} : f32[64, 64, 1] chunk 17 scope "net.model.layers.1.mlp.experts" prov 456
    %squeeze_3 = reshape(%reshape_16) {shape=[64, 64]} : f32[64, 64] chunk 17 scope "net.model.layers.1.mlp.experts" prov 211
    %mul_544 = mul(%squeeze_3, %unsqueeze_29) : f32[64, 64] chunk 17 scope "net.model.layers.1.mlp.experts" prov 214
    %view_22 = reshape(%mul_544) {shape=[32, 2, 64]} : f32[32, 2, 64] chunk 17 scope "net.model.layers.1.mlp.experts" prov 215
    %sum_4 = sum(%view_22) {dims=[1], keepdim=false} : f32[32, 64] chunk 17 scope "net.model.layers.1.mlp.experts" prov 216
    %view_23 = reshape(%sum_4) {shape=[2, 16, 64]} : f32[2, 16, 64] chunk 17 scope "net.model.layers.1.mlp" prov 217
    %add_802 = add(%add_676, %view_23) : f32[2, 16, 64] chunk 17 scope "net.model.layers.1" prov 218
    %mul_569, %mul_569.1 = rms_norm(%add_802, %net.model.layers.2.input_layernorm.weight) {axes=1, eps=9.999999747378752e-06} : f32[2, 16, 64], f32[32] chunk 19 scope "net.model.layers.2.input_layernorm" prov 224
    %linear_10 = linear(%mul_569, %net.model.layers.2.self_attn.q_proj.weight, none) : f32[2, 16, 64] chunk 19 scope "net.model.layers.2.self_attn.q_proj" prov 225
    %view_24 = reshape(%linear_10) {shape=[2, 16, 4, 16]} : f32[2, 16, 4, 16] chunk 19 scope "net.model.layers.2.self_attn" prov 226
    %transpose_8 = permute(%view_24) {dims=[0, 2, 1, 3]} : f32[2, 4, 16, 16] chunk 19 scope "net.model.layers.2.self_attn" prov 227
    %linear_11 = linear(%mul_569, %net.model.layers.2.self_attn.k_proj.weight, none) : f32[2, 16, 32] chunk 19 scope "net.model.layers.2.self_attn.k_proj" prov 228
    %view_25 = reshape(%linear_11) {shape=[2, 16, 2, 16]} : f32[2, 16, 2, 16] chunk 19 scope "net.model.layers.2.self_attn" prov 229
    %transpose_9 = permute(%view_25) {dims=[0, 2, 1, 3]} : f32[2, 2, 16, 16] chunk 19 scope "net.model.layers.2.self_attn" prov 230
    %linear_12 = linear(%mul_569, %net.model.layers.2.self_attn.v_proj.weight, none) : f32[2, 16, 32] chunk 19 scope "net.model.layers.2.self_attn.v_proj" prov 231
    %view_26 = reshape(%linear_12) {shape=[2, 16, 2, 16]} : f32[2, 16, 2, 16] chunk 19 scope "net.model.layers.2.self_attn" prov 232
    %transpose_10 = permute(%view_26) {dims=[0, 2, 1, 3]} : f32[2, 2, 16, 16] chunk 19 scope "net.model.layers.2.self_attn" prov 233
    %add_904 = rotary(%transpose_8, %unsqueeze_14, %unsqueeze_15) : f32[2, 4, 16, 16] chunk 19 scope "net.model.layers.2.self_attn" prov 242
    %add_940 = rotary(%transpose_9, %unsqueeze_14, %unsqueeze_15) : f32[2, 2, 16, 16] chunk 19 scope "net.model.layers.2.self_attn" prov 249
    %unsqueeze_32 = reshape(%add_940) {shape=[2, 2, 1, 16, 16]} : f32[2, 2, 1, 16, 16] chunk 19 scope "net.model.layers.2.self_attn" prov 251
    %expand_7 = expand(%unsqueeze_32) {shape=[2, 2, 2, 16, 16]} : f32[2, 2, 2, 16, 16] chunk 19 scope "net.model.layers.2.self_attn" prov 252
    %_unsafe_view_6 = reshape(%expand_7) {shape=[2, 4, 16, 16]} : f32[2, 4, 16, 16] chunk 19 scope "net.model.layers.2.self_attn" prov 254
    %unsqueeze_33 = reshape(%transpose_10) {shape=[2, 2, 1, 16, 16]} : f32[2, 2, 1, 16, 16] chunk 19 scope "net.model.layers.2.self_attn" prov 256
    %expand_8 = expand(%unsqueeze_33) {shape=[2, 2, 2, 16, 16]} : f32[2, 2, 2, 16, 16] chunk 19 scope "net.model.layers.2.self_attn" prov 257
    %_unsafe_view_7 = reshape(%expand_8) {shape=[2, 4, 16, 16]} : f32[2, 4, 16, 16] chunk 19 scope "net.model.layers.2.self_attn" prov 259
    %scaled_dot_product_attention_2, %scaled_dot_product_attention_2.1 = scaled_dot_product_attention(%add_904, %_unsafe_view_6, %_unsafe_view_7) {is_causal=true, scale=0.25} : f32[2, 4, 16, 16], f32[2, 4, 16] chunk 19 scope "net.model.layers.2.self_attn" prov 260
    %transpose_11 = permute(%scaled_dot_product_attention_2) {dims=[0, 2, 1, 3]} : f32[2, 16, 4, 16] chunk 19 scope "net.model.layers.2.self_attn" prov 263
    %_unsafe_view_8 = reshape(%transpose_11) {shape=[2, 16, 64]} : f32[2, 16, 64] chunk 19 scope "net.model.layers.2.self_attn" prov 265
    %linear_13 = linear(%_unsafe_view_8, %net.model.layers.2.self_attn.o_proj.weight, none) : f32[2, 16, 64] chunk 19 scope "net.model.layers.2.self_attn.o_proj" prov 266
    %add_1035 = add(%add_802, %linear_13) : f32[2, 16, 64] chunk 19 scope "net.model.layers.2" prov 267
    %mul_742, %mul_742.1 = rms_norm(%add_1035, %net.model.layers.2.post_attention_layernorm.weight) {axes=1, eps=9.999999747378752e-06} : f32[2, 16, 64], f32[32] chunk 19 scope "net.model.layers.2.post_attention_layernorm" prov 273
    %view_28 = reshape(%mul_742) {shape=[32, 64]} : f32[32, 64] chunk 19 scope "net.model.layers.2.mlp" prov 274
    %linear_14 = linear(%view_28, %net.model.layers.2.mlp.gate.weight, none) : f32[32, 4] chunk 19 scope "net.model.layers.2.mlp.gate" prov 276
    %softmax_2 = softmax(%linear_14) {dim=1} : f32[32, 4] chunk 19 scope "net.model.layers.2.mlp.gate" prov 277
    %getitem_8, %getitem_8.1 = topk(%softmax_2) {dim=1, k=2} : f32[32, 2], i64[32, 2] chunk 19 scope "net.model.layers.2.mlp.gate" prov 278
    %sum_5 = sum(%getitem_8) {dims=[1], keepdim=true} : f32[32, 1] chunk 19 scope "net.model.layers.2.mlp.gate" prov 279
    %div_2 = div(%getitem_8, %sum_5) : f32[32, 2] chunk 19 scope "net.model.layers.2.mlp.gate" prov 280
    %reshape_17 = reshape(%getitem_8.1) {shape=[64]} : i64[64] chunk 19 scope "net.model.layers.2.mlp.experts" prov 462
    %reshape_18 = reshape(%mul_742) {shape=[32, 64]} : f32[32, 64] chunk 19 scope "net.model.layers.2.mlp.experts" prov 462
    %view_33 = reshape(%div_2) {shape=[64]} : f32[64] chunk 19 scope "net.model.layers.2.mlp.experts" prov 296
    %unsqueeze_37 = reshape(%view_33) {shape=[64, 1]} : f32[64, 1] chunk 19 scope "net.model.layers.2.mlp.experts" prov 297
    %softmax_6 = softmax(%linear_14) {dim=1} : f32[32, 4] chunk 26 scope "net" prov 421
    %topk_6__0, %topk_6__0.1 = topk(%softmax_6) {dim=1, k=2} : f32[32, 2], i64[32, 2] chunk 26 scope "net" prov 422
    %view_52 = reshape(%topk_6__0.1) {shape=[64]} : i64[64] chunk 26 scope "net" prov 423
    %_to_copy_3 = cast(%view_52) {to=f32} : f32[64] chunk 26 scope "net" prov 424
    %histc_2.1 = reshape(%_to_copy_3) {shape=[64, 1]} : f32[64, 1] chunk 26 scope "net" prov 425
    %histc_2.9 = ge(%histc_2.1, %histc.4) : bool[64, 4] chunk 26 scope "net" prov 425
    %histc_2.10 = lt(%histc_2.1, %histc.7) : bool[64, 4] chunk 26 scope "net" prov 425
    %histc_2.11 = le(%histc_2.1, %scalar_42) : bool[64, 1] chunk 26 scope "net" prov 425
    %histc_2.12 = logical_and(%histc.8, %histc_2.11) : bool[64, 4] chunk 26 scope "net" prov 425
    %histc_2.13 = logical_or(%histc_2.10, %histc_2.12) : bool[64, 4] chunk 26 scope "net" prov 425
    %histc_2.14 = logical_and(%histc_2.9, %histc_2.13) : bool[64, 4] chunk 26 scope "net" prov 425
    %histc_2.15 = cast(%histc_2.14) {to=f32} : f32[64, 4] chunk 26 scope "net" prov 425
    %histc_2 = sum(%histc_2.15) {dims=[0], keepdim=false} : f32[4] chunk 26 scope "net" prov 425
    %add_1616 = add(%add_1600, %histc_2) : f32[4] chunk 26 scope "net" prov 426
    %sum_11 = sum(%softmax_6) {dims=[0], keepdim=false} : f32[4] chunk 26 scope "net" prov 427
    %add_1617 = add(%add_1601, %sum_11) : f32[4] chunk 26 scope "net" prov 428
    %expert_order_3_2, %expert_order_3_2.1, %expert_order_3_2.2, %expert_order_3_2.3 = expert_order(%reshape_17) {experts=4, segments=2, capacity=16, strict=false} : i64[64], i64[64], i64[2, 2], i64[] chunk 19 scope "net.model.layers.2.mlp.experts" prov 497
    %expert_order_3_2.2.received = all_to_all(%expert_order_3_2.2) : i64[2, 2] chunk 20 scope "net.model.layers.2.mlp.experts" prov 497
    %sum_18 = sum(%expert_order_3_2.2) {dims=[1], keepdim=false} : i64[2] chunk 19 scope "net.model.layers.2.mlp.experts" prov 497
    %sum_19 = sum(%expert_order_3_2.2.received) {dims=[1], keepdim=false} : i64[2] chunk 21 scope "net.model.layers.2.mlp.experts" prov 497
    %take_rows_7_2 = take_rows(%reshape_18, %expert_order_3_2, %expert_order_3_2.1) {repeat=2} : f32[64, 64] chunk 19 scope "net.model.layers.2.mlp.experts" prov 497
    %reshape_15 = reshape(%take_rows_7_2) {shape=[2, 32, 64]} : f32[2, 32, 64] chunk 19 scope "net.model.layers.2.mlp.experts" prov 497
    %take_rows_7.received = all_to_all(%reshape_15, %sum_18, %sum_19) : f32[2, 32, 64] chunk 22 scope "net.model.layers.2.mlp.experts" prov 497
    %reshape_19 = reshape(%take_rows_7.received) {shape=[64, 64]} : f32[64, 64] chunk 23 scope "net.model.layers.2.mlp.experts" prov 497
    %grouped_matmul_5_2 = grouped_matmul(%reshape_19, %net.model.layers.2.mlp.experts.gate_up_proj, %expert_order_3_2.2.received) {transposed=true} : f32[64, 320] chunk 23 scope "net.model.layers.2.mlp.experts" prov 497
    %slice_5_2 = slice(%grouped_matmul_5_2) {dim=1, start=0, end=160, step=1} : f32[64, 160] chunk 24 scope "net.model.layers.2.mlp.experts" prov 498
    %silu_4_2 = silu(%slice_5_2) : f32[64, 160] chunk 24 scope "net.model.layers.2.mlp.experts.act_fn" prov 499
    %slice_6_2 = slice(%grouped_matmul_5_2) {dim=1, start=160, end=320, step=1} : f32[64, 160] chunk 24 scope "net.model.layers.2.mlp.experts" prov 498
    %mul_3_2 = mul(%silu_4_2, %slice_6_2) : f32[64, 160] chunk 24 scope "net.model.layers.2.mlp.experts" prov 500
    %grouped_matmul_6_2 = grouped_matmul(%mul_3_2, %net.model.layers.2.mlp.experts.down_proj, %expert_order_3_2.2.received) {transposed=true} : f32[64, 64] chunk 24 scope "net.model.layers.2.mlp.experts" prov 501
    %reshape_20 = reshape(%grouped_matmul_6_2) {shape=[2, 32, 64]} : f32[2, 32, 64] chunk 24 scope "net.model.layers.2.mlp.experts" prov 501
    %take_rows_9.returned = all_to_all(%reshape_20, %sum_19, %sum_18) : f32[2, 32, 64] chunk 25 scope "net.model.layers.2.mlp.experts" prov 501
    %reshape_21 = reshape(%take_rows_9.returned) {shape=[64, 64]} : f32[64, 64] chunk 26 scope "net.model.layers.2.mlp.experts" prov 501
    %take_rows_9_2 = take_rows(%reshape_21, %expert_order_3_2.1, %expert_order_3_2) {repeat=1} : f32[64, 64] chunk 26 scope "net.model.layers.2.mlp.experts" prov 501
    %reshape_24 = reshape(%take_rows_9_2) {shape=[64, 64, 1]} : f32[64, 64, 1] chunk 26 scope "net.model.layers.2.mlp.experts" prov 463
    %squeeze_5 = reshape(%reshape_24) {shape=[64, 64]} : f32[64, 64] chunk 26 scope "net.model.layers.2.mlp.experts" prov 295
    %mul_802 = mul(%squeeze_5, %unsqueeze_37) : f32[64, 64] chunk 26 scope "net.model.layers.2.mlp.experts" prov 298
    %view_34 = reshape(%mul_802) {shape=[32, 2, 64]} : f32[32, 2, 64] chunk 26 scope "net.model.layers.2.mlp.experts" prov 299
    %sum_6 = sum(%view_34) {dims=[1], keepdim=false} : f32[32, 64] chunk 26 scope "net.model.layers.2.mlp.experts" prov 300
    %view_35 = reshape(%sum_6) {shape=[2, 16, 64]} : f32[2, 16, 64] chunk 26 scope "net.model.layers.2.mlp" prov 301
    %add_1161 = add(%add_1035, %view_35) : f32[2, 16, 64] chunk 26 scope "net.model.layers.2" prov 302
    %mul_827, %mul_827.1 = rms_norm(%add_1161, %net.model.layers.3.input_layernorm.weight) {axes=1, eps=9.999999747378752e-06} : f32[2, 16, 64], f32[32] chunk 26 scope "net.model.layers.3.input_layernorm" prov 308
    %linear_15 = linear(%mul_827, %net.model.layers.3.self_attn.q_proj.weight, none) : f32[2, 16, 64] chunk 26 scope "net.model.layers.3.self_attn.q_proj" prov 309
    %view_36 = reshape(%linear_15) {shape=[2, 16, 4, 16]} : f32[2, 16, 4, 16] chunk 26 scope "net.model.layers.3.self_attn" prov 310
    %transpose_12 = permute(%view_36) {dims=[0, 2, 1, 3]} : f32[2, 4, 16, 16] chunk 26 scope "net.model.layers.3.self_attn" prov 311
    %linear_16 = linear(%mul_827, %net.model.layers.3.self_attn.k_proj.weight, none) : f32[2, 16, 32] chunk 26 scope "net.model.layers.3.self_attn.k_proj" prov 312
    %view_37 = reshape(%linear_16) {shape=[2, 16, 2, 16]} : f32[2, 16, 2, 16] chunk 26 scope "net.model.layers.3.self_attn" prov 313
    %transpose_13 = permute(%view_37) {dims=[0, 2, 1, 3]} : f32[2, 2, 16, 16] chunk 26 scope "net.model.layers.3.self_attn" prov 314
    %linear_17 = linear(%mul_827, %net.model.layers.3.self_attn.v_proj.weight, none) : f32[2, 16, 32] chunk 26 scope "net.model.layers.3.self_attn.v_proj" prov 315
    %view_38 = reshape(%linear_17) {shape=[2, 16, 2, 16]} : f32[2, 16, 2, 16] chunk 26 scope "net.model.layers.3.self_attn" prov 316
    %transpose_14 = permute(%view_38) {dims=[0, 2, 1, 3]} : f32[2, 2, 16, 16] chunk 26 scope "net.model.layers.3.self_attn" prov 317
    %add_1263 = rotary(%transpose_12, %unsqueeze_14, %unsqueeze_15) : f32[2, 4, 16, 16] chunk 26 scope "net.model.layers.3.self_attn" prov 326
    %add_1299 = rotary(%transpose_13, %unsqueeze_14, %unsqueeze_15) : f32[2, 2, 16, 16] chunk 26 scope "net.model.layers.3.self_attn" prov 333
    %unsqueeze_40 = reshape(%add_1299) {shape=[2, 2, 1, 16, 16]} : f32[2, 2, 1, 16, 16] chunk 26 scope "net.model.layers.3.self_attn" prov 335
    %expand_9 = expand(%unsqueeze_40) {shape=[2, 2, 2, 16, 16]} : f32[2, 2, 2, 16, 16] chunk 26 scope "net.model.layers.3.self_attn" prov 336
    %_unsafe_view_9 = reshape(%expand_9) {shape=[2, 4, 16, 16]} : f32[2, 4, 16, 16] chunk 26 scope "net.model.layers.3.self_attn" prov 338
    %unsqueeze_41 = reshape(%transpose_14) {shape=[2, 2, 1, 16, 16]} : f32[2, 2, 1, 16, 16] chunk 26 scope "net.model.layers.3.self_attn" prov 340
    %expand_10 = expand(%unsqueeze_41) {shape=[2, 2, 2, 16, 16]} : f32[2, 2, 2, 16, 16] chunk 26 scope "net.model.layers.3.self_attn" prov 341
    %_unsafe_view_10 = reshape(%expand_10) {shape=[2, 4, 16, 16]} : f32[2, 4, 16, 16] chunk 26 scope "net.model.layers.3.self_attn" prov 343
    %scaled_dot_product_attention_3, %scaled_dot_product_attention_3.1 = scaled_dot_product_attention(%add_1263, %_unsafe_view_9, %_unsafe_view_10) {is_causal=true, scale=0.25} : f32[2, 4, 16, 16], f32[2, 4, 16] chunk 26 scope "net.model.layers.3.self_attn" prov 344
    %transpose_15 = permute(%scaled_dot_product_attention_3) {dims=[0, 2, 1, 3]} : f32[2, 16, 4, 16] chunk 26 scope "net.model.layers.3.self_attn" prov 347
    %_unsafe_view_11 = reshape(%transpose_15) {shape=[2, 16, 64]} : f32[2, 16, 64] chunk 26 scope "net.model.layers.3.self_attn" prov 349
    %linear_18 = linear(%_unsafe_view_11, %net.model.layers.3.self_attn.o_proj.weight, none) : f32[2, 16, 64] chunk 26 scope "net.model.layers.3.self_attn.o_proj" prov 350
    %add_1394 = add(%add_1161, %linear_18) : f32[2, 16, 64] chunk 26 scope "net.model.layers.3" prov 351
    %mul_1000, %mul_1000.1 = rms_norm(%add_1394, %net.model.layers.3.post_attention_layernorm.weight) {axes=1, eps=9.999999747378752e-06} : f32[2, 16, 64], f32[32] chunk 26 scope "net.model.layers.3.post_attention_layernorm" prov 357
    %view_40 = reshape(%mul_1000) {shape=[32, 64]} : f32[32, 64] chunk 26 scope "net.model.layers.3.mlp" prov 358
    %linear_19 = linear(%view_40, %net.model.layers.3.mlp.gate.weight, none) : f32[32, 4] chunk 26 scope "net.model.layers.3.mlp.gate" prov 360
    %softmax_3 = softmax(%linear_19) {dim=1} : f32[32, 4] chunk 26 scope "net.model.layers.3.mlp.gate" prov 361
    %getitem_12, %getitem_12.1 = topk(%softmax_3) {dim=1, k=2} : f32[32, 2], i64[32, 2] chunk 26 scope "net.model.layers.3.mlp.gate" prov 362
    %sum_7 = sum(%getitem_12) {dims=[1], keepdim=true} : f32[32, 1] chunk 26 scope "net.model.layers.3.mlp.gate" prov 363
    %div_3 = div(%getitem_12, %sum_7) : f32[32, 2] chunk 26 scope "net.model.layers.3.mlp.gate" prov 364
    %reshape_25 = reshape(%getitem_12.1) {shape=[64]} : i64[64] chunk 26 scope "net.model.layers.3.mlp.experts" prov 469
    %reshape_26 = reshape(%mul_1000) {shape=[32, 64]} : f32[32, 64] chunk 26 scope "net.model.layers.3.mlp.experts" prov 469
    %view_45 = reshape(%div_3) {shape=[64]} : f32[64] chunk 26 scope "net.model.layers.3.mlp.experts" prov 380
    %unsqueeze_45 = reshape(%view_45) {shape=[64, 1]} : f32[64, 1] chunk 26 scope "net.model.layers.3.mlp.experts" prov 381
    %softmax_7 = softmax(%linear_19) {dim=1} : f32[32, 4] chunk 33 scope "net" prov 430
    %topk_7__0, %topk_7__0.1 = topk(%softmax_7) {dim=1, k=2} : f32[32, 2], i64[32, 2] chunk 33 scope "net" prov 431
    %view_53 = reshape(%topk_7__0.1) {shape=[64]} : i64[64] chunk 33 scope "net" prov 432
    %_to_copy_4 = cast(%view_53) {to=f32} : f32[64] chunk 33 scope "net" prov 433
    %histc_3.1 = reshape(%_to_copy_4) {shape=[64, 1]} : f32[64, 1] chunk 33 scope "net" prov 434
    %histc_3.9 = ge(%histc_3.1, %histc.4) : bool[64, 4] chunk 33 scope "net" prov 434
    %histc_3.10 = lt(%histc_3.1, %histc.7) : bool[64, 4] chunk 33 scope "net" prov 434
    %histc_3.11 = le(%histc_3.1, %scalar_42) : bool[64, 1] chunk 33 scope "net" prov 434
    %histc_3.12 = logical_and(%histc.8, %histc_3.11) : bool[64, 4] chunk 33 scope "net" prov 434
    %histc_3.13 = logical_or(%histc_3.10, %histc_3.12) : bool[64, 4] chunk 33 scope "net" prov 434
    %histc_3.14 = logical_and(%histc_3.9, %histc_3.13) : bool[64, 4] chunk 33 scope "net" prov 434
    %histc_3.15 = cast(%histc_3.14) {to=f32} : f32[64, 4] chunk 33 scope "net" prov 434
    %histc_3 = sum(%histc_3.15) {dims=[0], keepdim=false} : f32[4] chunk 33 scope "net" prov 434
    %add_1632 = add(%add_1616, %histc_3) : f32[4] chunk 33 scope "net" prov 435
    %sum_12 = sum(%softmax_7) {dims=[0], keepdim=false} : f32[4] chunk 33 scope "net" prov 436
    %add_1633 = add(%add_1617, %sum_12) : f32[4] chunk 33 scope "net" prov 437
    %div_4 = div(%add_1632, %scalar_64) : f32[4] chunk 33 scope "net" prov 439
    %div_5 = div(%add_1633, %scalar_64) : f32[4] chunk 33 scope "net" prov 440
    %unsqueeze_46 = reshape(%div_5) {shape=[1, 4]} : f32[1, 4] chunk 33 scope "net" prov 441
    %mul_1147 = mul(%div_4, %unsqueeze_46) : f32[1, 4] chunk 33 scope "net" prov 442
    %div_6 = div(%mul_1147, %scalar) : f32[1, 4] chunk 33 scope "net" prov 480
    %sum = sum(%div_6) {dims=[0, 1], keepdim=false} : f32[] chunk 33 scope "net" prov 481
    %mul_6 = mul(%sum, %scalar_42) : f32[] chunk 33 scope "net" prov 482
    %mul_7 = mul(%mul_6, %scalar_67) : f32[] chunk 33 scope "net" prov 483
    %expert_order_4_2, %expert_order_4_2.1, %expert_order_4_2.2, %expert_order_4_2.3 = expert_order(%reshape_25) {experts=4, segments=2, capacity=16, strict=false} : i64[64], i64[64], i64[2, 2], i64[] chunk 26 scope "net.model.layers.3.mlp.experts" prov 502
    %expert_order_4_2.2.received = all_to_all(%expert_order_4_2.2) : i64[2, 2] chunk 27 scope "net.model.layers.3.mlp.experts" prov 502
    %sum_20 = sum(%expert_order_4_2.2) {dims=[1], keepdim=false} : i64[2] chunk 26 scope "net.model.layers.3.mlp.experts" prov 502
    %sum_21 = sum(%expert_order_4_2.2.received) {dims=[1], keepdim=false} : i64[2] chunk 28 scope "net.model.layers.3.mlp.experts" prov 502
    %take_rows_10_2 = take_rows(%reshape_26, %expert_order_4_2, %expert_order_4_2.1) {repeat=2} : f32[64, 64] chunk 26 scope "net.model.layers.3.mlp.experts" prov 502
    %reshape_22 = reshape(%take_rows_10_2) {shape=[2, 32, 64]} : f32[2, 32, 64] chunk 26 scope "net.model.layers.3.mlp.experts" prov 502
    %take_rows_10.received = all_to_all(%reshape_22, %sum_20, %sum_21) : f32[2, 32, 64] chunk 29 scope "net.model.layers.3.mlp.experts" prov 502
    %reshape_23 = reshape(%take_rows_10.received) {shape=[64, 64]} : f32[64, 64] chunk 30 scope "net.model.layers.3.mlp.experts" prov 502
    %grouped_matmul_7_2 = grouped_matmul(%reshape_23, %net.model.layers.3.mlp.experts.gate_up_proj, %expert_order_4_2.2.received) {transposed=true} : f32[64, 320] chunk 30 scope "net.model.layers.3.mlp.experts" prov 502
    %slice_7_2 = slice(%grouped_matmul_7_2) {dim=1, start=0, end=160, step=1} : f32[64, 160] chunk 31 scope "net.model.layers.3.mlp.experts" prov 503
    %silu_5_2 = silu(%slice_7_2) : f32[64, 160] chunk 31 scope "net.model.layers.3.mlp.experts.act_fn" prov 504
    %slice_8_2 = slice(%grouped_matmul_7_2) {dim=1, start=160, end=320, step=1} : f32[64, 160] chunk 31 scope "net.model.layers.3.mlp.experts" prov 503
    %mul_4_2 = mul(%silu_5_2, %slice_8_2) : f32[64, 160] chunk 31 scope "net.model.layers.3.mlp.experts" prov 505
    %grouped_matmul_8_2 = grouped_matmul(%mul_4_2, %net.model.layers.3.mlp.experts.down_proj, %expert_order_4_2.2.received) {transposed=true} : f32[64, 64] chunk 31 scope "net.model.layers.3.mlp.experts" prov 506
    %reshape_27 = reshape(%grouped_matmul_8_2) {shape=[2, 32, 64]} : f32[2, 32, 64] chunk 31 scope "net.model.layers.3.mlp.experts" prov 506
    %take_rows_12.returned = all_to_all(%reshape_27, %sum_21, %sum_20) : f32[2, 32, 64] chunk 32 scope "net.model.layers.3.mlp.experts" prov 506
    %reshape_28 = reshape(%take_rows_12.returned) {shape=[64, 64]} : f32[64, 64] chunk 33 scope "net.model.layers.3.mlp.experts" prov 506
    %take_rows_12_2 = take_rows(%reshape_28, %expert_order_4_2.1, %expert_order_4_2) {repeat=1} : f32[64, 64] chunk 33 scope "net.model.layers.3.mlp.experts" prov 506
    %reshape_32 = reshape(%take_rows_12_2) {shape=[64, 64, 1]} : f32[64, 64, 1] chunk 33 scope "net.model.layers.3.mlp.experts" prov 470
    %squeeze_7 = reshape(%reshape_32) {shape=[64, 64]} : f32[64, 64] chunk 33 scope "net.model.layers.3.mlp.experts" prov 379
    %mul_1060 = mul(%squeeze_7, %unsqueeze_45) : f32[64, 64] chunk 33 scope "net.model.layers.3.mlp.experts" prov 382
    %view_46 = reshape(%mul_1060) {shape=[32, 2, 64]} : f32[32, 2, 64] chunk 33 scope "net.model.layers.3.mlp.experts" prov 383
    %sum_8 = sum(%view_46) {dims=[1], keepdim=false} : f32[32, 64] chunk 33 scope "net.model.layers.3.mlp.experts" prov 384
    %view_47 = reshape(%sum_8) {shape=[2, 16, 64]} : f32[2, 16, 64] chunk 33 scope "net.model.layers.3.mlp" prov 385
    %add_1520 = add(%add_1394, %view_47) : f32[2, 16, 64] chunk 33 scope "net.model.layers.3" prov 386
    %mul_1085, %mul_1085.1 = rms_norm(%add_1520, %net.model.norm.weight) {axes=1, eps=9.999999747378752e-06} : f32[2, 16, 64], f32[32] chunk 33 scope "net.model.norm" prov 392
    %linear_20 = linear(%mul_1085, %net.lm_head.weight, none) : f32[2, 16, 97] chunk 33 scope "net.lm_head" prov 394
    %view_48 = reshape(%linear_20) {shape=[32, 97]} : f32[32, 97] chunk 33 scope "net" prov 398
    %cross_entropy_sum, %cross_entropy_sum.1 = cross_entropy_sum(%view_48, %view_49) {ignore_index=-100, label_smoothing=0.0} : f32[], f32[32] chunk 33 scope "net" prov 476
    %mul_5 = mul(%cross_entropy_sum, %reciprocal) : f32[] chunk 33 scope "net" prov 476
    %add = add(%mul_5, %mul_7) : f32[] chunk 33 scope "net" prov 484
    %cross_entropy_backward = cross_entropy_backward(%reciprocal, %view_48, %view_49, %cross_entropy_sum.1, none) {ignore_index=-100, label_smoothing=0.0} : f32[32, 97] phase backward chunk 33 scope "net" prov 509
    %reshape_29 = reshape(%cross_entropy_backward) {shape=[2, 16, 97]} : f32[2, 16, 97] phase backward chunk 33 scope "net" prov 510
    %linear_backward_input = linear_backward_input(%reshape_29, %net.lm_head.weight) : f32[2, 16, 64] phase backward chunk 33 scope "net.lm_head" prov 511
    %linear_backward_weight = linear_backward_weight(%reshape_29, %mul_1085) : f32[97, 64] phase backward chunk 33 scope "net.lm_head" prov 511
    accumulate_grad(%linear_backward_weight) {parameter=%net.lm_head.weight} phase backward chunk 33 scope "net.lm_head" prov 511
    %rms_norm_backward_input = rms_norm_backward_input(%linear_backward_input, %add_1520, %mul_1085.1, %net.model.norm.weight) {axes=1, eps=9.999999747378752e-06} : f32[2, 16, 64] phase backward chunk 33 scope "net.model.norm" prov 512
    %rms_norm_backward_weight = rms_norm_backward_weight(%linear_backward_input, %add_1520, %mul_1085.1) {axes=1, eps=9.999999747378752e-06} : f32[64] phase backward chunk 33 scope "net.model.norm" prov 512
    accumulate_grad(%rms_norm_backward_weight) {parameter=%net.model.norm.weight} phase backward chunk 33 scope "net.model.norm" prov 512
    %reshape_30 = reshape(%rms_norm_backward_input) {shape=[32, 64]} : f32[32, 64] phase backward chunk 33 scope "net.model.layers.3.mlp" prov 514
    %reshape_31 = reshape(%reshape_30) {shape=[32, 1, 64]} : f32[32, 1, 64] phase backward chunk 33 scope "net.model.layers.3.mlp.experts" prov 515
    %expand = expand(%reshape_31) {shape=[32, 2, 64]} : f32[32, 2, 64] phase backward chunk 33 scope "net.model.layers.3.mlp.experts" prov 515
    %reshape_33 = reshape(%expand) {shape=[64, 64]} : f32[64, 64] phase backward chunk 33 scope "net.model.layers.3.mlp.experts" prov 516
    %mul_9 = mul(%reshape_33, %unsqueeze_45) : f32[64, 64] phase backward chunk 33 scope "net.model.layers.3.mlp.experts" prov 517
    %mul_10 = mul(%reshape_33, %squeeze_7) : f32[64, 64] phase backward chunk 33 scope "net.model.layers.3.mlp.experts" prov 517
    %sum_22 = sum(%mul_10) {dims=[1], keepdim=true} : f32[64, 1] phase backward chunk 33 scope "net.model.layers.3.mlp.experts" prov 517
    %reshape_34 = reshape(%mul_9) {shape=[64, 64, 1]} : f32[64, 64, 1] phase backward chunk 33 scope "net.model.layers.3.mlp.experts" prov 518
    %reshape_35 = reshape(%reshape_34) {shape=[64, 64]} : f32[64, 64] phase backward chunk 33 scope "net.model.layers.3.mlp.experts" prov 519
    %take_rows_5 = take_rows(%reshape_35, %expert_order_4_2, %expert_order_4_2.1) {repeat=1} : f32[64, 64] phase backward chunk 33 scope "net.model.layers.3.mlp.experts" prov 520
    %reshape_36 = reshape(%take_rows_5) {shape=[2, 32, 64]} : f32[2, 32, 64] phase backward chunk 33 scope "net.model.layers.3.mlp.experts" prov 520
    %all_to_all = all_to_all(%reshape_36, %sum_20, %sum_21) : f32[2, 32, 64] phase backward chunk 32 scope "net.model.layers.3.mlp.experts" prov 520
    %reshape_37 = reshape(%all_to_all) {shape=[64, 64]} : f32[64, 64] phase backward chunk 31 scope "net.model.layers.3.mlp.experts" prov 520
    %grouped_matmul_10 = grouped_matmul(%reshape_37, %net.model.layers.3.mlp.experts.down_proj, %expert_order_4_2.2.received) {transposed=false} : f32[64, 160] phase backward chunk 31 scope "net.model.layers.3.mlp.experts" prov 520
    %grouped_matmul_weight = grouped_matmul_weight(%reshape_37, %mul_4_2, %expert_order_4_2.2.received) : f32[2, 64, 160] phase backward chunk 31 scope "net.model.layers.3.mlp.experts" prov 520
    accumulate_grad(%grouped_matmul_weight) {parameter=%net.model.layers.3.mlp.experts.down_proj} phase backward chunk 31 scope "net.model.layers.3.mlp.experts" prov 520
    %mul_11 = mul(%grouped_matmul_10, %slice_8_2) : f32[64, 160] phase backward chunk 31 scope "net.model.layers.3.mlp.experts" prov 521
    %mul_12 = mul(%grouped_matmul_10, %silu_5_2) : f32[64, 160] phase backward chunk 31 scope "net.model.layers.3.mlp.experts" prov 521
    %silu_backward = silu_backward(%mul_11, %slice_7_2) : f32[64, 160] phase backward chunk 31 scope "net.model.layers.3.mlp.experts.act_fn" prov 522
    %cat = cat(%silu_backward, %mul_12) {dim=1} : f32[64, 320] phase backward chunk 31 scope "net.model.layers.3.mlp.experts" prov 523
    %grouped_matmul_11 = grouped_matmul(%cat, %net.model.layers.3.mlp.experts.gate_up_proj, %expert_order_4_2.2.received) {transposed=false} : f32[64, 64] phase backward chunk 30 scope "net.model.layers.3.mlp.experts" prov 524
    %grouped_matmul_weight_2 = grouped_matmul_weight(%cat, %reshape_23, %expert_order_4_2.2.received) : f32[2, 320, 64] phase backward chunk 30 scope "net.model.layers.3.mlp.experts" prov 524
    accumulate_grad(%grouped_matmul_weight_2) {parameter=%net.model.layers.3.mlp.experts.gate_up_proj} phase backward chunk 30 scope "net.model.layers.3.mlp.experts" prov 524
    %reshape_38 = reshape(%grouped_matmul_11) {shape=[2, 32, 64]} : f32[2, 32, 64] phase backward chunk 30 scope "net.model.layers.3.mlp.experts" prov 524
    %all_to_all_2 = all_to_all(%reshape_38, %sum_21, %sum_20) : f32[2, 32, 64] phase backward chunk 29 scope "net.model.layers.3.mlp.experts" prov 524
    %reshape_39 = reshape(%all_to_all_2) {shape=[64, 64]} : f32[64, 64] phase backward chunk 26 scope "net.model.layers.3.mlp.experts" prov 524
    %take_rows_8 = take_rows(%reshape_39, %expert_order_4_2.1, %expert_order_4_2) {repeat=1} : f32[64, 64] phase backward chunk 26 scope "net.model.layers.3.mlp.experts" prov 524
    %reshape_40 = reshape(%take_rows_8) {shape=[32, 2, 64]} : f32[32, 2, 64] phase backward chunk 26 scope "net.model.layers.3.mlp.experts" prov 524
    %sum_23 = sum(%reshape_40) {dims=[1], keepdim=false} : f32[32, 64] phase backward chunk 26 scope "net.model.layers.3.mlp.experts" prov 524
    %reshape_41 = reshape(%scalar_3) {shape=[1, 1]} : f32[1, 1] phase backward chunk 33 scope "net" prov 527
    %expand_2 = expand(%reshape_41) {shape=[1, 4]} : f32[1, 4] phase backward chunk 33 scope "net" prov 527
    %div_7 = div(%expand_2, %scalar) : f32[1, 4] phase backward chunk 33 scope "net" prov 528
    %mul_13 = mul(%div_7, %div_4) : f32[1, 4] phase backward chunk 33 scope "net" prov 529
    %reshape_42 = reshape(%mul_13) {shape=[4]} : f32[4] phase backward chunk 33 scope "net" prov 530
    %div_8 = div(%reshape_42, %scalar_64) : f32[4] phase backward chunk 33 scope "net" prov 531
    %reshape_43 = reshape(%div_8) {shape=[1, 4]} : f32[1, 4] phase backward chunk 33 scope "net" prov 533
    %expand_11 = expand(%reshape_43) {shape=[32, 4]} : f32[32, 4] phase backward chunk 33 scope "net" prov 533
    %softmax_backward = softmax_backward(%expand_11, %softmax_7) {dim=1} : f32[32, 4] phase backward chunk 33 scope "net" prov 534
    %reshape_44 = reshape(%sum_22) {shape=[64]} : f32[64] phase backward chunk 26 scope "net.model.layers.3.mlp.experts" prov 535
    %reshape_45 = reshape(%reshape_44) {shape=[32, 2]} : f32[32, 2] phase backward chunk 26 scope "net.model.layers.3.mlp.experts" prov 536
    %reshape_46 = reshape(%sum_23) {shape=[2, 16, 64]} : f32[2, 16, 64] phase backward chunk 26 scope "net.model.layers.3.mlp.experts" prov 537
    %div_9 = div(%reshape_45, %sum_7) : f32[32, 2] phase backward chunk 26 scope "net.model.layers.3.mlp.gate" prov 538
    %mul_14 = mul(%div_9, %div_3) : f32[32, 2] phase backward chunk 26 scope "net.model.layers.3.mlp.gate" prov 538
    %sum_24 = sum(%mul_14) {dims=[1], keepdim=true} : f32[32, 1] phase backward chunk 26 scope "net.model.layers.3.mlp.gate" prov 538
    %neg = neg(%sum_24) : f32[32, 1] phase backward chunk 26 scope "net.model.layers.3.mlp.gate" prov 538
    %expand_12 = expand(%neg) {shape=[32, 2]} : f32[32, 2] phase backward chunk 26 scope "net.model.layers.3.mlp.gate" prov 539
    %add_2 = add(%div_9, %expand_12) : f32[32, 2] phase backward chunk 26 scope "net.model.layers.3.mlp.gate" prov 539
    %fill = fill() {shape=[32, 4], value=0.0, to=f32} : f32[32, 4] phase backward chunk 26 scope "net.model.layers.3.mlp.gate" prov 540
    %scatter = scatter(%fill, %getitem_12.1, %add_2) {dim=1} : f32[32, 4] phase backward chunk 26 scope "net.model.layers.3.mlp.gate" prov 540
    %softmax_backward_2 = softmax_backward(%scatter, %softmax_3) {dim=1} : f32[32, 4] phase backward chunk 26 scope "net.model.layers.3.mlp.gate" prov 541
    %add_3 = add(%softmax_backward, %softmax_backward_2) : f32[32, 4] phase backward chunk 26 scope "net.model.layers.3.mlp.gate" prov 542
    %linear_backward_input_2 = linear_backward_input(%add_3, %net.model.layers.3.mlp.gate.weight) : f32[32, 64] phase backward chunk 26 scope "net.model.layers.3.mlp.gate" prov 542
    %linear_backward_weight_2 = linear_backward_weight(%add_3, %view_40) : f32[4, 64] phase backward chunk 26 scope "net.model.layers.3.mlp.gate" prov 542
    accumulate_grad(%linear_backward_weight_2) {parameter=%net.model.layers.3.mlp.gate.weight} phase backward chunk 26 scope "net.model.layers.3.mlp.gate" prov 542
    %reshape_47 = reshape(%linear_backward_input_2) {shape=[2, 16, 64]} : f32[2, 16, 64] phase backward chunk 26 scope "net.model.layers.3.mlp" prov 543
    %add_4 = add(%reshape_46, %reshape_47) : f32[2, 16, 64] phase backward chunk 26 scope "net.model.layers.3.mlp" prov 543
    %rms_norm_backward_input_2 = rms_norm_backward_input(%add_4, %add_1394, %mul_1000.1, %net.model.layers.3.post_attention_layernorm.weight) {axes=1, eps=9.999999747378752e-06} : f32[2, 16, 64] phase backward chunk 26 scope "net.model.layers.3.post_attention_layernorm" prov 544
    %rms_norm_backward_weight_2 = rms_norm_backward_weight(%add_4, %add_1394, %mul_1000.1) {axes=1, eps=9.999999747378752e-06} : f32[64] phase backward chunk 26 scope "net.model.layers.3.post_attention_layernorm" prov 544
    accumulate_grad(%rms_norm_backward_weight_2) {parameter=%net.model.layers.3.post_attention_layernorm.weight} phase backward chunk 26 scope "net.model.layers.3.post_attention_layernorm" prov 544
    %add_5 = add(%rms_norm_backward_input, %rms_norm_backward_input_2) : f32[2, 16, 64] phase backward chunk 26 scope "net.model.layers.3" prov 545
    %linear_backward_input_3 = linear_backward_input(%add_5, %net.model.layers.3.self_attn.o_proj.weight) : f32[2, 16, 64] phase backward chunk 26 scope "net.model.layers.3.self_attn.o_proj" prov 546
    %linear_backward_weight_3 = linear_backward_weight(%add_5, %_unsafe_view_11) : f32[64, 64] phase backward chunk 26 scope "net.model.layers.3.self_attn.o_proj" prov 546
    accumulate_grad(%linear_backward_weight_3) {parameter=%net.model.layers.3.self_attn.o_proj.weight} phase backward chunk 26 scope "net.model.layers.3.self_attn.o_proj" prov 546
    %reshape_48 = reshape(%linear_backward_input_3) {shape=[2, 16, 4, 16]} : f32[2, 16, 4, 16] phase backward chunk 26 scope "net.model.layers.3.self_attn" prov 547
    %permute = permute(%reshape_48) {dims=[0, 2, 1, 3]} : f32[2, 4, 16, 16] phase backward chunk 26 scope "net.model.layers.3.self_attn" prov 548
    %scaled_dot_product_attention_backward, %scaled_dot_product_attention_backward.1, %scaled_dot_product_attention_backward.2 = scaled_dot_product_attention_backward(%permute, %add_1263, %_unsafe_view_9, %_unsafe_view_10, %scaled_dot_product_attention_3, %scaled_dot_product_attention_3.1, none) {is_causal=true, scale=0.25} : f32[2, 4, 16, 16], f32[2, 4, 16, 16], f32[2, 4, 16, 16] phase backward chunk 26 scope "net.model.layers.3.self_attn" prov 549
    %reshape_49 = reshape(%scaled_dot_product_attention_backward.2) {shape=[2, 2, 2, 16, 16]} : f32[2, 2, 2, 16, 16] phase backward chunk 26 scope "net.model.layers.3.self_attn" prov 550
    %sum_25 = sum(%reshape_49) {dims=[2], keepdim=true} : f32[2, 2, 1, 16, 16] phase backward chunk 26 scope "net.model.layers.3.self_attn" prov 551
    %reshape_50 = reshape(%sum_25) {shape=[2, 2, 16, 16]} : f32[2, 2, 16, 16] phase backward chunk 26 scope "net.model.layers.3.self_attn" prov 552
    %reshape_51 = reshape(%scaled_dot_product_attention_backward.1) {shape=[2, 2, 2, 16, 16]} : f32[2, 2, 2, 16, 16] phase backward chunk 26 scope "net.model.layers.3.self_attn" prov 553
    %sum_26 = sum(%reshape_51) {dims=[2], keepdim=true} : f32[2, 2, 1, 16, 16] phase backward chunk 26 scope "net.model.layers.3.self_attn" prov 554
    %reshape_52 = reshape(%sum_26) {shape=[2, 2, 16, 16]} : f32[2, 2, 16, 16] phase backward chunk 26 scope "net.model.layers.3.self_attn" prov 555
    %rotary_backward = rotary_backward(%reshape_52, %unsqueeze_14, %unsqueeze_15) : f32[2, 2, 16, 16] phase backward chunk 26 scope "net.model.layers.3.self_attn" prov 556
    %rotary_backward_2 = rotary_backward(%scaled_dot_product_attention_backward, %unsqueeze_14, %unsqueeze_15) : f32[2, 4, 16, 16] phase backward chunk 26 scope "net.model.layers.3.self_attn" prov 557
    %permute_2 = permute(%reshape_50) {dims=[0, 2, 1, 3]} : f32[2, 16, 2, 16] phase backward chunk 26 scope "net.model.layers.3.self_attn" prov 558
    %reshape_53 = reshape(%permute_2) {shape=[2, 16, 32]} : f32[2, 16, 32] phase backward chunk 26 scope "net.model.layers.3.self_attn" prov 559
    %linear_backward_input_4 = linear_backward_input(%reshape_53, %net.model.layers.3.self_attn.v_proj.weight) : f32[2, 16, 64] phase backward chunk 26 scope "net.model.layers.3.self_attn.v_proj" prov 560
    %linear_backward_weight_4 = linear_backward_weight(%reshape_53, %mul_827) : f32[32, 64] phase backward chunk 26 scope "net.model.layers.3.self_attn.v_proj" prov 560
    accumulate_grad(%linear_backward_weight_4) {parameter=%net.model.layers.3.self_attn.v_proj.weight} phase backward chunk 26 scope "net.model.layers.3.self_attn.v_proj" prov 560
    %permute_3 = permute(%rotary_backward) {dims=[0, 2, 1, 3]} : f32[2, 16, 2, 16] phase backward chunk 26 scope "net.model.layers.3.self_attn" prov 561
    %reshape_54 = reshape(%permute_3) {shape=[2, 16, 32]} : f32[2, 16, 32] phase backward chunk 26 scope "net.model.layers.3.self_attn" prov 562
    %linear_backward_input_5 = linear_backward_input(%reshape_54, %net.model.layers.3.self_attn.k_proj.weight) : f32[2, 16, 64] phase backward chunk 26 scope "net.model.layers.3.self_attn.k_proj" prov 563
    %linear_backward_weight_5 = linear_backward_weight(%reshape_54, %mul_827) : f32[32, 64] phase backward chunk 26 scope "net.model.layers.3.self_attn.k_proj" prov 563
    %add_6 = add(%linear_backward_input_4, %linear_backward_input_5) : f32[2, 16, 64] phase backward chunk 26 scope "net.model.layers.3.self_attn.k_proj" prov 563
    accumulate_grad(%linear_backward_weight_5) {parameter=%net.model.layers.3.self_attn.k_proj.weight} phase backward chunk 26 scope "net.model.layers.3.self_attn.k_proj" prov 563
    %permute_4 = permute(%rotary_backward_2) {dims=[0, 2, 1, 3]} : f32[2, 16, 4, 16] phase backward chunk 26 scope "net.model.layers.3.self_attn" prov 564
    %reshape_55 = reshape(%permute_4) {shape=[2, 16, 64]} : f32[2, 16, 64] phase backward chunk 26 scope "net.model.layers.3.self_attn" prov 565
    %linear_backward_input_6 = linear_backward_input(%reshape_55, %net.model.layers.3.self_attn.q_proj.weight) : f32[2, 16, 64] phase backward chunk 26 scope "net.model.layers.3.self_attn.q_proj" prov 566
    %linear_backward_weight_6 = linear_backward_weight(%reshape_55, %mul_827) : f32[64, 64] phase backward chunk 26 scope "net.model.layers.3.self_attn.q_proj" prov 566
    %add_7 = add(%add_6, %linear_backward_input_6) : f32[2, 16, 64] phase backward chunk 26 scope "net.model.layers.3.self_attn.q_proj" prov 566
    accumulate_grad(%linear_backward_weight_6) {parameter=%net.model.layers.3.self_attn.q_proj.weight} phase backward chunk 26 scope "net.model.layers.3.self_attn.q_proj" prov 566
    %rms_norm_backward_input_3 = rms_norm_backward_input(%add_7, %add_1161, %mul_827.1, %net.model.layers.3.input_layernorm.weight) {axes=1, eps=9.999999747378752e-06} : f32[2, 16, 64] phase backward chunk 26 scope "net.model.layers.3.input_layernorm" prov 567
    %rms_norm_backward_weight_3 = rms_norm_backward_weight(%add_7, %add_1161, %mul_827.1) {axes=1, eps=9.999999747378752e-06} : f32[64] phase backward chunk 26 scope "net.model.layers.3.input_layernorm" prov 567
    %add_8 = add(%add_5, %rms_norm_backward_input_3) : f32[2, 16, 64] phase backward chunk 26 scope "net.model.layers.3.input_layernorm" prov 567
    accumulate_grad(%rms_norm_backward_weight_3) {parameter=%net.model.layers.3.input_layernorm.weight} phase backward chunk 26 scope "net.model.layers.3.input_layernorm" prov 567
    %reshape_56 = reshape(%add_8) {shape=[32, 64]} : f32[32, 64] phase backward chunk 26 scope "net.model.layers.2.mlp" prov 569
    %reshape_57 = reshape(%reshape_56) {shape=[32, 1, 64]} : f32[32, 1, 64] phase backward chunk 26 scope "net.model.layers.2.mlp.experts" prov 570
    %expand_13 = expand(%reshape_57) {shape=[32, 2, 64]} : f32[32, 2, 64] phase backward chunk 26 scope "net.model.layers.2.mlp.experts" prov 570
    %reshape_58 = reshape(%expand_13) {shape=[64, 64]} : f32[64, 64] phase backward chunk 26 scope "net.model.layers.2.mlp.experts" prov 571
    %mul_15 = mul(%reshape_58, %unsqueeze_37) : f32[64, 64] phase backward chunk 26 scope "net.model.layers.2.mlp.experts" prov 572
    %mul_16 = mul(%reshape_58, %squeeze_5) : f32[64, 64] phase backward chunk 26 scope "net.model.layers.2.mlp.experts" prov 572
    %sum_27 = sum(%mul_16) {dims=[1], keepdim=true} : f32[64, 1] phase backward chunk 26 scope "net.model.layers.2.mlp.experts" prov 572
    %reshape_59 = reshape(%mul_15) {shape=[64, 64, 1]} : f32[64, 64, 1] phase backward chunk 26 scope "net.model.layers.2.mlp.experts" prov 573
    %reshape_60 = reshape(%reshape_59) {shape=[64, 64]} : f32[64, 64] phase backward chunk 26 scope "net.model.layers.2.mlp.experts" prov 574
    %take_rows_11 = take_rows(%reshape_60, %expert_order_3_2, %expert_order_3_2.1) {repeat=1} : f32[64, 64] phase backward chunk 26 scope "net.model.layers.2.mlp.experts" prov 575
    %reshape_61 = reshape(%take_rows_11) {shape=[2, 32, 64]} : f32[2, 32, 64] phase backward chunk 26 scope "net.model.layers.2.mlp.experts" prov 575
    %all_to_all_3 = all_to_all(%reshape_61, %sum_18, %sum_19) : f32[2, 32, 64] phase backward chunk 25 scope "net.model.layers.2.mlp.experts" prov 575
    %reshape_62 = reshape(%all_to_all_3) {shape=[64, 64]} : f32[64, 64] phase backward chunk 24 scope "net.model.layers.2.mlp.experts" prov 575
    %grouped_matmul_12 = grouped_matmul(%reshape_62, %net.model.layers.2.mlp.experts.down_proj, %expert_order_3_2.2.received) {transposed=false} : f32[64, 160] phase backward chunk 24 scope "net.model.layers.2.mlp.experts" prov 575
    %grouped_matmul_weight_3 = grouped_matmul_weight(%reshape_62, %mul_3_2, %expert_order_3_2.2.received) : f32[2, 64, 160] phase backward chunk 24 scope "net.model.layers.2.mlp.experts" prov 575
    accumulate_grad(%grouped_matmul_weight_3) {parameter=%net.model.layers.2.mlp.experts.down_proj} phase backward chunk 24 scope "net.model.layers.2.mlp.experts" prov 575
    %mul_17 = mul(%grouped_matmul_12, %slice_6_2) : f32[64, 160] phase backward chunk 24 scope "net.model.layers.2.mlp.experts" prov 576
    %mul_18 = mul(%grouped_matmul_12, %silu_4_2) : f32[64, 160] phase backward chunk 24 scope "net.model.layers.2.mlp.experts" prov 576
    %silu_backward_2 = silu_backward(%mul_17, %slice_5_2) : f32[64, 160] phase backward chunk 24 scope "net.model.layers.2.mlp.experts.act_fn" prov 577
    %cat_2 = cat(%silu_backward_2, %mul_18) {dim=1} : f32[64, 320] phase backward chunk 24 scope "net.model.layers.2.mlp.experts" prov 578
    %grouped_matmul_13 = grouped_matmul(%cat_2, %net.model.layers.2.mlp.experts.gate_up_proj, %expert_order_3_2.2.received) {transposed=false} : f32[64, 64] phase backward chunk 23 scope "net.model.layers.2.mlp.experts" prov 579
    %grouped_matmul_weight_4 = grouped_matmul_weight(%cat_2, %reshape_19, %expert_order_3_2.2.received) : f32[2, 320, 64] phase backward chunk 23 scope "net.model.layers.2.mlp.experts" prov 579
    accumulate_grad(%grouped_matmul_weight_4) {parameter=%net.model.layers.2.mlp.experts.gate_up_proj} phase backward chunk 23 scope "net.model.layers.2.mlp.experts" prov 579
    %reshape_63 = reshape(%grouped_matmul_13) {shape=[2, 32, 64]} : f32[2, 32, 64] phase backward chunk 23 scope "net.model.layers.2.mlp.experts" prov 579
    %all_to_all_4 = all_to_all(%reshape_63, %sum_19, %sum_18) : f32[2, 32, 64] phase backward chunk 22 scope "net.model.layers.2.mlp.experts" prov 579
    %reshape_64 = reshape(%all_to_all_4) {shape=[64, 64]} : f32[64, 64] phase backward chunk 19 scope "net.model.layers.2.mlp.experts" prov 579
    %take_rows_13 = take_rows(%reshape_64, %expert_order_3_2.1, %expert_order_3_2) {repeat=1} : f32[64, 64] phase backward chunk 19 scope "net.model.layers.2.mlp.experts" prov 579
    %reshape_65 = reshape(%take_rows_13) {shape=[32, 2, 64]} : f32[32, 2, 64] phase backward chunk 19 scope "net.model.layers.2.mlp.experts" prov 579
    %sum_28 = sum(%reshape_65) {dims=[1], keepdim=false} : f32[32, 64] phase backward chunk 19 scope "net.model.layers.2.mlp.experts" prov 579
    %reshape_66 = reshape(%div_8) {shape=[1, 4]} : f32[1, 4] phase backward chunk 26 scope "net" prov 581
    %expand_14 = expand(%reshape_66) {shape=[32, 4]} : f32[32, 4] phase backward chunk 26 scope "net" prov 581
    %softmax_backward_3 = softmax_backward(%expand_14, %softmax_6) {dim=1} : f32[32, 4] phase backward chunk 26 scope "net" prov 582
    %reshape_67 = reshape(%sum_27) {shape=[64]} : f32[64] phase backward chunk 19 scope "net.model.layers.2.mlp.experts" prov 583
    %reshape_68 = reshape(%reshape_67) {shape=[32, 2]} : f32[32, 2] phase backward chunk 19 scope "net.model.layers.2.mlp.experts" prov 584
    %reshape_69 = reshape(%sum_28) {shape=[2, 16, 64]} : f32[2, 16, 64] phase backward chunk 19 scope "net.model.layers.2.mlp.experts" prov 585
    %div_10 = div(%reshape_68, %sum_5) : f32[32, 2] phase backward chunk 19 scope "net.model.layers.2.mlp.gate" prov 586
    %mul_19 = mul(%div_10, %div_2) : f32[32, 2] phase backward chunk 19 scope "net.model.layers.2.mlp.gate" prov 586
    %sum_29 = sum(%mul_19) {dims=[1], keepdim=true} : f32[32, 1] phase backward chunk 19 scope "net.model.layers.2.mlp.gate" prov 586
    %neg_2 = neg(%sum_29) : f32[32, 1] phase backward chunk 19 scope "net.model.layers.2.mlp.gate" prov 586
    %expand_15 = expand(%neg_2) {shape=[32, 2]} : f32[32, 2] phase backward chunk 19 scope "net.model.layers.2.mlp.gate" prov 587
    %add_9 = add(%div_10, %expand_15) : f32[32, 2] phase backward chunk 19 scope "net.model.layers.2.mlp.gate" prov 587
    %fill_2 = fill() {shape=[32, 4], value=0.0, to=f32} : f32[32, 4] phase backward chunk 19 scope "net.model.layers.2.mlp.gate" prov 588
    %scatter_2 = scatter(%fill_2, %getitem_8.1, %add_9) {dim=1} : f32[32, 4] phase backward chunk 19 scope "net.model.layers.2.mlp.gate" prov 588
    %softmax_backward_4 = softmax_backward(%scatter_2, %softmax_2) {dim=1} : f32[32, 4] phase backward chunk 19 scope "net.model.layers.2.mlp.gate" prov 589
    %add_10 = add(%softmax_backward_3, %softmax_backward_4) : f32[32, 4] phase backward chunk 19 scope "net.model.layers.2.mlp.gate" prov 590
    %linear_backward_input_7 = linear_backward_input(%add_10, %net.model.layers.2.mlp.gate.weight) : f32[32, 64] phase backward chunk 19 scope "net.model.layers.2.mlp.gate" prov 590
    %linear_backward_weight_7 = linear_backward_weight(%add_10, %view_28) : f32[4, 64] phase backward chunk 19 scope "net.model.layers.2.mlp.gate" prov 590
    accumulate_grad(%linear_backward_weight_7) {parameter=%net.model.layers.2.mlp.gate.weight} phase backward chunk 19 scope "net.model.layers.2.mlp.gate" prov 590
    %reshape_70 = reshape(%linear_backward_input_7) {shape=[2, 16, 64]} : f32[2, 16, 64] phase backward chunk 19 scope "net.model.layers.2.mlp" prov 591
    %add_11 = add(%reshape_69, %reshape_70) : f32[2, 16, 64] phase backward chunk 19 scope "net.model.layers.2.mlp" prov 591
    %rms_norm_backward_input_4 = rms_norm_backward_input(%add_11, %add_1035, %mul_742.1, %net.model.layers.2.post_attention_layernorm.weight) {axes=1, eps=9.999999747378752e-06} : f32[2, 16, 64] phase backward chunk 19 scope "net.model.layers.2.post_attention_layernorm" prov 592
    %rms_norm_backward_weight_4 = rms_norm_backward_weight(%add_11, %add_1035, %mul_742.1) {axes=1, eps=9.999999747378752e-06} : f32[64] phase backward chunk 19 scope "net.model.layers.2.post_attention_layernorm" prov 592
    accumulate_grad(%rms_norm_backward_weight_4) {parameter=%net.model.layers.2.post_attention_layernorm.weight} phase backward chunk 19 scope "net.model.layers.2.post_attention_layernorm" prov 592
    %add_12 = add(%add_8, %rms_norm_backward_input_4) : f32[2, 16, 64] phase backward chunk 19 scope "net.model.layers.2" prov 593
    %linear_backward_input_8 = linear_backward_input(%add_12, %net.model.layers.2.self_attn.o_proj.weight) : f32[2, 16, 64] phase backward chunk 19 scope "net.model.layers.2.self_attn.o_proj" prov 594
    %linear_backward_weight_8 = linear_backward_weight(%add_12, %_unsafe_view_8) : f32[64, 64] phase backward chunk 19 scope "net.model.layers.2.self_attn.o_proj" prov 594
    accumulate_grad(%linear_backward_weight_8) {parameter=%net.model.layers.2.self_attn.o_proj.weight} phase backward chunk 19 scope "net.model.layers.2.self_attn.o_proj" prov 594
    %reshape_71 = reshape(%linear_backward_input_8) {shape=[2, 16, 4, 16]} : f32[2, 16, 4, 16] phase backward chunk 19 scope "net.model.layers.2.self_attn" prov 595
    %permute_5 = permute(%reshape_71) {dims=[0, 2, 1, 3]} : f32[2, 4, 16, 16] phase backward chunk 19 scope "net.model.layers.2.self_attn" prov 596
    %scaled_dot_product_attention_backward_2, %scaled_dot_product_attention_backward_2.1, %scaled_dot_product_attention_backward_2.2 = scaled_dot_product_attention_backward(%permute_5, %add_904, %_unsafe_view_6, %_unsafe_view_7, %scaled_dot_product_attention_2, %scaled_dot_product_attention_2.1, none) {is_causal=true, scale=0.25} : f32[2, 4, 16, 16], f32[2, 4, 16, 16], f32[2, 4, 16, 16] phase backward chunk 19 scope "net.model.layers.2.self_attn" prov 597
    %reshape_72 = reshape(%scaled_dot_product_attention_backward_2.2) {shape=[2, 2, 2, 16, 16]} : f32[2, 2, 2, 16, 16] phase backward chunk 19 scope "net.model.layers.2.self_attn" prov 598
    %sum_30 = sum(%reshape_72) {dims=[2], keepdim=true} : f32[2, 2, 1, 16, 16] phase backward chunk 19 scope "net.model.layers.2.self_attn" prov 599
    %reshape_73 = reshape(%sum_30) {shape=[2, 2, 16, 16]} : f32[2, 2, 16, 16] phase backward chunk 19 scope "net.model.layers.2.self_attn" prov 600
    %reshape_74 = reshape(%scaled_dot_product_attention_backward_2.1) {shape=[2, 2, 2, 16, 16]} : f32[2, 2, 2, 16, 16] phase backward chunk 19 scope "net.model.layers.2.self_attn" prov 601
    %sum_31 = sum(%reshape_74) {dims=[2], keepdim=true} : f32[2, 2, 1, 16, 16] phase backward chunk 19 scope "net.model.layers.2.self_attn" prov 602
    %reshape_75 = reshape(%sum_31) {shape=[2, 2, 16, 16]} : f32[2, 2, 16, 16] phase backward chunk 19 scope "net.model.layers.2.self_attn" prov 603
    %rotary_backward_3 = rotary_backward(%reshape_75, %unsqueeze_14, %unsqueeze_15) : f32[2, 2, 16, 16] phase backward chunk 19 scope "net.model.layers.2.self_attn" prov 604
    %rotary_backward_4 = rotary_backward(%scaled_dot_product_attention_backward_2, %unsqueeze_14, %unsqueeze_15) : f32[2, 4, 16, 16] phase backward chunk 19 scope "net.model.layers.2.self_attn" prov 605
    %permute_6 = permute(%reshape_73) {dims=[0, 2, 1, 3]} : f32[2, 16, 2, 16] phase backward chunk 19 scope "net.model.layers.2.self_attn" prov 606
    %reshape_76 = reshape(%permute_6) {shape=[2, 16, 32]} : f32[2, 16, 32] phase backward chunk 19 scope "net.model.layers.2.self_attn" prov 607
    %linear_backward_input_9 = linear_backward_input(%reshape_76, %net.model.layers.2.self_attn.v_proj.weight) : f32[2, 16, 64] phase backward chunk 19 scope "net.model.layers.2.self_attn.v_proj" prov 608
    %linear_backward_weight_9 = linear_backward_weight(%reshape_76, %mul_569) : f32[32, 64] phase backward chunk 19 scope "net.model.layers.2.self_attn.v_proj" prov 608
    accumulate_grad(%linear_backward_weight_9) {parameter=%net.model.layers.2.self_attn.v_proj.weight} phase backward chunk 19 scope "net.model.layers.2.self_attn.v_proj" prov 608
    %permute_7 = permute(%rotary_backward_3) {dims=[0, 2, 1, 3]} : f32[2, 16, 2, 16] phase backward chunk 19 scope "net.model.layers.2.self_attn" prov 609
    %reshape_77 = reshape(%permute_7) {shape=[2, 16, 32]} : f32[2, 16, 32] phase backward chunk 19 scope "net.model.layers.2.self_attn" prov 610
    %linear_backward_input_10 = linear_backward_input(%reshape_77, %net.model.layers.2.self_attn.k_proj.weight) : f32[2, 16, 64] phase backward chunk 19 scope "net.model.layers.2.self_attn.k_proj" prov 611
    %linear_backward_weight_10 = linear_backward_weight(%reshape_77, %mul_569) : f32[32, 64] phase backward chunk 19 scope "net.model.layers.2.self_attn.k_proj" prov 611
    %add_13 = add(%linear_backward_input_9, %linear_backward_input_10) : f32[2, 16, 64] phase backward chunk 19 scope "net.model.layers.2.self_attn.k_proj" prov 611
    accumulate_grad(%linear_backward_weight_10) {parameter=%net.model.layers.2.self_attn.k_proj.weight} phase backward chunk 19 scope "net.model.layers.2.self_attn.k_proj" prov 611
    %permute_8 = permute(%rotary_backward_4) {dims=[0, 2, 1, 3]} : f32[2, 16, 4, 16] phase backward chunk 19 scope "net.model.layers.2.self_attn" prov 612
    %reshape_78 = reshape(%permute_8) {shape=[2, 16, 64]} : f32[2, 16, 64] phase backward chunk 19 scope "net.model.layers.2.self_attn" prov 613
    %linear_backward_input_11 = linear_backward_input(%reshape_78, %net.model.layers.2.self_attn.q_proj.weight) : f32[2, 16, 64] phase backward chunk 19 scope "net.model.layers.2.self_attn.q_proj" prov 614
    %linear_backward_weight_11 = linear_backward_weight(%reshape_78, %mul_569) : f32[64, 64] phase backward chunk 19 scope "net.model.layers.2.self_attn.q_proj" prov 614
    %add_14 = add(%add_13, %linear_backward_input_11) : f32[2, 16, 64] phase backward chunk 19 scope "net.model.layers.2.self_attn.q_proj" prov 614
    accumulate_grad(%linear_backward_weight_11) {parameter=%net.model.layers.2.self_attn.q_proj.weight} phase backward chunk 19 scope "net.model.layers.2.self_attn.q_proj" prov 614
    %rms_norm_backward_input_5 = rms_norm_backward_input(%add_14, %add_802, %mul_569.1, %net.model.layers.2.input_layernorm.weight) {axes=1, eps=9.999999747378752e-06} : f32[2, 16, 64] phase backward chunk 19 scope "net.model.layers.2.input_layernorm" prov 615
    %rms_norm_backward_weight_5 = rms_norm_backward_weight(%add_14, %add_802, %mul_569.1) {axes=1, eps=9.999999747378752e-06} : f32[64] phase backward chunk 19 scope "net.model.layers.2.input_layernorm" prov 615
    %add_15 = add(%add_12, %rms_norm_backward_input_5) : f32[2, 16, 64] phase backward chunk 19 scope "net.model.layers.2.input_layernorm" prov 615
    accumulate_grad(%rms_norm_backward_weight_5) {parameter=%net.model.layers.2.input_layernorm.weight} phase backward chunk 19 scope "net.model.layers.2.input_layernorm" prov 615
    %reshape_79 = reshape(%add_15) {shape=[32, 64]} : f32[32, 64] phase backward chunk 17 scope "net.model.layers.1.mlp" prov 617
    %reshape_80 = reshape(%reshape_79) {shape=[32, 1, 64]} : f32[32, 1, 64] phase backward chunk 17 scope "net.model.layers.1.mlp.experts" prov 618
    %expand_16 = expand(%reshape_80) {shape=[32, 2, 64]} : f32[32, 2, 64] phase backward chunk 17 scope "net.model.layers.1.mlp.experts" prov 618
    %reshape_81 = reshape(%expand_16) {shape=[64, 64]} : f32[64, 64] phase backward chunk 17 scope "net.model.layers.1.mlp.experts" prov 619
    %mul_20 = mul(%reshape_81, %unsqueeze_29) : f32[64, 64] phase backward chunk 17 scope "net.model.layers.1.mlp.experts" prov 620
    %mul_21 = mul(%reshape_81, %squeeze_3) : f32[64, 64] phase backward chunk 17 scope "net.model.layers.1.mlp.experts" prov 620
    %sum_32 = sum(%mul_21) {dims=[1], keepdim=true} : f32[64, 1] phase backward chunk 17 scope "net.model.layers.1.mlp.experts" prov 620
    %reshape_82 = reshape(%mul_20) {shape=[64, 64, 1]} : f32[64, 64, 1] phase backward chunk 17 scope "net.model.layers.1.mlp.experts" prov 621
    %reshape_83 = reshape(%reshape_82) {shape=[64, 64]} : f32[64, 64] phase backward chunk 17 scope "net.model.layers.1.mlp.experts" prov 622
    %take_rows_14 = take_rows(%reshape_83, %expert_order_2_2, %expert_order_2_2.1) {repeat=1} : f32[64, 64] phase backward chunk 17 scope "net.model.layers.1.mlp.experts" prov 623
    %reshape_84 = reshape(%take_rows_14) {shape=[2, 32, 64]} : f32[2, 32, 64] phase backward chunk 17 scope "net.model.layers.1.mlp.experts" prov 623
    %all_to_all_5 = all_to_all(%reshape_84, %sum_16, %sum_17) : f32[2, 32, 64] phase backward chunk 16 scope "net.model.layers.1.mlp.experts" prov 623
    %reshape_85 = reshape(%all_to_all_5) {shape=[64, 64]} : f32[64, 64] phase backward chunk 15 scope "net.model.layers.1.mlp.experts" prov 623
    %grouped_matmul_14 = grouped_matmul(%reshape_85, %net.model.layers.1.mlp.experts.down_proj, %expert_order_2_2.2.received) {transposed=false} : f32[64, 160] phase backward chunk 15 scope "net.model.layers.1.mlp.experts" prov 623
    %grouped_matmul_weight_5 = grouped_matmul_weight(%reshape_85, %mul_2_2, %expert_order_2_2.2.received) : f32[2, 64, 160] phase backward chunk 15 scope "net.model.layers.1.mlp.experts" prov 623
    accumulate_grad(%grouped_matmul_weight_5) {parameter=%net.model.layers.1.mlp.experts.down_proj} phase backward chunk 15 scope "net.model.layers.1.mlp.experts" prov 623
    %mul_22 = mul(%grouped_matmul_14, %slice_4_2) : f32[64, 160] phase backward chunk 15 scope "net.model.layers.1.mlp.experts" prov 624
    %mul_23 = mul(%grouped_matmul_14, %silu_3_2) : f32[64, 160] phase backward chunk 15 scope "net.model.layers.1.mlp.experts" prov 624
    %silu_backward_3 = silu_backward(%mul_22, %slice_3_2) : f32[64, 160] phase backward chunk 15 scope "net.model.layers.1.mlp.experts.act_fn" prov 625
    %cat_3 = cat(%silu_backward_3, %mul_23) {dim=1} : f32[64, 320] phase backward chunk 15 scope "net.model.layers.1.mlp.experts" prov 626
    %grouped_matmul_15 = grouped_matmul(%cat_3, %net.model.layers.1.mlp.experts.gate_up_proj, %expert_order_2_2.2.received) {transposed=false} : f32[64, 64] phase backward chunk 14 scope "net.model.layers.1.mlp.experts" prov 627
    %grouped_matmul_weight_6 = grouped_matmul_weight(%cat_3, %reshape_12, %expert_order_2_2.2.received) : f32[2, 320, 64] phase backward chunk 14 scope "net.model.layers.1.mlp.experts" prov 627
    accumulate_grad(%grouped_matmul_weight_6) {parameter=%net.model.layers.1.mlp.experts.gate_up_proj} phase backward chunk 14 scope "net.model.layers.1.mlp.experts" prov 627
    %reshape_86 = reshape(%grouped_matmul_15) {shape=[2, 32, 64]} : f32[2, 32, 64] phase backward chunk 14 scope "net.model.layers.1.mlp.experts" prov 627
    %all_to_all_6 = all_to_all(%reshape_86, %sum_17, %sum_16) : f32[2, 32, 64] phase backward chunk 13 scope "net.model.layers.1.mlp.experts" prov 627
    %reshape_87 = reshape(%all_to_all_6) {shape=[64, 64]} : f32[64, 64] phase backward chunk 10 scope "net.model.layers.1.mlp.experts" prov 627
    %take_rows_15 = take_rows(%reshape_87, %expert_order_2_2.1, %expert_order_2_2) {repeat=1} : f32[64, 64] phase backward chunk 10 scope "net.model.layers.1.mlp.experts" prov 627
    %reshape_88 = reshape(%take_rows_15) {shape=[32, 2, 64]} : f32[32, 2, 64] phase backward chunk 10 scope "net.model.layers.1.mlp.experts" prov 627
    %sum_33 = sum(%reshape_88) {dims=[1], keepdim=false} : f32[32, 64] phase backward chunk 10 scope "net.model.layers.1.mlp.experts" prov 627
    %reshape_89 = reshape(%div_8) {shape=[1, 4]} : f32[1, 4] phase backward chunk 18 scope "net" prov 629
    %expand_17 = expand(%reshape_89) {shape=[32, 4]} : f32[32, 4] phase backward chunk 18 scope "net" prov 629
    %softmax_backward_5 = softmax_backward(%expand_17, %softmax_5) {dim=1} : f32[32, 4] phase backward chunk 18 scope "net" prov 630
    %reshape_90 = reshape(%sum_32) {shape=[64]} : f32[64] phase backward chunk 10 scope "net.model.layers.1.mlp.experts" prov 631
    %reshape_91 = reshape(%reshape_90) {shape=[32, 2]} : f32[32, 2] phase backward chunk 10 scope "net.model.layers.1.mlp.experts" prov 632
    %reshape_92 = reshape(%sum_33) {shape=[2, 16, 64]} : f32[2, 16, 64] phase backward chunk 10 scope "net.model.layers.1.mlp.experts" prov 633
    %div_11 = div(%reshape_91, %sum_3) : f32[32, 2] phase backward chunk 10 scope "net.model.layers.1.mlp.gate" prov 634
    %mul_24 = mul(%div_11, %div_1) : f32[32, 2] phase backward chunk 10 scope "net.model.layers.1.mlp.gate" prov 634
    %sum_34 = sum(%mul_24) {dims=[1], keepdim=true} : f32[32, 1] phase backward chunk 10 scope "net.model.layers.1.mlp.gate" prov 634
    %neg_3 = neg(%sum_34) : f32[32, 1] phase backward chunk 10 scope "net.model.layers.1.mlp.gate" prov 634
    %expand_18 = expand(%neg_3) {shape=[32, 2]} : f32[32, 2] phase backward chunk 10 scope "net.model.layers.1.mlp.gate" prov 635
    %add_16 = add(%div_11, %expand_18) : f32[32, 2] phase backward chunk 10 scope "net.model.layers.1.mlp.gate" prov 635
    %fill_3 = fill() {shape=[32, 4], value=0.0, to=f32} : f32[32, 4] phase backward chunk 10 scope "net.model.layers.1.mlp.gate" prov 636
    %scatter_3 = scatter(%fill_3, %getitem_4.1, %add_16) {dim=1} : f32[32, 4] phase backward chunk 10 scope "net.model.layers.1.mlp.gate" prov 636
    %softmax_backward_6 = softmax_backward(%scatter_3, %softmax_1) {dim=1} : f32[32, 4] phase backward chunk 10 scope "net.model.layers.1.mlp.gate" prov 637
    %add_17 = add(%softmax_backward_5, %softmax_backward_6) : f32[32, 4] phase backward chunk 10 scope "net.model.layers.1.mlp.gate" prov 638
    %linear_backward_input_12 = linear_backward_input(%add_17, %net.model.layers.1.mlp.gate.weight) : f32[32, 64] phase backward chunk 10 scope "net.model.layers.1.mlp.gate" prov 638
    %linear_backward_weight_12 = linear_backward_weight(%add_17, %view_16) : f32[4, 64] phase backward chunk 10 scope "net.model.layers.1.mlp.gate" prov 638
    accumulate_grad(%linear_backward_weight_12) {parameter=%net.model.layers.1.mlp.gate.weight} phase backward chunk 10 scope "net.model.layers.1.mlp.gate" prov 638
    %reshape_93 = reshape(%linear_backward_input_12) {shape=[2, 16, 64]} : f32[2, 16, 64] phase backward chunk 10 scope "net.model.layers.1.mlp" prov 639
    %add_18 = add(%reshape_92, %reshape_93) : f32[2, 16, 64] phase backward chunk 10 scope "net.model.layers.1.mlp" prov 639
    %rms_norm_backward_input_6 = rms_norm_backward_input(%add_18, %add_676, %mul_484.1, %net.model.layers.1.post_attention_layernorm.weight) {axes=1, eps=9.999999747378752e-06} : f32[2, 16, 64] phase backward chunk 8 scope "net.model.layers.1.post_attention_layernorm" prov 640
    %rms_norm_backward_weight_6 = rms_norm_backward_weight(%add_18, %add_676, %mul_484.1) {axes=1, eps=9.999999747378752e-06} : f32[64] phase backward chunk 8 scope "net.model.layers.1.post_attention_layernorm" prov 640
    accumulate_grad(%rms_norm_backward_weight_6) {parameter=%net.model.layers.1.post_attention_layernorm.weight} phase backward chunk 8 scope "net.model.layers.1.post_attention_layernorm" prov 640
    %add_19 = add(%add_15, %rms_norm_backward_input_6) : f32[2, 16, 64] phase backward chunk 8 scope "net.model.layers.1" prov 641
    %linear_backward_input_13 = linear_backward_input(%add_19, %net.model.layers.1.self_attn.o_proj.weight) : f32[2, 16, 64] phase backward chunk 8 scope "net.model.layers.1.self_attn.o_proj" prov 642
    %linear_backward_weight_13 = linear_backward_weight(%add_19, %_unsafe_view_5) : f32[64, 64] phase backward chunk 8 scope "net.model.layers.1.self_attn.o_proj" prov 642
    accumulate_grad(%linear_backward_weight_13) {parameter=%net.model.layers.1.self_attn.o_proj.weight} phase backward chunk 8 scope "net.model.layers.1.self_attn.o_proj" prov 642
    %reshape_94 = reshape(%linear_backward_input_13) {shape=[2, 16, 4, 16]} : f32[2, 16, 4, 16] phase backward chunk 8 scope "net.model.layers.1.self_attn" prov 643
    %permute_9 = permute(%reshape_94) {dims=[0, 2, 1, 3]} : f32[2, 4, 16, 16] phase backward chunk 8 scope "net.model.layers.1.self_attn" prov 644
    %scaled_dot_product_attention_backward_3, %scaled_dot_product_attention_backward_3.1, %scaled_dot_product_attention_backward_3.2 = scaled_dot_product_attention_backward(%permute_9, %add_545, %_unsafe_view_3, %_unsafe_view_4, %scaled_dot_product_attention_1, %scaled_dot_product_attention_1.1, none) {is_causal=true, scale=0.25} : f32[2, 4, 16, 16], f32[2, 4, 16, 16], f32[2, 4, 16, 16] phase backward chunk 8 scope "net.model.layers.1.self_attn" prov 645
    %reshape_95 = reshape(%scaled_dot_product_attention_backward_3.2) {shape=[2, 2, 2, 16, 16]} : f32[2, 2, 2, 16, 16] phase backward chunk 8 scope "net.model.layers.1.self_attn" prov 646
    %sum_35 = sum(%reshape_95) {dims=[2], keepdim=true} : f32[2, 2, 1, 16, 16] phase backward chunk 8 scope "net.model.layers.1.self_attn" prov 647
    %reshape_96 = reshape(%sum_35) {shape=[2, 2, 16, 16]} : f32[2, 2, 16, 16] phase backward chunk 8 scope "net.model.layers.1.self_attn" prov 648
    %reshape_97 = reshape(%scaled_dot_product_attention_backward_3.1) {shape=[2, 2, 2, 16, 16]} : f32[2, 2, 2, 16, 16] phase backward chunk 8 scope "net.model.layers.1.self_attn" prov 649
    %sum_36 = sum(%reshape_97) {dims=[2], keepdim=true} : f32[2, 2, 1, 16, 16] phase backward chunk 8 scope "net.model.layers.1.self_attn" prov 650
    %reshape_98 = reshape(%sum_36) {shape=[2, 2, 16, 16]} : f32[2, 2, 16, 16] phase backward chunk 8 scope "net.model.layers.1.self_attn" prov 651
    %rotary_backward_5 = rotary_backward(%reshape_98, %unsqueeze_14, %unsqueeze_15) : f32[2, 2, 16, 16] phase backward chunk 8 scope "net.model.layers.1.self_attn" prov 652
    %rotary_backward_6 = rotary_backward(%scaled_dot_product_attention_backward_3, %unsqueeze_14, %unsqueeze_15) : f32[2, 4, 16, 16] phase backward chunk 8 scope "net.model.layers.1.self_attn" prov 653
    %permute_10 = permute(%reshape_96) {dims=[0, 2, 1, 3]} : f32[2, 16, 2, 16] phase backward chunk 8 scope "net.model.layers.1.self_attn" prov 654
    %reshape_99 = reshape(%permute_10) {shape=[2, 16, 32]} : f32[2, 16, 32] phase backward chunk 8 scope "net.model.layers.1.self_attn" prov 655
    %linear_backward_input_14 = linear_backward_input(%reshape_99, %net.model.layers.1.self_attn.v_proj.weight) : f32[2, 16, 64] phase backward chunk 8 scope "net.model.layers.1.self_attn.v_proj" prov 656
    %linear_backward_weight_14 = linear_backward_weight(%reshape_99, %mul_311) : f32[32, 64] phase backward chunk 8 scope "net.model.layers.1.self_attn.v_proj" prov 656
    accumulate_grad(%linear_backward_weight_14) {parameter=%net.model.layers.1.self_attn.v_proj.weight} phase backward chunk 8 scope "net.model.layers.1.self_attn.v_proj" prov 656
    %permute_11 = permute(%rotary_backward_5) {dims=[0, 2, 1, 3]} : f32[2, 16, 2, 16] phase backward chunk 8 scope "net.model.layers.1.self_attn" prov 657
    %reshape_100 = reshape(%permute_11) {shape=[2, 16, 32]} : f32[2, 16, 32] phase backward chunk 8 scope "net.model.layers.1.self_attn" prov 658
    %linear_backward_input_15 = linear_backward_input(%reshape_100, %net.model.layers.1.self_attn.k_proj.weight) : f32[2, 16, 64] phase backward chunk 8 scope "net.model.layers.1.self_attn.k_proj" prov 659
    %linear_backward_weight_15 = linear_backward_weight(%reshape_100, %mul_311) : f32[32, 64] phase backward chunk 8 scope "net.model.layers.1.self_attn.k_proj" prov 659
    %add_20 = add(%linear_backward_input_14, %linear_backward_input_15) : f32[2, 16, 64] phase backward chunk 8 scope "net.model.layers.1.self_attn.k_proj" prov 659
    accumulate_grad(%linear_backward_weight_15) {parameter=%net.model.layers.1.self_attn.k_proj.weight} phase backward chunk 8 scope "net.model.layers.1.self_attn.k_proj" prov 659
    %permute_12 = permute(%rotary_backward_6) {dims=[0, 2, 1, 3]} : f32[2, 16, 4, 16] phase backward chunk 8 scope "net.model.layers.1.self_attn" prov 660
    %reshape_101 = reshape(%permute_12) {shape=[2, 16, 64]} : f32[2, 16, 64] phase backward chunk 8 scope "net.model.layers.1.self_attn" prov 661
    %linear_backward_input_16 = linear_backward_input(%reshape_101, %net.model.layers.1.self_attn.q_proj.weight) : f32[2, 16, 64] phase backward chunk 8 scope "net.model.layers.1.self_attn.q_proj" prov 662
    %linear_backward_weight_16 = linear_backward_weight(%reshape_101, %mul_311) : f32[64, 64] phase backward chunk 8 scope "net.model.layers.1.self_attn.q_proj" prov 662
    %add_21 = add(%add_20, %linear_backward_input_16) : f32[2, 16, 64] phase backward chunk 8 scope "net.model.layers.1.self_attn.q_proj" prov 662
    accumulate_grad(%linear_backward_weight_16) {parameter=%net.model.layers.1.self_attn.q_proj.weight} phase backward chunk 8 scope "net.model.layers.1.self_attn.q_proj" prov 662
    %rms_norm_backward_input_7 = rms_norm_backward_input(%add_21, %add_443, %mul_311.1, %net.model.layers.1.input_layernorm.weight) {axes=1, eps=9.999999747378752e-06} : f32[2, 16, 64] phase backward chunk 8 scope "net.model.layers.1.input_layernorm" prov 663
    %rms_norm_backward_weight_7 = rms_norm_backward_weight(%add_21, %add_443, %mul_311.1) {axes=1, eps=9.999999747378752e-06} : f32[64] phase backward chunk 8 scope "net.model.layers.1.input_layernorm" prov 663
    %add_22 = add(%add_19, %rms_norm_backward_input_7) : f32[2, 16, 64] phase backward chunk 8 scope "net.model.layers.1.input_layernorm" prov 663
    accumulate_grad(%rms_norm_backward_weight_7) {parameter=%net.model.layers.1.input_layernorm.weight} phase backward chunk 8 scope "net.model.layers.1.input_layernorm" prov 663
    %reshape_102 = reshape(%add_22) {shape=[32, 64]} : f32[32, 64] phase backward chunk 8 scope "net.model.layers.0.mlp" prov 665
    %reshape_103 = reshape(%reshape_102) {shape=[32, 1, 64]} : f32[32, 1, 64] phase backward chunk 8 scope "net.model.layers.0.mlp.experts" prov 666
    %expand_19 = expand(%reshape_103) {shape=[32, 2, 64]} : f32[32, 2, 64] phase backward chunk 8 scope "net.model.layers.0.mlp.experts" prov 666
    %reshape_104 = reshape(%expand_19) {shape=[64, 64]} : f32[64, 64] phase backward chunk 8 scope "net.model.layers.0.mlp.experts" prov 667
    %mul_25 = mul(%reshape_104, %unsqueeze_21) : f32[64, 64] phase backward chunk 8 scope "net.model.layers.0.mlp.experts" prov 668
    %mul_26 = mul(%reshape_104, %squeeze_1) : f32[64, 64] phase backward chunk 8 scope "net.model.layers.0.mlp.experts" prov 668
    %sum_37 = sum(%mul_26) {dims=[1], keepdim=true} : f32[64, 1] phase backward chunk 8 scope "net.model.layers.0.mlp.experts" prov 668
    %reshape_105 = reshape(%mul_25) {shape=[64, 64, 1]} : f32[64, 64, 1] phase backward chunk 8 scope "net.model.layers.0.mlp.experts" prov 669
    %reshape_106 = reshape(%reshape_105) {shape=[64, 64]} : f32[64, 64] phase backward chunk 8 scope "net.model.layers.0.mlp.experts" prov 670
    %take_rows_16 = take_rows(%reshape_106, %expert_order_5, %expert_order_5.1) {repeat=1} : f32[64, 64] phase backward chunk 8 scope "net.model.layers.0.mlp.experts" prov 671
    %reshape_107 = reshape(%take_rows_16) {shape=[2, 32, 64]} : f32[2, 32, 64] phase backward chunk 8 scope "net.model.layers.0.mlp.experts" prov 671
    %all_to_all_7 = all_to_all(%reshape_107, %sum_14, %sum_15) : f32[2, 32, 64] phase backward chunk 7 scope "net.model.layers.0.mlp.experts" prov 671
    %reshape_108 = reshape(%all_to_all_7) {shape=[64, 64]} : f32[64, 64] phase backward chunk 6 scope "net.model.layers.0.mlp.experts" prov 671
    %grouped_matmul_16 = grouped_matmul(%reshape_108, %net.model.layers.0.mlp.experts.down_proj, %expert_order_5.2.received) {transposed=false} : f32[64, 160] phase backward chunk 6 scope "net.model.layers.0.mlp.experts" prov 671
    %grouped_matmul_weight_7 = grouped_matmul_weight(%reshape_108, %mul_8, %expert_order_5.2.received) : f32[2, 64, 160] phase backward chunk 6 scope "net.model.layers.0.mlp.experts" prov 671
    accumulate_grad(%grouped_matmul_weight_7) {parameter=%net.model.layers.0.mlp.experts.down_proj} phase backward chunk 6 scope "net.model.layers.0.mlp.experts" prov 671
    %mul_27 = mul(%grouped_matmul_16, %slice_2_2) : f32[64, 160] phase backward chunk 6 scope "net.model.layers.0.mlp.experts" prov 672
    %mul_28 = mul(%grouped_matmul_16, %silu_2_2) : f32[64, 160] phase backward chunk 6 scope "net.model.layers.0.mlp.experts" prov 672
    %silu_backward_4 = silu_backward(%mul_27, %slice_10) : f32[64, 160] phase backward chunk 6 scope "net.model.layers.0.mlp.experts.act_fn" prov 673
    %cat_4 = cat(%silu_backward_4, %mul_28) {dim=1} : f32[64, 320] phase backward chunk 6 scope "net.model.layers.0.mlp.experts" prov 674
    %grouped_matmul_17 = grouped_matmul(%cat_4, %net.model.layers.0.mlp.experts.gate_up_proj, %expert_order_5.2.received) {transposed=false} : f32[64, 64] phase backward chunk 5 scope "net.model.layers.0.mlp.experts" prov 675
    %grouped_matmul_weight_8 = grouped_matmul_weight(%cat_4, %reshape_5, %expert_order_5.2.received) : f32[2, 320, 64] phase backward chunk 5 scope "net.model.layers.0.mlp.experts" prov 675
    accumulate_grad(%grouped_matmul_weight_8) {parameter=%net.model.layers.0.mlp.experts.gate_up_proj} phase backward chunk 5 scope "net.model.layers.0.mlp.experts" prov 675
    %reshape_109 = reshape(%grouped_matmul_17) {shape=[2, 32, 64]} : f32[2, 32, 64] phase backward chunk 5 scope "net.model.layers.0.mlp.experts" prov 675
    %all_to_all_8 = all_to_all(%reshape_109, %sum_15, %sum_14) : f32[2, 32, 64] phase backward chunk 4 scope "net.model.layers.0.mlp.experts" prov 675
    %reshape_110 = reshape(%all_to_all_8) {shape=[64, 64]} : f32[64, 64] phase backward chunk 1 scope "net.model.layers.0.mlp.experts" prov 675
    %take_rows_17 = take_rows(%reshape_110, %expert_order_5.1, %expert_order_5) {repeat=1} : f32[64, 64] phase backward chunk 1 scope "net.model.layers.0.mlp.experts" prov 675
    %reshape_111 = reshape(%take_rows_17) {shape=[32, 2, 64]} : f32[32, 2, 64] phase backward chunk 1 scope "net.model.layers.0.mlp.experts" prov 675
    %sum_38 = sum(%reshape_111) {dims=[1], keepdim=false} : f32[32, 64] phase backward chunk 1 scope "net.model.layers.0.mlp.experts" prov 675
    %reshape_112 = reshape(%div_8) {shape=[1, 4]} : f32[1, 4] phase backward chunk 9 scope "net" prov 676
    %expand_20 = expand(%reshape_112) {shape=[32, 4]} : f32[32, 4] phase backward chunk 9 scope "net" prov 676
    %softmax_backward_7 = softmax_backward(%expand_20, %softmax_4) {dim=1} : f32[32, 4] phase backward chunk 9 scope "net" prov 677
    %reshape_113 = reshape(%sum_37) {shape=[64]} : f32[64] phase backward chunk 1 scope "net.model.layers.0.mlp.experts" prov 678
    %reshape_114 = reshape(%reshape_113) {shape=[32, 2]} : f32[32, 2] phase backward chunk 1 scope "net.model.layers.0.mlp.experts" prov 679
    %reshape_115 = reshape(%sum_38) {shape=[2, 16, 64]} : f32[2, 16, 64] phase backward chunk 1 scope "net.model.layers.0.mlp.experts" prov 680
    %div_12 = div(%reshape_114, %sum_1) : f32[32, 2] phase backward chunk 1 scope "net.model.layers.0.mlp.gate" prov 681
    %mul_29 = mul(%div_12, %div) : f32[32, 2] phase backward chunk 1 scope "net.model.layers.0.mlp.gate" prov 681
    %sum_39 = sum(%mul_29) {dims=[1], keepdim=true} : f32[32, 1] phase backward chunk 1 scope "net.model.layers.0.mlp.gate" prov 681
    %neg_4 = neg(%sum_39) : f32[32, 1] phase backward chunk 1 scope "net.model.layers.0.mlp.gate" prov 681
    %expand_21 = expand(%neg_4) {shape=[32, 2]} : f32[32, 2] phase backward chunk 1 scope "net.model.layers.0.mlp.gate" prov 682
    %add_23 = add(%div_12, %expand_21) : f32[32, 2] phase backward chunk 1 scope "net.model.layers.0.mlp.gate" prov 682
    %fill_4 = fill() {shape=[32, 4], value=0.0, to=f32} : f32[32, 4] phase backward chunk 1 scope "net.model.layers.0.mlp.gate" prov 683
    %scatter_4 = scatter(%fill_4, %getitem.1, %add_23) {dim=1} : f32[32, 4] phase backward chunk 1 scope "net.model.layers.0.mlp.gate" prov 683
    %softmax_backward_8 = softmax_backward(%scatter_4, %softmax) {dim=1} : f32[32, 4] phase backward chunk 1 scope "net.model.layers.0.mlp.gate" prov 684
    %add_24 = add(%softmax_backward_7, %softmax_backward_8) : f32[32, 4] phase backward chunk 1 scope "net.model.layers.0.mlp.gate" prov 685
    %linear_backward_input_17 = linear_backward_input(%add_24, %net.model.layers.0.mlp.gate.weight) : f32[32, 64] phase backward chunk 1 scope "net.model.layers.0.mlp.gate" prov 685
    %linear_backward_weight_17 = linear_backward_weight(%add_24, %view_4) : f32[4, 64] phase backward chunk 1 scope "net.model.layers.0.mlp.gate" prov 685
    accumulate_grad(%linear_backward_weight_17) {parameter=%net.model.layers.0.mlp.gate.weight} phase backward chunk 1 scope "net.model.layers.0.mlp.gate" prov 685
    %reshape_116 = reshape(%linear_backward_input_17) {shape=[2, 16, 64]} : f32[2, 16, 64] phase backward chunk 1 scope "net.model.layers.0.mlp" prov 686
    %add_25 = add(%reshape_115, %reshape_116) : f32[2, 16, 64] phase backward chunk 1 scope "net.model.layers.0.mlp" prov 686
    %rms_norm_backward_input_8 = rms_norm_backward_input(%add_25, %add_317, %mul_225.1, %net.model.layers.0.post_attention_layernorm.weight) {axes=1, eps=9.999999747378752e-06} : f32[2, 16, 64] phase backward chunk 1 scope "net.model.layers.0.post_attention_layernorm" prov 687
    %rms_norm_backward_weight_8 = rms_norm_backward_weight(%add_25, %add_317, %mul_225.1) {axes=1, eps=9.999999747378752e-06} : f32[64] phase backward chunk 1 scope "net.model.layers.0.post_attention_layernorm" prov 687
    accumulate_grad(%rms_norm_backward_weight_8) {parameter=%net.model.layers.0.post_attention_layernorm.weight} phase backward chunk 1 scope "net.model.layers.0.post_attention_layernorm" prov 687
    %add_26 = add(%add_22, %rms_norm_backward_input_8) : f32[2, 16, 64] phase backward chunk 1 scope "net.model.layers.0" prov 688
    %linear_backward_input_18 = linear_backward_input(%add_26, %net.model.layers.0.self_attn.o_proj.weight) : f32[2, 16, 64] phase backward chunk 1 scope "net.model.layers.0.self_attn.o_proj" prov 689
    %linear_backward_weight_18 = linear_backward_weight(%add_26, %_unsafe_view_2) : f32[64, 64] phase backward chunk 1 scope "net.model.layers.0.self_attn.o_proj" prov 689
    accumulate_grad(%linear_backward_weight_18) {parameter=%net.model.layers.0.self_attn.o_proj.weight} phase backward chunk 1 scope "net.model.layers.0.self_attn.o_proj" prov 689
    %reshape_117 = reshape(%linear_backward_input_18) {shape=[2, 16, 4, 16]} : f32[2, 16, 4, 16] phase backward chunk 1 scope "net.model.layers.0.self_attn" prov 690
    %permute_13 = permute(%reshape_117) {dims=[0, 2, 1, 3]} : f32[2, 4, 16, 16] phase backward chunk 1 scope "net.model.layers.0.self_attn" prov 691
    %scaled_dot_product_attention_backward_4, %scaled_dot_product_attention_backward_4.1, %scaled_dot_product_attention_backward_4.2 = scaled_dot_product_attention_backward(%permute_13, %add_186, %_unsafe_view, %_unsafe_view_1, %scaled_dot_product_attention, %scaled_dot_product_attention.1, none) {is_causal=true, scale=0.25} : f32[2, 4, 16, 16], f32[2, 4, 16, 16], f32[2, 4, 16, 16] phase backward chunk 1 scope "net.model.layers.0.self_attn" prov 692
    %reshape_118 = reshape(%scaled_dot_product_attention_backward_4.2) {shape=[2, 2, 2, 16, 16]} : f32[2, 2, 2, 16, 16] phase backward chunk 1 scope "net.model.layers.0.self_attn" prov 693
    %sum_40 = sum(%reshape_118) {dims=[2], keepdim=true} : f32[2, 2, 1, 16, 16] phase backward chunk 1 scope "net.model.layers.0.self_attn" prov 694
    %reshape_119 = reshape(%sum_40) {shape=[2, 2, 16, 16]} : f32[2, 2, 16, 16] phase backward chunk 1 scope "net.model.layers.0.self_attn" prov 695
    %reshape_120 = reshape(%scaled_dot_product_attention_backward_4.1) {shape=[2, 2, 2, 16, 16]} : f32[2, 2, 2, 16, 16] phase backward chunk 1 scope "net.model.layers.0.self_attn" prov 696
    %sum_41 = sum(%reshape_120) {dims=[2], keepdim=true} : f32[2, 2, 1, 16, 16] phase backward chunk 1 scope "net.model.layers.0.self_attn" prov 697
    %reshape_121 = reshape(%sum_41) {shape=[2, 2, 16, 16]} : f32[2, 2, 16, 16] phase backward chunk 1 scope "net.model.layers.0.self_attn" prov 698
    %rotary_backward_7 = rotary_backward(%reshape_121, %unsqueeze_14, %unsqueeze_15) : f32[2, 2, 16, 16] phase backward chunk 1 scope "net.model.layers.0.self_attn" prov 699
    %rotary_backward_8 = rotary_backward(%scaled_dot_product_attention_backward_4, %unsqueeze_14, %unsqueeze_15) : f32[2, 4, 16, 16] phase backward chunk 1 scope "net.model.layers.0.self_attn" prov 700
    %permute_14 = permute(%reshape_119) {dims=[0, 2, 1, 3]} : f32[2, 16, 2, 16] phase backward chunk 1 scope "net.model.layers.0.self_attn" prov 701
    %reshape_122 = reshape(%permute_14) {shape=[2, 16, 32]} : f32[2, 16, 32] phase backward chunk 1 scope "net.model.layers.0.self_attn" prov 702
    %linear_backward_input_19 = linear_backward_input(%reshape_122, %net.model.layers.0.self_attn.v_proj.weight) : f32[2, 16, 64] phase backward chunk 1 scope "net.model.layers.0.self_attn.v_proj" prov 703
    %linear_backward_weight_19 = linear_backward_weight(%reshape_122, %mul_52) : f32[32, 64] phase backward chunk 1 scope "net.model.layers.0.self_attn.v_proj" prov 703
    accumulate_grad(%linear_backward_weight_19) {parameter=%net.model.layers.0.self_attn.v_proj.weight} phase backward chunk 1 scope "net.model.layers.0.self_attn.v_proj" prov 703
    %permute_15 = permute(%rotary_backward_7) {dims=[0, 2, 1, 3]} : f32[2, 16, 2, 16] phase backward chunk 1 scope "net.model.layers.0.self_attn" prov 704
    %reshape_123 = reshape(%permute_15) {shape=[2, 16, 32]} : f32[2, 16, 32] phase backward chunk 1 scope "net.model.layers.0.self_attn" prov 705
    %linear_backward_input_20 = linear_backward_input(%reshape_123, %net.model.layers.0.self_attn.k_proj.weight) : f32[2, 16, 64] phase backward chunk 1 scope "net.model.layers.0.self_attn.k_proj" prov 706
    %linear_backward_weight_20 = linear_backward_weight(%reshape_123, %mul_52) : f32[32, 64] phase backward chunk 1 scope "net.model.layers.0.self_attn.k_proj" prov 706
    %add_27 = add(%linear_backward_input_19, %linear_backward_input_20) : f32[2, 16, 64] phase backward chunk 1 scope "net.model.layers.0.self_attn.k_proj" prov 706
    accumulate_grad(%linear_backward_weight_20) {parameter=%net.model.layers.0.self_attn.k_proj.weight} phase backward chunk 1 scope "net.model.layers.0.self_attn.k_proj" prov 706
    %permute_16 = permute(%rotary_backward_8) {dims=[0, 2, 1, 3]} : f32[2, 16, 4, 16] phase backward chunk 1 scope "net.model.layers.0.self_attn" prov 707
    %reshape_124 = reshape(%permute_16) {shape=[2, 16, 64]} : f32[2, 16, 64] phase backward chunk 1 scope "net.model.layers.0.self_attn" prov 708
    %linear_backward_input_21 = linear_backward_input(%reshape_124, %net.model.layers.0.self_attn.q_proj.weight) : f32[2, 16, 64] phase backward chunk 1 scope "net.model.layers.0.self_attn.q_proj" prov 709
    %linear_backward_weight_21 = linear_backward_weight(%reshape_124, %mul_52) : f32[64, 64] phase backward chunk 1 scope "net.model.layers.0.self_attn.q_proj" prov 709
    %add_28 = add(%add_27, %linear_backward_input_21) : f32[2, 16, 64] phase backward chunk 1 scope "net.model.layers.0.self_attn.q_proj" prov 709
    accumulate_grad(%linear_backward_weight_21) {parameter=%net.model.layers.0.self_attn.q_proj.weight} phase backward chunk 1 scope "net.model.layers.0.self_attn.q_proj" prov 709
    %rms_norm_backward_input_9 = rms_norm_backward_input(%add_28, %embedding, %mul_52.1, %net.model.layers.0.input_layernorm.weight) {axes=1, eps=9.999999747378752e-06} : f32[2, 16, 64] phase backward chunk 1 scope "net.model.layers.0.input_layernorm" prov 710
    %rms_norm_backward_weight_9 = rms_norm_backward_weight(%add_28, %embedding, %mul_52.1) {axes=1, eps=9.999999747378752e-06} : f32[64] phase backward chunk 1 scope "net.model.layers.0.input_layernorm" prov 710
    %add_29 = add(%add_26, %rms_norm_backward_input_9) : f32[2, 16, 64] phase backward chunk 1 scope "net.model.layers.0.input_layernorm" prov 710
    accumulate_grad(%rms_norm_backward_weight_9) {parameter=%net.model.layers.0.input_layernorm.weight} phase backward chunk 1 scope "net.model.layers.0.input_layernorm" prov 710
    %embedding_backward = embedding_backward(%add_29, %input_ids) {shape=[97, 64], padding_idx=-1, scale_grad_by_freq=false} : f32[97, 64] phase backward chunk 0 scope "net.model.embed_tokens" prov 711
    accumulate_grad(%embedding_backward) {parameter=%net.model.embed_tokens.weight} phase backward chunk 0 scope "net.model.embed_tokens" prov 711
    output "add_1635" = %add
    dropped %expert_order_5.3
    dropped %expert_order_2_2.3
    dropped %expert_order_3_2.3
    dropped %expert_order_4_2.3
    loss %add
  }
  gradients {
    %net.model.embed_tokens.weight = %embedding_backward
    %net.model.layers.0.self_attn.q_proj.weight = %linear_backward_weight_21
    %net.model.layers.0.self_attn.k_proj.weight = %linear_backward_weight_20
    %net.model.layers.0.self_attn.v_proj.weight = %linear_backward_weight_19
    %net.model.layers.0.self_attn.o_proj.weight = %linear_backward_weight_18
    %net.model.layers.0.mlp.gate.weight = %linear_backward_weight_17
    %net.model.layers.0.mlp.experts.gate_up_proj = %grouped_matmul_weight_8
    %net.model.layers.0.mlp.experts.down_proj = %grouped_matmul_weight_7
    %net.model.layers.0.input_layernorm.weight = %rms_norm_backward_weight_9
    %net.model.layers.0.post_attention_layernorm.weight = %rms_norm_backward_weight_8
    %net.model.layers.1.self_attn.q_proj.weight = %linear_backward_weight_16
    %net.model.layers.1.self_attn.k_proj.weight = %linear_backward_weight_15
    %net.model.layers.1.self_attn.v_proj.weight = %linear_backward_weight_14
    %net.model.layers.1.self_attn.o_proj.weight = %linear_backward_weight_13
    %net.model.layers.1.mlp.gate.weight = %linear_backward_weight_12
    %net.model.layers.1.mlp.experts.gate_up_proj = %grouped_matmul_weight_6
    %net.model.layers.1.mlp.experts.down_proj = %grouped_matmul_weight_5
    %net.model.layers.1.input_layernorm.weight = %rms_norm_backward_weight_7
    %net.model.layers.1.post_attention_layernorm.weight = %rms_norm_backward_weight_6
    %net.model.layers.2.self_attn.q_proj.weight = %linear_backward_weight_11
    %net.model.layers.2.self_attn.k_proj.weight = %linear_backward_weight_10
    %net.model.layers.2.self_attn.v_proj.weight = %linear_backward_weight_9
    %net.model.layers.2.self_attn.o_proj.weight = %linear_backward_weight_8
    %net.model.layers.2.mlp.gate.weight = %linear_backward_weight_7
    %net.model.layers.2.mlp.experts.gate_up_proj = %grouped_matmul_weight_4
    %net.model.layers.2.mlp.experts.down_proj = %grouped_matmul_weight_3
    %net.model.layers.2.input_layernorm.weight = %rms_norm_backward_weight_5
    %net.model.layers.2.post_attention_layernorm.weight = %rms_norm_backward_weight_4
    %net.model.layers.3.self_attn.q_proj.weight = %linear_backward_weight_6
    %net.model.layers.3.self_attn.k_proj.weight = %linear_backward_weight_5
    %net.model.layers.3.self_attn.v_proj.weight = %linear_backward_weight_4
    %net.model.layers.3.self_attn.o_proj.weight = %linear_backward_weight_3
    %net.model.layers.3.mlp.gate.weight = %linear_backward_weight_2
    %net.model.layers.3.mlp.experts.gate_up_proj = %grouped_matmul_weight_2
    %net.model.layers.3.mlp.experts.down_proj = %grouped_matmul_weight
    %net.model.layers.3.input_layernorm.weight = %rms_norm_backward_weight_3
    %net.model.layers.3.post_attention_layernorm.weight = %rms_norm_backward_weight_2
    %net.model.norm.weight = %rms_norm_backward_weight
    %net.lm_head.weight = %linear_backward_weight
    %embedding = %add_29
    %mul_52 = %add_28
    %linear = %reshape_124
    %view = %permute_16
    %transpose = %rotary_backward_8
    %linear_1 = %reshape_123
    %view_1 = %permute_15
    %transpose_1 = %rotary_backward_7
    %linear_2 = %reshape_122
    %view_2 = %permute_14
    %transpose_2 = %reshape_119
    %add_186 = %scaled_dot_product_attention_backward_4
    %add_222 = %reshape_121
    %unsqueeze_16 = %sum_41
    %expand_3 = %reshape_120
    %_unsafe_view = %scaled_dot_product_attention_backward_4.1
    %unsqueeze_17 = %sum_40
    %expand_4 = %reshape_118
    %_unsafe_view_1 = %scaled_dot_product_attention_backward_4.2
    %scaled_dot_product_attention = %permute_13
    %transpose_3 = %reshape_117
    %_unsafe_view_2 = %linear_backward_input_18
    %linear_3 = %add_26
    %add_317 = %add_26
    %mul_225 = %add_25
    %view_4 = %linear_backward_input_17
    %linear_4 = %add_24
    %softmax = %scatter_4
    %getitem = %add_23
    %sum_1 = %neg_4
    %div = %reshape_114
    %reshape_2 = %sum_38
    %reshape_8 = %reshape_105
    %squeeze_1 = %mul_25
    %view_9 = %reshape_113
    %unsqueeze_21 = %sum_37
    %mul_285 = %reshape_104
    %view_10 = %expand_19
    %sum_2 = %reshape_102
    %view_11 = %add_22
    %add_443 = %add_22
    %mul_311 = %add_21
    %linear_5 = %reshape_101
    %view_12 = %permute_12
    %transpose_4 = %rotary_backward_6
    %linear_6 = %reshape_100
    %view_13 = %permute_11
    %transpose_5 = %rotary_backward_5
    %linear_7 = %reshape_99
    %view_14 = %permute_10
    %transpose_6 = %reshape_96
    %add_545 = %scaled_dot_product_attention_backward_3
    %add_581 = %reshape_98
    %unsqueeze_24 = %sum_36
    %expand_5 = %reshape_97
    %_unsafe_view_3 = %scaled_dot_product_attention_backward_3.1
    %unsqueeze_25 = %sum_35
    %expand_6 = %reshape_95
    %_unsafe_view_4 = %scaled_dot_product_attention_backward_3.2
    %scaled_dot_product_attention_1 = %permute_9
    %transpose_7 = %reshape_94
    %_unsafe_view_5 = %linear_backward_input_13
    %linear_8 = %add_19
    %add_676 = %add_19
    %mul_484 = %add_18
    %softmax_4 = %expand_20
    %sum_9 = %div_8
    %view_16 = %linear_backward_input_12
    %linear_9 = %add_17
    %softmax_1 = %scatter_3
    %getitem_4 = %add_16
    %sum_3 = %neg_3
    %div_1 = %reshape_91
    %reshape_10 = %sum_33
    %reshape_16 = %reshape_82
    %squeeze_3 = %mul_20
    %view_21 = %reshape_90
    %unsqueeze_29 = %sum_32
    %mul_544 = %reshape_81
    %view_22 = %expand_16
    %sum_4 = %reshape_79
    %view_23 = %add_15
    %add_802 = %add_15
    %softmax_5 = %expand_17
    %sum_10 = %div_8
    %add_1601 = %div_8
    %mul_569 = %add_14
    %linear_10 = %reshape_78
    %view_24 = %permute_8
    %transpose_8 = %rotary_backward_4
    %linear_11 = %reshape_77
    %view_25 = %permute_7
    %transpose_9 = %rotary_backward_3
    %linear_12 = %reshape_76
    %view_26 = %permute_6
    %transpose_10 = %reshape_73
    %add_904 = %scaled_dot_product_attention_backward_2
    %add_940 = %reshape_75
    %unsqueeze_32 = %sum_31
    %expand_7 = %reshape_74
    %_unsafe_view_6 = %scaled_dot_product_attention_backward_2.1
    %unsqueeze_33 = %sum_30
    %expand_8 = %reshape_72
    %_unsafe_view_7 = %scaled_dot_product_attention_backward_2.2
    %scaled_dot_product_attention_2 = %permute_5
    %transpose_11 = %reshape_71
    %_unsafe_view_8 = %linear_backward_input_8
    %linear_13 = %add_12
    %add_1035 = %add_12
    %mul_742 = %add_11
    %view_28 = %linear_backward_input_7
    %linear_14 = %add_10
    %softmax_2 = %scatter_2
    %getitem_8 = %add_9
    %sum_5 = %neg_2
    %div_2 = %reshape_68
    %reshape_18 = %sum_28
    %reshape_24 = %reshape_59
    %squeeze_5 = %mul_15
    %view_33 = %reshape_67
    %unsqueeze_37 = %sum_27
    %mul_802 = %reshape_58
    %view_34 = %expand_13
    %sum_6 = %reshape_56
    %view_35 = %add_8
    %add_1161 = %add_8
    %mul_827 = %add_7
    %linear_15 = %reshape_55
    %view_36 = %permute_4
    %transpose_12 = %rotary_backward_2
    %linear_16 = %reshape_54
    %view_37 = %permute_3
    %transpose_13 = %rotary_backward
    %linear_17 = %reshape_53
    %view_38 = %permute_2
    %transpose_14 = %reshape_50
    %add_1263 = %scaled_dot_product_attention_backward
    %add_1299 = %reshape_52
    %unsqueeze_40 = %sum_26
    %expand_9 = %reshape_51
    %_unsafe_view_9 = %scaled_dot_product_attention_backward.1
    %unsqueeze_41 = %sum_25
    %expand_10 = %reshape_49
    %_unsafe_view_10 = %scaled_dot_product_attention_backward.2
    %scaled_dot_product_attention_3 = %permute
    %transpose_15 = %reshape_48
    %_unsafe_view_11 = %linear_backward_input_3
    %linear_18 = %add_5
    %add_1394 = %add_5
    %mul_1000 = %add_4
    %softmax_6 = %expand_14
    %sum_11 = %div_8
    %add_1617 = %div_8
    %view_40 = %linear_backward_input_2
    %linear_19 = %add_3
    %softmax_3 = %scatter
    %getitem_12 = %add_2
    %sum_7 = %neg
    %div_3 = %reshape_45
    %reshape_26 = %sum_23
    %reshape_32 = %reshape_34
    %squeeze_7 = %mul_9
    %view_45 = %reshape_44
    %unsqueeze_45 = %sum_22
    %mul_1060 = %reshape_33
    %view_46 = %expand
    %sum_8 = %reshape_30
    %view_47 = %rms_norm_backward_input
    %add_1520 = %rms_norm_backward_input
    %mul_1085 = %linear_backward_input
    %linear_20 = %reshape_29
    %view_48 = %cross_entropy_backward
    %softmax_7 = %expand_11
    %sum_12 = %div_8
    %add_1633 = %div_8
    %div_5 = %reshape_42
    %unsqueeze_46 = %mul_13
    %mul_1147 = %div_7
    %cross_entropy_sum = %reciprocal
    %mul_5 = %scalar_2
    %div_6 = %expand_2
    %sum = %scalar_3
    %mul_6 = %scalar_67
    %mul_7 = %scalar_2
    %add = %scalar_2
    %take_rows_2 = %reshape_110
    %reshape_4 = %all_to_all_8
    %take_rows.received = %reshape_109
    %reshape_5 = %grouped_matmul_17
    %grouped_matmul_9 = %cat_4
    %slice_10 = %silu_backward_4
    %silu_2_2 = %mul_27
    %slice_2_2 = %mul_28
    %mul_8 = %grouped_matmul_16
    %grouped_matmul_2_2 = %reshape_108
    %reshape_6 = %all_to_all_7
    %take_rows_3.returned = %reshape_107
    %reshape_7 = %take_rows_16
    %take_rows_3_2 = %reshape_106
    %take_rows_4_2 = %reshape_87
    %reshape_11 = %all_to_all_6
    %take_rows_4.received = %reshape_86
    %reshape_12 = %grouped_matmul_15
    %grouped_matmul_3_2 = %cat_3
    %slice_3_2 = %silu_backward_3
    %silu_3_2 = %mul_22
    %slice_4_2 = %mul_23
    %mul_2_2 = %grouped_matmul_14
    %grouped_matmul_4_2 = %reshape_85
    %reshape_13 = %all_to_all_5
    %take_rows_6.returned = %reshape_84
    %reshape_14 = %take_rows_14
    %take_rows_6_2 = %reshape_83
    %take_rows_7_2 = %reshape_64
    %reshape_15 = %all_to_all_4
    %take_rows_7.received = %reshape_63
    %reshape_19 = %grouped_matmul_13
    %grouped_matmul_5_2 = %cat_2
    %slice_5_2 = %silu_backward_2
    %silu_4_2 = %mul_17
    %slice_6_2 = %mul_18
    %mul_3_2 = %grouped_matmul_12
    %grouped_matmul_6_2 = %reshape_62
    %reshape_20 = %all_to_all_3
    %take_rows_9.returned = %reshape_61
    %reshape_21 = %take_rows_11
    %take_rows_9_2 = %reshape_60
    %take_rows_10_2 = %reshape_39
    %reshape_22 = %all_to_all_2
    %take_rows_10.received = %reshape_38
    %reshape_23 = %grouped_matmul_11
    %grouped_matmul_7_2 = %cat
    %slice_7_2 = %silu_backward
    %silu_5_2 = %mul_11
    %slice_8_2 = %mul_12
    %mul_4_2 = %grouped_matmul_10
    %grouped_matmul_8_2 = %reshape_37
    %reshape_27 = %all_to_all
    %take_rows_12.returned = %reshape_36
    %reshape_28 = %take_rows_5
    %take_rows_12_2 = %reshape_35
  }
}
distribution {
  world 4
  stream 0 "compute"
  stream 1 "dp_reduce"
  stream 2 "dp_gather"
  stream 3 "pp"
  stream 4 "ep"
  stream 5 "loss"
  stream 6 "dropped"
  group 0 [0..1]
  group 1 [2..3]
  group 2 [0..3]
  teams 0 [[0..1]]
  teams 1 [[2..3]]
  teams 2 [[0..3]]
  teams 3 [[2], [3]]
  teams 4 [[0], [1]]
  expert_groups 0 [[0..1]] stream 4 by 3 @1:9:5+1 bound 1.0 @1:9:70+1
  expert_groups 1 [[2..3]] stream 4 by 4 @1:12:5+1 bound 1.0 @1:12:70+1
  chunk 0 {
    groups [0 x2]
    devices [@1:7:43+1 x2]
    placed 5
    messages 3
    replicate bucket 52428 stream 1 gather 2 sharded parameters residency use prefetch 1 by 1
    segment 52428
  }
  chunk 1 {
    groups [0 x2]
    devices [@1:7:43+1 x2]
    placed 5
    messages 3
    replicate bucket 52428 stream 1 gather 2 sharded parameters residency use prefetch 1 by 1
    segment 52428
  }
  chunk 2 {
    groups [0 x2]
    devices [@1:7:43+1 x2]
    placed 5
    messages 3
    replicate bucket 52428 stream 1 gather 2 sharded parameters residency use prefetch 1 by 1
    segment 52428
    shard 0
  }
  chunk 3 {
    groups [0 x2]
    devices [@1:7:43+1 x2]
    placed 5
    messages 3
    replicate bucket 52428 stream 1 gather 2 sharded parameters residency use prefetch 1 by 1
    segment 52428
    shard 0
  }
  chunk 4 {
    groups [0 x2]
    devices [@1:7:43+1 x2]
    placed 5
    messages 3
    replicate bucket 52428 stream 1 gather 2 sharded parameters residency use prefetch 1 by 1
    segment 52428
    shard 0
  }
  chunk 5 {
    groups [0 x2]
    devices [@1:7:43+1 x2]
    placed 5
    messages 3
    replicate bucket 52428 stream 1 gather 2 sharded parameters residency use prefetch 1 by 1
    segment 52428
    shard 0
  }
  chunk 6 {
    groups [0 x2]
    devices [@1:7:43+1 x2]
    placed 5
    messages 3
    replicate bucket 52428 stream 1 gather 2 sharded parameters residency use prefetch 1 by 1
    segment 52428
    shard 0
  }
  chunk 7 {
    groups [0 x2]
    devices [@1:7:43+1 x2]
    placed 5
    messages 3
    replicate bucket 52428 stream 1 gather 2 sharded parameters residency use prefetch 1 by 1
    segment 52428
    shard 0
  }
  chunk 8 {
    groups [0 x2]
    devices [@1:7:43+1 x2]
    placed 5
    messages 3
    replicate bucket 52428 stream 1 gather 2 sharded parameters residency use prefetch 1 by 1
    segment 52428
    shard 0
  }
  chunk 9 {
    groups [1 x2]
    devices [@1:10:43+1 x2]
    placed 6
    messages 3
    replicate bucket 52428 stream 1 gather 2 sharded parameters residency use prefetch 1 by 2
    segment 52428
  }
  chunk 10 {
    groups [0 x2]
    devices [@1:7:43+1 x2]
    placed 5
    messages 3
    replicate bucket 52428 stream 1 gather 2 sharded parameters residency use prefetch 1 by 1
    segment 52428
    shard 0
  }
  chunk 11 {
    groups [0 x2]
    devices [@1:7:43+1 x2]
    placed 5
    messages 3
    replicate bucket 52428 stream 1 gather 2 sharded parameters residency use prefetch 1 by 1
    segment 52428
    shard 0
  }
  chunk 12 {
    groups [0 x2]
    devices [@1:7:43+1 x2]
    placed 5
    messages 3
    replicate bucket 52428 stream 1 gather 2 sharded parameters residency use prefetch 1 by 1
    segment 52428
    shard 0
  }
  chunk 13 {
    groups [0 x2]
    devices [@1:7:43+1 x2]
    placed 5
    messages 3
    replicate bucket 52428 stream 1 gather 2 sharded parameters residency use prefetch 1 by 1
    segment 52428
    shard 0
  }
  chunk 14 {
    groups [0 x2]
    devices [@1:7:43+1 x2]
    placed 5
    messages 3
    replicate bucket 52428 stream 1 gather 2 sharded parameters residency use prefetch 1 by 1
    segment 52428
    shard 0
  }
  chunk 15 {
    groups [0 x2]
    devices [@1:7:43+1 x2]
    placed 5
    messages 3
    replicate bucket 52428 stream 1 gather 2 sharded parameters residency use prefetch 1 by 1
    segment 52428
    shard 0
  }
  chunk 16 {
    groups [0 x2]
    devices [@1:7:43+1 x2]
    placed 5
    messages 3
    replicate bucket 52428 stream 1 gather 2 sharded parameters residency use prefetch 1 by 1
    segment 52428
    shard 0
  }
  chunk 17 {
    groups [0 x2]
    devices [@1:7:43+1 x2]
    placed 5
    messages 3
    replicate bucket 52428 stream 1 gather 2 sharded parameters residency use prefetch 1 by 1
    segment 52428
    shard 0
  }
  chunk 18 {
    groups [1 x2]
    devices [@1:10:43+1 x2]
    placed 6
    messages 3
    replicate bucket 52428 stream 1 gather 2 sharded parameters residency use prefetch 1 by 2
    segment 52428
  }
  chunk 19 {
    groups [1 x2]
    devices [@1:10:43+1 x2]
    placed 6
    messages 3
    replicate bucket 52428 stream 1 gather 2 sharded parameters residency use prefetch 1 by 2
    segment 52428
  }
  chunk 20 {
    groups [1 x2]
    devices [@1:10:43+1 x2]
    placed 6
    messages 3
    replicate bucket 52428 stream 1 gather 2 sharded parameters residency use prefetch 1 by 2
    segment 52428
    shard 1
  }
  chunk 21 {
    groups [1 x2]
    devices [@1:10:43+1 x2]
    placed 6
    messages 3
    replicate bucket 52428 stream 1 gather 2 sharded parameters residency use prefetch 1 by 2
    segment 52428
    shard 1
  }
  chunk 22 {
    groups [1 x2]
    devices [@1:10:43+1 x2]
    placed 6
    messages 3
    replicate bucket 52428 stream 1 gather 2 sharded parameters residency use prefetch 1 by 2
    segment 52428
    shard 1
  }
  chunk 23 {
    groups [1 x2]
    devices [@1:10:43+1 x2]
    placed 6
    messages 3
    replicate bucket 52428 stream 1 gather 2 sharded parameters residency use prefetch 1 by 2
    segment 52428
    shard 1
  }
  chunk 24 {
    groups [1 x2]
    devices [@1:10:43+1 x2]
    placed 6
    messages 3
    replicate bucket 52428 stream 1 gather 2 sharded parameters residency use prefetch 1 by 2
    segment 52428
    shard 1
  }
  chunk 25 {
    groups [1 x2]
    devices [@1:10:43+1 x2]
    placed 6
    messages 3
    replicate bucket 52428 stream 1 gather 2 sharded parameters residency use prefetch 1 by 2
    segment 52428
    shard 1
  }
  chunk 26 {
    groups [1 x2]
    devices [@1:10:43+1 x2]
    placed 6
    messages 3
    replicate bucket 52428 stream 1 gather 2 sharded parameters residency use prefetch 1 by 2
    segment 52428
    shard 1
  }
  chunk 27 {
    groups [1 x2]
    devices [@1:10:43+1 x2]
    placed 6
    messages 3
    replicate bucket 52428 stream 1 gather 2 sharded parameters residency use prefetch 1 by 2
    segment 52428
    shard 1
  }
  chunk 28 {
    groups [1 x2]
    devices [@1:10:43+1 x2]
    placed 6
    messages 3
    replicate bucket 52428 stream 1 gather 2 sharded parameters residency use prefetch 1 by 2
    segment 52428
    shard 1
  }
  chunk 29 {
    groups [1 x2]
    devices [@1:10:43+1 x2]
    placed 6
    messages 3
    replicate bucket 52428 stream 1 gather 2 sharded parameters residency use prefetch 1 by 2
    segment 52428
    shard 1
  }
  chunk 30 {
    groups [1 x2]
    devices [@1:10:43+1 x2]
    placed 6
    messages 3
    replicate bucket 52428 stream 1 gather 2 sharded parameters residency use prefetch 1 by 2
    segment 52428
    shard 1
  }
  chunk 31 {
    groups [1 x2]
    devices [@1:10:43+1 x2]
    placed 6
    messages 3
    replicate bucket 52428 stream 1 gather 2 sharded parameters residency use prefetch 1 by 2
    segment 52428
    shard 1
  }
  chunk 32 {
    groups [1 x2]
    devices [@1:10:43+1 x2]
    placed 6
    messages 3
    replicate bucket 52428 stream 1 gather 2 sharded parameters residency use prefetch 1 by 2
    segment 52428
    shard 1
  }
  chunk 33 {
    groups [1 x2]
    devices [@1:10:43+1 x2]
    placed 6
    messages 3
    replicate bucket 52428 stream 1 gather 2 sharded parameters residency use prefetch 1 by 2
    segment 52428
    shard 1
  }
}
schedule {
  told_apart_by ["MB", "PP"]
  order @1:13:11+1 {
    slot {
      member "{PP: 0, MB: 0, PASS: F}" chunks [0..8, 10..17] microbatches [0] phases [F] @1:13:11+1
    }
    slot {
      member "{PP: 0, MB: 1, PASS: F}" chunks [0..8, 10..17] microbatches [1] phases [F] @1:13:11+1
    }
    slot {
      member "{PP: 0, MB: 0, PASS: B}" chunks [0..8, 10..17] microbatches [0] phases [B, BW] @1:13:11+1
    }
    slot {
      member "{PP: 0, MB: 1, PASS: B}" chunks [0..8, 10..17] microbatches [1] phases [B, BW] @1:13:11+1
    }
  }
  order @1:13:11+1 {
    slot {
      member "{PP: 1, MB: 0, PASS: F}" chunks [9, 18..33] microbatches [0] phases [F] @1:13:11+1
    }
    slot {
      member "{PP: 1, MB: 0, PASS: B}" chunks [9, 18..33] microbatches [0] phases [B, BW] @1:13:11+1
    }
    slot {
      member "{PP: 1, MB: 1, PASS: F}" chunks [9, 18..33] microbatches [1] phases [F] @1:13:11+1
    }
    slot {
      member "{PP: 1, MB: 1, PASS: B}" chunks [9, 18..33] microbatches [1] phases [B, BW] @1:13:11+1
    }
  }
}
dag {
  scalar 0 "loss" "loss of the step" "the loss" f32 [] read by log
  scalar 1 "dropped" "number of dropped rows" "the number of dropped rows" i64 [] read by log
  scalar 2 "step_sum" "count of a mean loss" "a count" f32 [] read by mean_loss value %step_sum
  node 0 compute F 0 0 on 0 stream 0 by 5
  node 1 compute F 0 1 on 0 stream 0 by 5
  node 2 compute F 1 0 on 0 stream 0 by 5
  node 3 compute F 1 1 on 0 stream 0 by 5
  node 4 all_to_all value F 2 0 %expert_order_5.2.received teams 0 i64 on 0 stream 4 by 3
  node 5 all_to_all value F 2 1 %expert_order_5.2.received teams 0 i64 on 0 stream 4 by 3
  node 6 compute F 3 0 on 0 stream 0 by 5
  node 7 compute F 3 1 on 0 stream 0 by 5
  node 8 all_to_all value F 4 0 %take_rows.received teams 0 f32 on 0 stream 4 by 3
  node 9 all_to_all value F 4 1 %take_rows.received teams 0 f32 on 0 stream 4 by 3
  node 10 compute F 5 0 on 0 stream 0 by 5
  node 11 compute F 5 1 on 0 stream 0 by 5
  node 12 compute F 6 0 on 0 stream 0 by 5
  node 13 compute F 6 1 on 0 stream 0 by 5
  node 14 all_to_all value F 7 0 %take_rows_3.returned teams 0 f32 on 0 stream 4 by 3
  node 15 all_to_all value F 7 1 %take_rows_3.returned teams 0 f32 on 0 stream 4 by 3
  node 16 compute F 8 0 on 0 stream 0 by 5
  node 17 compute F 8 1 on 0 stream 0 by 5
  node 18 compute F 9 0 on 1 stream 0 by 6
  node 19 compute F 9 1 on 1 stream 0 by 6
  node 20 compute F 10 0 on 0 stream 0 by 5
  node 21 compute F 10 1 on 0 stream 0 by 5
  node 22 all_to_all value F 11 0 %expert_order_2_2.2.received teams 0 i64 on 0 stream 4 by 3
  node 23 all_to_all value F 11 1 %expert_order_2_2.2.received teams 0 i64 on 0 stream 4 by 3
  node 24 compute F 12 0 on 0 stream 0 by 5
  node 25 compute F 12 1 on 0 stream 0 by 5
  node 26 all_to_all value F 13 0 %take_rows_4.received teams 0 f32 on 0 stream 4 by 3
  node 27 all_to_all value F 13 1 %take_rows_4.received teams 0 f32 on 0 stream 4 by 3
  node 28 compute F 14 0 on 0 stream 0 by 5
  node 29 compute F 14 1 on 0 stream 0 by 5
  node 30 compute F 15 0 on 0 stream 0 by 5
  node 31 compute F 15 1 on 0 stream 0 by 5
  node 32 all_to_all value F 16 0 %take_rows_6.returned teams 0 f32 on 0 stream 4 by 3
  node 33 all_to_all value F 16 1 %take_rows_6.returned teams 0 f32 on 0 stream 4 by 3
  node 34 compute F 17 0 on 0 stream 0 by 5
  node 35 compute F 17 1 on 0 stream 0 by 5
  node 36 compute F 18 0 on 1 stream 0 by 6
  node 37 compute F 18 1 on 1 stream 0 by 6
  node 38 compute F 19 0 on 1 stream 0 by 6
  node 39 compute F 19 1 on 1 stream 0 by 6
  node 40 all_to_all value F 20 0 %expert_order_3_2.2.received teams 1 i64 on 1 stream 4 by 4
  node 41 all_to_all value F 20 1 %expert_order_3_2.2.received teams 1 i64 on 1 stream 4 by 4
  node 42 compute F 21 0 on 1 stream 0 by 6
  node 43 compute F 21 1 on 1 stream 0 by 6
  node 44 all_to_all value F 22 0 %take_rows_7.received teams 1 f32 on 1 stream 4 by 4
  node 45 all_to_all value F 22 1 %take_rows_7.received teams 1 f32 on 1 stream 4 by 4
  node 46 compute F 23 0 on 1 stream 0 by 6
  node 47 compute F 23 1 on 1 stream 0 by 6
  node 48 compute F 24 0 on 1 stream 0 by 6
  node 49 compute F 24 1 on 1 stream 0 by 6
  node 50 all_to_all value F 25 0 %take_rows_9.returned teams 1 f32 on 1 stream 4 by 4
  node 51 all_to_all value F 25 1 %take_rows_9.returned teams 1 f32 on 1 stream 4 by 4
  node 52 compute F 26 0 on 1 stream 0 by 6
  node 53 compute F 26 1 on 1 stream 0 by 6
  node 54 all_to_all value F 27 0 %expert_order_4_2.2.received teams 1 i64 on 1 stream 4 by 4
  node 55 all_to_all value F 27 1 %expert_order_4_2.2.received teams 1 i64 on 1 stream 4 by 4
  node 56 compute F 28 0 on 1 stream 0 by 6
  node 57 compute F 28 1 on 1 stream 0 by 6
  node 58 all_to_all value F 29 0 %take_rows_10.received teams 1 f32 on 1 stream 4 by 4
  node 59 all_to_all value F 29 1 %take_rows_10.received teams 1 f32 on 1 stream 4 by 4
  node 60 compute F 30 0 on 1 stream 0 by 6
  node 61 compute F 30 1 on 1 stream 0 by 6
  node 62 compute F 31 0 on 1 stream 0 by 6
  node 63 compute F 31 1 on 1 stream 0 by 6
  node 64 all_to_all value F 32 0 %take_rows_12.returned teams 1 f32 on 1 stream 4 by 4
  node 65 all_to_all value F 32 1 %take_rows_12.returned teams 1 f32 on 1 stream 4 by 4
  node 66 compute C 33 0 on 1 stream 0 by 6
  node 67 compute C 33 1 on 1 stream 0 by 6
  node 68 compute F 33 0 on 1 stream 0 by 6
  node 69 compute F 33 1 on 1 stream 0 by 6
  node 70 compute B 33 0 on 1 stream 0 by 6
  node 71 compute B 33 1 on 1 stream 0 by 6
  node 72 all_to_all value B 32 0 %all_to_all teams 1 f32 on 1 stream 4 by 4
  node 73 all_to_all value B 32 1 %all_to_all teams 1 f32 on 1 stream 4 by 4
  node 74 compute B 31 0 on 1 stream 0 by 6
  node 75 compute B 31 1 on 1 stream 0 by 6
  node 76 compute B 30 0 on 1 stream 0 by 6
  node 77 compute B 30 1 on 1 stream 0 by 6
  node 78 all_to_all value B 29 0 %all_to_all_2 teams 1 f32 on 1 stream 4 by 4
  node 79 all_to_all value B 29 1 %all_to_all_2 teams 1 f32 on 1 stream 4 by 4
  node 80 compute B 26 0 on 1 stream 0 by 6
  node 81 compute B 26 1 on 1 stream 0 by 6
  node 82 all_to_all value B 25 0 %all_to_all_3 teams 1 f32 on 1 stream 4 by 4
  node 83 all_to_all value B 25 1 %all_to_all_3 teams 1 f32 on 1 stream 4 by 4
  node 84 compute B 24 0 on 1 stream 0 by 6
  node 85 compute B 24 1 on 1 stream 0 by 6
  node 86 compute B 23 0 on 1 stream 0 by 6
  node 87 compute B 23 1 on 1 stream 0 by 6
  node 88 all_to_all value B 22 0 %all_to_all_4 teams 1 f32 on 1 stream 4 by 4
  node 89 all_to_all value B 22 1 %all_to_all_4 teams 1 f32 on 1 stream 4 by 4
  node 90 compute B 19 0 on 1 stream 0 by 6
  node 91 compute B 19 1 on 1 stream 0 by 6
  node 92 compute B 18 0 on 1 stream 0 by 6
  node 93 compute B 18 1 on 1 stream 0 by 6
  node 94 compute B 17 0 on 0 stream 0 by 5
  node 95 compute B 17 1 on 0 stream 0 by 5
  node 96 all_to_all value B 16 0 %all_to_all_5 teams 0 f32 on 0 stream 4 by 3
  node 97 all_to_all value B 16 1 %all_to_all_5 teams 0 f32 on 0 stream 4 by 3
  node 98 compute B 15 0 on 0 stream 0 by 5
  node 99 compute B 15 1 on 0 stream 0 by 5
  node 100 compute B 14 0 on 0 stream 0 by 5
  node 101 compute B 14 1 on 0 stream 0 by 5
  node 102 all_to_all value B 13 0 %all_to_all_6 teams 0 f32 on 0 stream 4 by 3
  node 103 all_to_all value B 13 1 %all_to_all_6 teams 0 f32 on 0 stream 4 by 3
  node 104 compute B 10 0 on 0 stream 0 by 5
  node 105 compute B 10 1 on 0 stream 0 by 5
  node 106 compute B 9 0 on 1 stream 0 by 6
  node 107 compute B 9 1 on 1 stream 0 by 6
  node 108 compute B 8 0 on 0 stream 0 by 5
  node 109 compute B 8 1 on 0 stream 0 by 5
  node 110 all_to_all value B 7 0 %all_to_all_7 teams 0 f32 on 0 stream 4 by 3
  node 111 all_to_all value B 7 1 %all_to_all_7 teams 0 f32 on 0 stream 4 by 3
  node 112 compute B 6 0 on 0 stream 0 by 5
  node 113 compute B 6 1 on 0 stream 0 by 5
  node 114 compute B 5 0 on 0 stream 0 by 5
  node 115 compute B 5 1 on 0 stream 0 by 5
  node 116 all_to_all value B 4 0 %all_to_all_8 teams 0 f32 on 0 stream 4 by 3
  node 117 all_to_all value B 4 1 %all_to_all_8 teams 0 f32 on 0 stream 4 by 3
  node 118 compute B 1 0 on 0 stream 0 by 5
  node 119 compute B 1 1 on 0 stream 0 by 5
  node 120 compute B 0 0 on 0 stream 0 by 5
  node 121 compute B 0 1 on 0 stream 0 by 5
  node 122 all_reduce scalar 2 teams 1 f32 on 1 stream 5 by 7
  node 123 finish_counts 33 on 1 stream 0 by 7
  node 124 take 0 on 1 stream 0 by 8
  node 125 all_reduce scalar 0 teams 1 f32 on 1 stream 5 by 8
  node 126 transfer scalar 0 to 0 on 1 stream 5 by 8
  node 127 take 1 on 2 stream 0 by 9
  node 128 all_reduce scalar 1 teams 2 i64 on 2 stream 6 by 9
  node 129 transfer value F 1 0 %linear_4 to 1 on 0 stream 3 by 10
  node 130 transfer value F 1 1 %linear_4 to 1 on 0 stream 3 by 10
  node 131 transfer value F 10 0 %linear_9 to 1 on 0 stream 3 by 10
  node 132 transfer value F 10 1 %linear_9 to 1 on 0 stream 3 by 10
  node 133 transfer value F 17 0 %add_802 to 1 on 0 stream 3 by 10
  node 134 transfer value F 17 1 %add_802 to 1 on 0 stream 3 by 10
  node 135 transfer value B 9 0 %softmax_backward_7 to 0 on 1 stream 3 by 11
  node 136 transfer value B 9 1 %softmax_backward_7 to 0 on 1 stream 3 by 11
  node 137 transfer value B 18 0 %softmax_backward_5 to 0 on 1 stream 3 by 11
  node 138 transfer value B 18 1 %softmax_backward_5 to 0 on 1 stream 3 by 11
  node 139 transfer value B 19 0 %add_15 to 0 on 1 stream 3 by 11
  node 140 transfer value B 19 1 %add_15 to 0 on 1 stream 3 by 11
  node 141 reduce_scatter gradients 0 microbatches [0] teams 1 f32 on 1 stream 1 by 2
  node 142 reduce_scatter gradients 0 microbatches [1] teams 1 f32 on 1 stream 1 by 2
  node 143 reduce_scatter gradients 1 microbatches [0] teams 1 f32 on 1 stream 1 by 2
  node 144 reduce_scatter gradients 1 microbatches [1] teams 1 f32 on 1 stream 1 by 2
  node 145 reduce_scatter gradients 2 microbatches [0] teams 1 f32 on 1 stream 1 by 2
  node 146 reduce_scatter gradients 2 microbatches [1] teams 1 f32 on 1 stream 1 by 2
  node 147 reduce_scatter gradients 7 microbatches [0] teams 0 f32 on 0 stream 1 by 1
  node 148 reduce_scatter gradients 7 microbatches [1] teams 0 f32 on 0 stream 1 by 1
  node 149 reduce_scatter gradients 10 microbatches [0] teams 0 f32 on 0 stream 1 by 1
  node 150 reduce_scatter gradients 10 microbatches [1] teams 0 f32 on 0 stream 1 by 1
  node 151 reduce_scatter gradients 11 microbatches [0] teams 0 f32 on 0 stream 1 by 1
  node 152 reduce_scatter gradients 11 microbatches [1] teams 0 f32 on 0 stream 1 by 1
  node 153 reduce_scatter gradients 12 microbatches [0] teams 0 f32 on 0 stream 1 by 1
  node 154 reduce_scatter gradients 12 microbatches [1] teams 0 f32 on 0 stream 1 by 1
  node 155 advance on 2 stream 0 by 0
  node 156 update 0 on 1 stream 0 by 0
  node 157 update 1 on 1 stream 0 by 0
  node 158 update 2 on 1 stream 0 by 0
  node 159 update 3 on 1 stream 0 by 0
  node 160 update 4 on 1 stream 0 by 0
  node 161 update 5 on 1 stream 0 by 0
  node 162 update 6 on 1 stream 0 by 0
  node 163 update 7 on 0 stream 0 by 0
  node 164 update 8 on 0 stream 0 by 0
  node 165 update 9 on 0 stream 0 by 0
  node 166 update 10 on 0 stream 0 by 0
  node 167 update 11 on 0 stream 0 by 0
  node 168 update 12 on 0 stream 0 by 0
  node 169 update 13 on 0 stream 0 by 0
  node 170 update 14 on 0 stream 0 by 0
  node 171 all_gather parameters 12 for [F 0 0] teams 0 f32 on 0 stream 2 by 1
  node 172 all_gather parameters 10 for [F 1 0] teams 0 f32 on 0 stream 2 by 1
  node 173 all_gather parameters 11 for [F 1 0] teams 0 f32 on 0 stream 2 by 1
  node 174 all_gather parameters 10 for [F 8 0] teams 0 f32 on 0 stream 2 by 1
  node 175 all_gather parameters 7 for [F 10 0] teams 0 f32 on 0 stream 2 by 1
  node 176 all_gather parameters 1 for [F 19 0] teams 1 f32 on 1 stream 2 by 2
  node 177 all_gather parameters 2 for [F 19 0] teams 1 f32 on 1 stream 2 by 2
  node 178 all_gather parameters 12 for [F 0 1] teams 0 f32 on 0 stream 2 by 1
  node 179 all_gather parameters 10 for [F 1 1] teams 0 f32 on 0 stream 2 by 1
  node 180 all_gather parameters 11 for [F 1 1] teams 0 f32 on 0 stream 2 by 1
  node 181 all_gather parameters 0 for [F 26 0] teams 1 f32 on 1 stream 2 by 2
  node 182 all_gather parameters 1 for [F 26 0] teams 1 f32 on 1 stream 2 by 2
  node 183 all_gather parameters 10 for [F 8 1] teams 0 f32 on 0 stream 2 by 1
  node 184 all_gather parameters 7 for [F 10 1] teams 0 f32 on 0 stream 2 by 1
  node 185 all_gather parameters 0 for [F 33 0] teams 1 f32 on 1 stream 2 by 2
  node 186 all_gather parameters 0 for [B 33 0] teams 1 f32 on 1 stream 2 by 2
  node 187 all_gather parameters 0 for [B 26 0] teams 1 f32 on 1 stream 2 by 2
  node 188 all_gather parameters 1 for [B 26 0] teams 1 f32 on 1 stream 2 by 2
  node 189 all_gather parameters 1 for [B 19 0] teams 1 f32 on 1 stream 2 by 2
  node 190 all_gather parameters 2 for [B 19 0] teams 1 f32 on 1 stream 2 by 2
  node 191 all_gather parameters 7 for [B 10 0] teams 0 f32 on 0 stream 2 by 1
  node 192 all_gather parameters 1 for [F 19 1] teams 1 f32 on 1 stream 2 by 2
  node 193 all_gather parameters 2 for [F 19 1] teams 1 f32 on 1 stream 2 by 2
  node 194 all_gather parameters 10 for [B 8 0] teams 0 f32 on 0 stream 2 by 1
  node 195 all_gather parameters 0 for [F 26 1] teams 1 f32 on 1 stream 2 by 2
  node 196 all_gather parameters 1 for [F 26 1] teams 1 f32 on 1 stream 2 by 2
  node 197 all_gather parameters 10 for [B 1 0] teams 0 f32 on 0 stream 2 by 1
  node 198 all_gather parameters 11 for [B 1 0] teams 0 f32 on 0 stream 2 by 1
  node 199 all_gather parameters 0 for [F 33 1] teams 1 f32 on 1 stream 2 by 2
  node 200 all_gather parameters 0 for [B 33 1] teams 1 f32 on 1 stream 2 by 2
  node 201 all_gather parameters 0 for [B 26 1] teams 1 f32 on 1 stream 2 by 2
  node 202 all_gather parameters 1 for [B 26 1] teams 1 f32 on 1 stream 2 by 2
  node 203 all_gather parameters 1 for [B 19 1] teams 1 f32 on 1 stream 2 by 2
  node 204 all_gather parameters 2 for [B 19 1] teams 1 f32 on 1 stream 2 by 2
  node 205 all_gather parameters 7 for [B 10 1] teams 0 f32 on 0 stream 2 by 1
  node 206 all_gather parameters 10 for [B 8 1] teams 0 f32 on 0 stream 2 by 1
  node 207 all_gather parameters 10 for [B 1 1] teams 0 f32 on 0 stream 2 by 1
  node 208 all_gather parameters 11 for [B 1 1] teams 0 f32 on 0 stream 2 by 1
  edges 66 [122]
  edges 67 [122]
  edges 122 [123]
  edges 123 [38, 90, 39, 91, 40..44, 88, 45, 89, 46, 86, 47, 87, 48, 84, 49, 85, 50, 82, 51, 83, 52, 80, 53, 81, 54..58, 78, 59, 79, 60, 76, 61, 77, 62, 74, 63, 75, 64, 72, 65, 73, 68, 70, 69, 71]
  edges 0 [120]
  edges 1 [121]
  edges 2 [118]
  edges 3 [119]
  edges 8 [116]
  edges 9 [117]
  edges 10 [114]
  edges 11 [115]
  edges 12 [112]
  edges 13 [113]
  edges 14 [110]
  edges 15 [111]
  edges 16 [108]
  edges 17 [109]
  edges 18 [106]
  edges 19 [107]
  edges 20 [104]
  edges 21 [105]
  edges 26 [102]
  edges 27 [103]
  edges 28 [100]
  edges 29 [101]
  edges 30 [98]
  edges 31 [99]
  edges 32 [96]
  edges 33 [97]
  edges 34 [94]
  edges 35 [95]
  edges 36 [92]
  edges 37 [93]
  edges 38 [90]
  edges 39 [91]
  edges 44 [88]
  edges 45 [89]
  edges 46 [86]
  edges 47 [87]
  edges 48 [84]
  edges 49 [85]
  edges 50 [82]
  edges 51 [83]
  edges 52 [80]
  edges 53 [81]
  edges 58 [78]
  edges 59 [79]
  edges 60 [76]
  edges 61 [77]
  edges 62 [74]
  edges 63 [75]
  edges 64 [72]
  edges 65 [73]
  edges 68 [70]
  edges 69 [71]
  edges 0 [2]
  edges 1 [3]
  edges 2 [4]
  edges 3 [5]
  edges 2 [8]
  edges 3 [9]
  edges 2 [14]
  edges 3 [15]
  edges 2 [16]
  edges 3 [17]
  edges 2 [129]
  edges 129 [18]
  edges 3 [130]
  edges 130 [19]
  edges 4 [6]
  edges 5 [7]
  edges 4 [10]
  edges 5 [11]
  edges 4 [12]
  edges 5 [13]
  edges 6 [8]
  edges 7 [9]
  edges 6 [14]
  edges 7 [15]
  edges 8 [10]
  edges 9 [11]
  edges 10 [12]
  edges 11 [13]
  edges 12 [14]
  edges 13 [15]
  edges 14 [16]
  edges 15 [17]
  edges 16 [20]
  edges 17 [21]
  edges 16 [34]
  edges 17 [35]
  edges 18 [36]
  edges 19 [37]
  edges 20 [22]
  edges 21 [23]
  edges 20 [26]
  edges 21 [27]
  edges 20 [32]
  edges 21 [33]
  edges 20 [34]
  edges 21 [35]
  edges 20 [131]
  edges 131 [36]
  edges 21 [132]
  edges 132 [37]
  edges 22 [24]
  edges 23 [25]
  edges 22 [28]
  edges 23 [29]
  edges 22 [30]
  edges 23 [31]
  edges 24 [26]
  edges 25 [27]
  edges 24 [32]
  edges 25 [33]
  edges 26 [28]
  edges 27 [29]
  edges 28 [30]
  edges 29 [31]
  edges 30 [32]
  edges 31 [33]
  edges 32 [34]
  edges 33 [35]
  edges 34 [133]
  edges 133 [38]
  edges 35 [134]
  edges 134 [39]
  edges 36 [52]
  edges 37 [53]
  edges 38 [40]
  edges 39 [41]
  edges 38 [44]
  edges 39 [45]
  edges 38 [50]
  edges 39 [51]
  edges 38 [52]
  edges 39 [53]
  edges 40 [42]
  edges 41 [43]
  edges 40 [46]
  edges 41 [47]
  edges 40 [48]
  edges 41 [49]
  edges 42 [44]
  edges 43 [45]
  edges 42 [50]
  edges 43 [51]
  edges 44 [46]
  edges 45 [47]
  edges 46 [48]
  edges 47 [49]
  edges 48 [50]
  edges 49 [51]
  edges 50 [52]
  edges 51 [53]
  edges 52 [54]
  edges 53 [55]
  edges 52 [58]
  edges 53 [59]
  edges 52 [64]
  edges 53 [65]
  edges 52 [68]
  edges 53 [69]
  edges 54 [56]
  edges 55 [57]
  edges 54 [60]
  edges 55 [61]
  edges 54 [62]
  edges 55 [63]
  edges 56 [58]
  edges 57 [59]
  edges 56 [64]
  edges 57 [65]
  edges 58 [60]
  edges 59 [61]
  edges 60 [62]
  edges 61 [63]
  edges 62 [64]
  edges 63 [65]
  edges 64 [68]
  edges 65 [69]
  edges 118 [120]
  edges 119 [121]
  edges 116 [118]
  edges 117 [119]
  edges 114 [116]
  edges 115 [117]
  edges 112 [114]
  edges 113 [115]
  edges 110 [112]
  edges 111 [113]
  edges 108 [118]
  edges 109 [119]
  edges 108 [110]
  edges 109 [111]
  edges 106 [135]
  edges 135 [118]
  edges 107 [136]
  edges 136 [119]
  edges 104 [108]
  edges 105 [109]
  edges 102 [104]
  edges 103 [105]
  edges 100 [102]
  edges 101 [103]
  edges 98 [100]
  edges 99 [101]
  edges 96 [98]
  edges 97 [99]
  edges 94 [104]
  edges 95 [105]
  edges 94 [96]
  edges 95 [97]
  edges 92 [137]
  edges 137 [104]
  edges 93 [138]
  edges 138 [105]
  edges 90 [139]
  edges 139 [108]
  edges 91 [140]
  edges 140 [109]
  edges 139 [94]
  edges 140 [95]
  edges 88 [90]
  edges 89 [91]
  edges 86 [88]
  edges 87 [89]
  edges 84 [86]
  edges 85 [87]
  edges 82 [84]
  edges 83 [85]
  edges 80 [90]
  edges 81 [91]
  edges 80 [82]
  edges 81 [83]
  edges 78 [80]
  edges 79 [81]
  edges 76 [78]
  edges 77 [79]
  edges 74 [76]
  edges 75 [77]
  edges 72 [74]
  edges 73 [75]
  edges 70 [106]
  edges 71 [107]
  edges 70 [92]
  edges 71 [93]
  edges 70 [80]
  edges 71 [81]
  edges 70 [72]
  edges 71 [73]
  edges 68 [124]
  edges 69 [124]
  edges 124 [125]
  edges 125 [126]
  edges 2 [127]
  edges 3 [127]
  edges 20 [127]
  edges 21 [127]
  edges 38 [127]
  edges 39 [127]
  edges 52 [127]
  edges 53 [127]
  edges 127 [128]
  edges 70 [141]
  edges 80 [141]
  edges 71 [142]
  edges 81 [142]
  edges 80 [143]
  edges 90 [143]
  edges 81 [144]
  edges 91 [144]
  edges 90 [145]
  edges 91 [146]
  edges 104 [147]
  edges 105 [148]
  edges 108 [149]
  edges 118 [149]
  edges 109 [150]
  edges 119 [150]
  edges 118 [151]
  edges 119 [152]
  edges 120 [153]
  edges 121 [154]
  edges 141 [156]
  edges 142 [156]
  edges 155 [156]
  edges 143 [157]
  edges 144 [157]
  edges 155 [157]
  edges 145 [158]
  edges 146 [158]
  edges 155 [158]
  edges 74 [159]
  edges 75 [159]
  edges 155 [159]
  edges 76 [160]
  edges 77 [160]
  edges 155 [160]
  edges 84 [161]
  edges 85 [161]
  edges 155 [161]
  edges 86 [162]
  edges 87 [162]
  edges 155 [162]
  edges 147 [163]
  edges 148 [163]
  edges 155 [163]
  edges 98 [164]
  edges 99 [164]
  edges 155 [164]
  edges 100 [165]
  edges 101 [165]
  edges 155 [165]
  edges 149 [166]
  edges 150 [166]
  edges 155 [166]
  edges 151 [167]
  edges 152 [167]
  edges 155 [167]
  edges 153 [168]
  edges 154 [168]
  edges 155 [168]
  edges 112 [169]
  edges 113 [169]
  edges 155 [169]
  edges 114 [170]
  edges 115 [170]
  edges 155 [170]
  before 34 1 @1:13:11+1
  before 35 94 @1:13:11+1
  before 120 95 @1:13:11+1
  before 68 70 @1:13:11+1
  before 106 19 @1:13:11+1
  before 106 39 @1:13:11+1
  before 92 19 @1:13:11+1
  before 92 39 @1:13:11+1
  before 90 19 @1:13:11+1
  before 90 39 @1:13:11+1
  before 69 71 @1:13:11+1
  edges 171 [0]
  edges 172 [2]
  edges 173 [2]
  edges 174 [16]
  edges 175 [20]
  edges 176 [38]
  edges 177 [38]
  edges 178 [1]
  edges 179 [3]
  edges 180 [3]
  edges 181 [52]
  edges 182 [52]
  edges 183 [17]
  edges 184 [21]
  edges 185 [68]
  edges 186 [70]
  edges 187 [80]
  edges 188 [80]
  edges 189 [90]
  edges 190 [90]
  edges 191 [104]
  edges 192 [39]
  edges 193 [39]
  edges 194 [108]
  edges 195 [53]
  edges 196 [53]
  edges 197 [118]
  edges 198 [118]
  edges 199 [69]
  edges 200 [71]
  edges 201 [81]
  edges 202 [81]
  edges 203 [91]
  edges 204 [91]
  edges 205 [105]
  edges 206 [109]
  edges 207 [119]
  edges 208 [119]
  order [66..67, 122..123, 171..173, 0, 2, 4, 129, 6, 18, 8, 10, 174, 12, 14, 175, 16, 20, 22, 131, 24, 176..177, 36, 26, 28, 30, 32, 178, 34, 133, 38, 179..180, 1, 40, 42, 3, 44, 130, 5, 46, 7, 9, 181..182, 48, 11, 50, 52, 183, 13, 54, 15, 56, 184, 17, 58, 60, 21, 132, 23, 185, 62, 25, 64, 27, 186, 68, 29, 70, 31, 33, 35, 72, 134, 74, 187..188, 76, 78, 80, 82, 141, 84, 189..190, 86, 88, 90, 139, 143, 145, 92, 94, 96, 137, 98, 106, 135, 191, 100, 19, 192..193, 37, 102, 194, 104, 39, 41, 43, 147, 45, 108, 47, 195..196, 49, 110, 51, 112, 53, 55, 57, 59, 197..198, 114, 61, 199, 63, 116, 65, 118, 200, 69, 71, 149, 151, 120, 73, 75, 153, 201..202, 77, 79, 81, 142, 83, 85, 203..204, 87, 89, 91, 140, 144, 146, 93, 95, 138, 97, 99, 107, 136, 205, 101, 124..126, 103, 206, 105, 148, 109, 111, 113, 207..208, 115, 117, 119, 150, 152, 121, 154, 127..128, 155..156, 163, 157, 164, 158, 165, 159, 166, 160, 167, 161, 168, 162, 169..170]
}
state {
  accumulator 0 parameter 0 chunks [0] group 0 bucket 12 offset 0 bytes 24832
  accumulator 1 parameter 1 chunks [1] group 0 bucket 11 offset 32768 bytes 16384
  accumulator 2 parameter 2 chunks [1] group 0 bucket 11 offset 24576 bytes 8192
  accumulator 3 parameter 3 chunks [1] group 0 bucket 11 offset 16384 bytes 8192
  accumulator 4 parameter 4 chunks [1] group 0 bucket 11 offset 0 bytes 16384
  accumulator 5 parameter 5 chunks [1] group 0 bucket 10 offset 50176 bytes 1024
  accumulator 6 parameter 8 chunks [1] group 0 bucket 10 offset 49920 bytes 256
  accumulator 7 parameter 9 chunks [1] group 0 bucket 10 offset 49664 bytes 256
  accumulator 8 parameter 6 chunks [5] group 0 bucket 14 offset 0 bytes 163840
  accumulator 9 parameter 7 chunks [6] group 0 bucket 13 offset 0 bytes 81920
  accumulator 10 parameter 10 chunks [8] group 0 bucket 10 offset 33280 bytes 16384
  accumulator 11 parameter 11 chunks [8] group 0 bucket 10 offset 25088 bytes 8192
  accumulator 12 parameter 12 chunks [8] group 0 bucket 10 offset 16896 bytes 8192
  accumulator 13 parameter 13 chunks [8] group 0 bucket 10 offset 512 bytes 16384
  accumulator 14 parameter 17 chunks [8] group 0 bucket 10 offset 256 bytes 256
  accumulator 15 parameter 18 chunks [8] group 0 bucket 10 offset 0 bytes 256
  accumulator 16 parameter 14 chunks [10] group 0 bucket 7 offset 0 bytes 1024
  accumulator 17 parameter 15 chunks [14] group 0 bucket 9 offset 0 bytes 163840
  accumulator 18 parameter 16 chunks [15] group 0 bucket 8 offset 0 bytes 81920
  accumulator 19 parameter 19 chunks [19] group 1 bucket 2 offset 8192 bytes 16384
  accumulator 20 parameter 20 chunks [19] group 1 bucket 2 offset 0 bytes 8192
  accumulator 21 parameter 21 chunks [19] group 1 bucket 1 offset 42496 bytes 8192
  accumulator 22 parameter 22 chunks [19] group 1 bucket 1 offset 26112 bytes 16384
  accumulator 23 parameter 23 chunks [19] group 1 bucket 1 offset 25088 bytes 1024
  accumulator 24 parameter 26 chunks [19] group 1 bucket 1 offset 24832 bytes 256
  accumulator 25 parameter 27 chunks [19] group 1 bucket 1 offset 24576 bytes 256
  accumulator 26 parameter 24 chunks [23] group 1 bucket 6 offset 0 bytes 163840
  accumulator 27 parameter 25 chunks [24] group 1 bucket 5 offset 0 bytes 81920
  accumulator 28 parameter 28 chunks [26] group 1 bucket 1 offset 8192 bytes 16384
  accumulator 29 parameter 29 chunks [26] group 1 bucket 1 offset 0 bytes 8192
  accumulator 30 parameter 30 chunks [26] group 1 bucket 0 offset 43008 bytes 8192
  accumulator 31 parameter 31 chunks [26] group 1 bucket 0 offset 26624 bytes 16384
  accumulator 32 parameter 32 chunks [26] group 1 bucket 0 offset 25600 bytes 1024
  accumulator 33 parameter 35 chunks [26] group 1 bucket 0 offset 25344 bytes 256
  accumulator 34 parameter 36 chunks [26] group 1 bucket 0 offset 25088 bytes 256
  accumulator 35 parameter 33 chunks [30] group 1 bucket 4 offset 0 bytes 163840
  accumulator 36 parameter 34 chunks [31] group 1 bucket 3 offset 0 bytes 81920
  accumulator 37 parameter 37 chunks [33] group 1 bucket 0 offset 24832 bytes 256
  accumulator 38 parameter 38 chunks [33] group 1 bucket 0 offset 0 bytes 24832
  bucket 0 "PP1.5/net.lm_head.weight" group 1 teams 1 of 2 accumulators [38, 37, 34, 33, 32, 31, 30] bytes 51200 moments part gradients part parameters part residency use prefetch 1 stream 1 gather 2 by 2
  bucket 1 "PP1.4/net.model.layers.3.self_attn.k_proj.weight" group 1 teams 1 of 2 accumulators [29, 28, 25, 24, 23, 22, 21] bytes 50688 moments part gradients part parameters part residency use prefetch 1 stream 1 gather 2 by 2
  bucket 2 "PP1.3/net.model.layers.2.self_attn.k_proj.weight" group 1 teams 1 of 2 accumulators [20, 19] bytes 24576 moments part gradients part parameters part residency use prefetch 1 stream 1 gather 2 by 2
  bucket 3 "EP3.PP1.experts/2/net.model.layers.3.mlp.experts.down_proj" group 1 teams 3 of 1 accumulators [36] bytes 81920 moments whole gradients whole parameters whole residency use prefetch 1 stream 1 gather 2 by 2
  bucket 4 "EP3.PP1.experts/1/net.model.layers.3.mlp.experts.gate_up_proj" group 1 teams 3 of 1 accumulators [35] bytes 163840 moments whole gradients whole parameters whole residency use prefetch 1 stream 1 gather 2 by 2
  bucket 5 "EP2.PP1.experts/2/net.model.layers.2.mlp.experts.down_proj" group 1 teams 3 of 1 accumulators [27] bytes 81920 moments whole gradients whole parameters whole residency use prefetch 1 stream 1 gather 2 by 2
  bucket 6 "EP2.PP1.experts/1/net.model.layers.2.mlp.experts.gate_up_proj" group 1 teams 3 of 1 accumulators [26] bytes 163840 moments whole gradients whole parameters whole residency use prefetch 1 stream 1 gather 2 by 2
  bucket 7 "EP1.PP0/net.model.layers.1.mlp.gate.weight" group 0 teams 0 of 2 accumulators [16] bytes 1024 moments part gradients part parameters part residency use prefetch 1 stream 1 gather 2 by 1
  bucket 8 "EP1.PP0.experts/2/net.model.layers.1.mlp.experts.down_proj" group 0 teams 4 of 1 accumulators [18] bytes 81920 moments whole gradients whole parameters whole residency use prefetch 1 stream 1 gather 2 by 1
  bucket 9 "EP1.PP0.experts/1/net.model.layers.1.mlp.experts.gate_up_proj" group 0 teams 4 of 1 accumulators [17] bytes 163840 moments whole gradients whole parameters whole residency use prefetch 1 stream 1 gather 2 by 1
  bucket 10 "PP0.2/net.model.layers.1.post_attention_layernorm.weight" group 0 teams 0 of 2 accumulators [15, 14, 13, 12, 11, 10, 7, 6, 5] bytes 51200 moments part gradients part parameters part residency use prefetch 1 stream 1 gather 2 by 1
  bucket 11 "PP0/2/net.model.layers.0.self_attn.o_proj.weight" group 0 teams 0 of 2 accumulators [4, 3, 2, 1] bytes 49152 moments part gradients part parameters part residency use prefetch 1 stream 1 gather 2 by 1
  bucket 12 "PP0/1/net.model.embed_tokens.weight" group 0 teams 0 of 2 accumulators [0] bytes 24832 moments part gradients part parameters part residency use prefetch 1 stream 1 gather 2 by 1
  bucket 13 "EP0.PP0.experts/2/net.model.layers.0.mlp.experts.down_proj" group 0 teams 4 of 1 accumulators [9] bytes 81920 moments whole gradients whole parameters whole residency use prefetch 1 stream 1 gather 2 by 1
  bucket 14 "EP0.PP0.experts/1/net.model.layers.0.mlp.experts.gate_up_proj" group 0 teams 4 of 1 accumulators [8] bytes 163840 moments whole gradients whole parameters whole residency use prefetch 1 stream 1 gather 2 by 1
  gather bucket 0 reader 52 from 181
  gather bucket 0 reader 53 from 195
  gather bucket 0 reader 68 from 185
  gather bucket 0 reader 69 from 199
  gather bucket 0 reader 70 from 186
  gather bucket 0 reader 71 from 200
  gather bucket 0 reader 80 from 187
  gather bucket 0 reader 81 from 201
  gather bucket 1 reader 38 from 176
  gather bucket 1 reader 39 from 192
  gather bucket 1 reader 52 from 182
  gather bucket 1 reader 53 from 196
  gather bucket 1 reader 80 from 188
  gather bucket 1 reader 81 from 202
  gather bucket 1 reader 90 from 189
  gather bucket 1 reader 91 from 203
  gather bucket 2 reader 38 from 177
  gather bucket 2 reader 39 from 193
  gather bucket 2 reader 90 from 190
  gather bucket 2 reader 91 from 204
  gather bucket 7 reader 20 from 175
  gather bucket 7 reader 21 from 184
  gather bucket 7 reader 104 from 191
  gather bucket 7 reader 105 from 205
  gather bucket 10 reader 2 from 172
  gather bucket 10 reader 3 from 179
  gather bucket 10 reader 16 from 174
  gather bucket 10 reader 17 from 183
  gather bucket 10 reader 108 from 194
  gather bucket 10 reader 109 from 206
  gather bucket 10 reader 118 from 197
  gather bucket 10 reader 119 from 207
  gather bucket 11 reader 2 from 173
  gather bucket 11 reader 3 from 180
  gather bucket 11 reader 118 from 198
  gather bucket 11 reader 119 from 208
  gather bucket 12 reader 0 from 171
  gather bucket 12 reader 1 from 178
  clear bucket 0 microbatch 0 before 70
  clear bucket 0 microbatch 1 before 71
  clear bucket 1 microbatch 0 before 80
  clear bucket 1 microbatch 1 before 81
  clear bucket 2 microbatch 0 before 90
  clear bucket 2 microbatch 1 before 91
  clear bucket 7 microbatch 0 before 104
  clear bucket 7 microbatch 1 before 105
  clear bucket 10 microbatch 0 before 108
  clear bucket 10 microbatch 1 before 109
  clear bucket 11 microbatch 0 before 118
  clear bucket 11 microbatch 1 before 119
  clear bucket 12 microbatch 0 before 120
  clear bucket 12 microbatch 1 before 121
  owners parameters [0 x19, 2 x20] buffers [] unread []
}
