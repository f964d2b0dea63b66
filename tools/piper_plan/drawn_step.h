// One step of a bundle as the page of `piper-plan show --html` draws it: the JSON text that the page carries. Readers:
// page/step.js, which says what every column becomes.
//
//   title, about: length, bubble and what times these are, strategy, unit ("units" of a forward, or "us"), step: its
//               length in that unit
//   strings     every text once; columns hold indices into it, -1 for none
//   origins     [{key, text}], of provenance.json
//   programs    [{name, calls, origins}]: the model's operators that its calls come from, by strings
//   rows        ranks that do the same at the same time, as one with the names of its first rank:
//               {ranks: "0,2-3", streams, persistent: bytes kept from step to step,
//                buffers: [[name, bytes, first, last]] of the arena, alive from instruction first to last,
//                stages: names of those on the rank,
//                and columns with an entry an instruction: kind (index of plan::Action), stream, name,
//                stage (index of stages; -1: none), pass ("F", "B", "I", "W", or ""), microbatch (-1: none),
//                object (program, channel or communicator), peer, bytes, origin, begin, end,
//                measured: {begin, end}}
//   transfers   [[begin, end, bytes, row, instruction, row, instruction, ...]], of a message the sender first
#pragma once

#include <string>

#include "tools/piper_plan/play_bundle.h"

namespace piper::tools {

// With the times of a profile every rank has its own row.
std::string drawn_step(const StepOfBundle& step);

}  // namespace piper::tools
