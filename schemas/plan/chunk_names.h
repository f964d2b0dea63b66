// Names in a plan that carry meaning, and nothing else does: compute programs, their runs, slots of gradients.
// The emitter makes them here; the verifier and piper-plan read them here. The runtime looks at no name.
//
//   program   CHUNK.PASS.bN    pass PASS of a chunk on N samples: "PP0.EP1.B.b4"; "B-recomputing": repeats its forward
//   run       CHUNK.PASS mI    ... on microbatch I; " mI" is absent where the batch is not split: "PP0.EP1.B m2"
//   slot      grad TENSOR      in a program: where its gradient of a tensor of the model is added up
//   slot      loss T           ... of an evaluation: term T of the loss; "loss" where there is one term
//   slot      loss T count     ... what that term is divided by
//
//   chunk     TAGn.TAGn...     its values of the model's tags; behind them what tells pieces of it apart:
//   "EP1.PP0.rest", "PP0/2"
//
// A chunk may have points in its name, a pass has none.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace piper::plan {

// "C" counts a loss's terms, "N" ends the count, "F" forward, "B" backward, "BI" and "BW" its parts for
// inputs and weights.
bool is_pass_word(std::string_view word);

struct ChunkProgram {
  std::string chunk, pass;
  int64_t local_batch = 0;  // samples
  bool recomputing = false;
};
std::string program_name(const ChunkProgram& program);
// Nothing for programs of the step's own work.
std::optional<ChunkProgram> chunk_program(std::string_view name);

struct ChunkRun {
  std::string chunk, pass;
  std::optional<int64_t> microbatch;  // none: the batch is not split
};
std::string run_name(const ChunkRun& run);
std::optional<ChunkRun> chunk_run(std::string_view argument_list);

struct TagValue {
  std::string tag, index;  // "PP", "0"
};
// The tags in a chunk's name, in its order.
std::vector<TagValue> tags_of_chunk(std::string_view chunk);

std::string gradient_slot_name(std::string_view tensor);
// The tensor of a slot of that form.
std::optional<std::string_view> tensor_of_gradient_slot(std::string_view slot);

// Of an evaluation, whose loss has so many terms.
std::string term_slot_name(size_t term, size_t terms);
std::string count_slot_name(size_t term, size_t terms);

}  // namespace piper::plan
