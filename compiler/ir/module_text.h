// The text form of a module (.pir): all that a compilation knows between two passes, line by line, for people, tests
// and piper-opt. Whoever prints, reads or checks a whole module uses this header.
//
//   module {
//     step batch 16 microbatches 4 split cut by @0:5:3+9
//     per_microbatch ["*.bn"]
//     training clip 1.0 by 3 update 4          numbers after `by` and `update`: entries of `provenance`
//     precision compute bf16 master f32 reduce f32 loss_scale dynamic 65536 keep ["*.router"] by 5
//     lowered                                  shapes were there
//   }
//   provenance {
//     prov 0 directive "place" "s.yaml:3:5"
//   }
//   variant 4 {                                its local batch
//     tag "PP" 2
//     chunk 0 "PP0" tags ["PP" 0] region 0 exchange shard 0
//     graph { ... }                            as print(Graph) writes it
//     gradients {
//       %x = %x_grad                           ModelVariant::gradients
//     }
//     repeating graph { ... }                  ModelVariant::repeating
//   }
//   distribution {
//     world 4
//     stream 0 "compute"
//     group 0 [0..1]
//     teams 0 [[0], [1]]
//     expert_groups 0 [[0..1], [2..3]] stream 2 by 5 @0:6:3+9 bound 1.25 strict @0:6:20+4
//     chunk 0 {                                a line that says the default may be left out
//       groups [0 x2, none]                    [microbatch]; x2: twice
//       devices [@0:3:12+6 x3]
//       placed 2
//       messages 1
//       replicate bucket 1000 stream 2 gather 3 sharded optimizer residency step prefetch 2 by 4
//       segment 4096
//       shard 0
//       backward_split
//       recomputed [1, 0 x2]
//       computes [F 0 x3 on 1, B 1 on 2]       from microbatch 0 three on stream 1
//       notes [6]
//     }
//   }
//   schedule {
//     told_apart_by ["PP"]
//     order @0:9:3+5 {                         the place: where a schedule made it
//       slot in_sequence {
//         member "{PP: 0}" chunks [0..3] microbatches [0, 2] phases [F, B] half @0:9:8+7
//       }
//     }
//   }
//   dag {
//     scalar 0 "loss" "loss of the step" "the loss" f32 [] read by log
//     node 0 compute F 0 1 on 0 stream 0 by 2            phase, chunk, microbatch
//     node 1 all_reduce value F 0 1 %y teams 0 f32 on 0 stream 1      of gradients also: message bf16 sum f32
//     node 2 transfer scalar 0 to 1 on 0 stream 1
//     edges 0 [1..2]                           data
//     before 0 3 @0:9:3+5                      what an order says, and where
//     order [0..3]
//   }
//   state {
//     accumulator 0 parameter 0 chunks [0] group 0 bucket 0 offset 0 bytes 64
//     bucket 0 "PP0/w" group 0 teams 0 of 2 accumulators [0] bytes 64 moments whole gradients whole parameters whole
//       residency use prefetch 1 stream 2 gather 2 dtype bf16 working bf16      (one line; f32 and no working: left
//       out)
//     gather bucket 0 reader 4 from 9          nodes
//     clear bucket 0 microbatch 1 before 5
//     owners parameters [0 x3] buffers [] unread [2]
//   }
//
// Places in a strategy are @FILE:LINE:COLUMN+LENGTH; ids are positions in their tables. Parts that are empty are left
// out. What is a function of the graphs is not held: ModelVariant::lowered and Module::shapes. `module` is first,
// and what names values of the model after its first variant.
#pragma once

#include <string>
#include <string_view>

#include "compiler/ir/module.h"
#include "schemas/base/status.h"

namespace piper::ir {

std::string print(const Module& module);

struct ModuleText {
  Module module;
  bool lowered = false;  // the printed module had programs: the caller lowers its variants again
};
// A text that starts with `graph {` is no module: parse_graph reads it. Failures: P0402 "file:line:column: message",
// and nothing is checked but the text (verify does).
Result<ModuleText> parse_module_text(std::string_view text, std::string_view file_name);
Result<Module> parse_module(std::string_view text, std::string_view file_name);

// The rules of verify_module.h on each part that is present, and those of verify_graph.h on each variant; fails with
// the first broken rule's number. Linear in the module's size.
Status verify(const Module& module);

}  // namespace piper::ir
