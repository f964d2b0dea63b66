// Reads and writes plan bundles (schemas/README.md has the formats). Writing is canonical: the same
// Bundle gives the same bytes on every machine. Reading checks everything it uses: SHA-256 of each
// file against the manifest, grammar, index ranges, byte ranges inside buffers; a damaged bundle is
// refused by file, line and name (P06xx), never crashed on.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "schemas/base/status.h"
#include "schemas/plan/plan.h"

namespace piper::plan {

class JsonWriter;

// One tensor to be written into weights/*.safetensors.
struct WeightTensor {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  std::string file;               // source file; "" = `data`
  int64_t offset = 0, bytes = 0;  // in the source
  const std::byte* data = nullptr;
  std::vector<int64_t> permutation;  // stored = permute(tensor): written un-permuted; empty = none
  bool buffer = false;               // a persistent buffer: written also where weights are left out
};
enum class WeightMode : uint8_t { kCopy, kLink, kNone };

// Writes into DIR + ".partial-<pid>" and renames, for good: an existing bundle is replaced as a whole, in one step
// where the file system can swap directories; a directory that holds anything else is refused (P0601). Fills
// manifest.files. `prove` is called while the files are written and may read the bundle; where it fails, nothing takes
// the place of what was there.
Status write_bundle(const std::string& directory, Bundle& bundle, const std::vector<WeightTensor>& parameters,
                    const std::vector<WeightTensor>& constants, WeightMode mode,
                    const std::function<Status()>& prove = {});

// A bundle of which the manifest was read, once: what it says and its digest are of the same bytes.
struct OpenBundle {
  std::string directory;
  Manifest manifest;
  std::string digest;  // SHA-256 over manifest.json: what all ranks compare before the first step
};
Result<OpenBundle> open_bundle(const std::string& directory);
// The manifest and provenance always; programs and rank plans as asked. `ranks` empty = all. Of the weights only the
// size is looked at: who reads them checks what he reads (chunk_digests.h), check_weights() all of them.
Result<Bundle> read_bundle(const OpenBundle& opened, const std::vector<int32_t>& ranks = {});
Result<Bundle> read_bundle(const std::string& directory, const std::vector<int32_t>& ranks = {});
// The SHA-256 of the weights files against the manifest. P0603, P0604.
Status check_weights(const OpenBundle& opened);

// Text of the parts, for tests, `piper-plan show` and `--emit=plan`.
// `chunks`: the manifest's, which a program names its own of.
std::string print_program(const Program& program, const std::vector<Chunk>& chunks);
// `like`: the plan that does the same work (like_ranks.h) and is spelt out elsewhere; null: all is spelt out here.
std::string print_rank_plan(const RankPlan& plan, const std::vector<ProvenanceEntry>& provenance,
                            const std::vector<Program>& programs, const RankPlan* like = nullptr);
// Into `json`, which begins anew and whose memory serves again: a large bundle is mostly such texts.
void print_rank_plan(const RankPlan& plan, const std::vector<ProvenanceEntry>& provenance,
                     const std::vector<Program>& programs, const RankPlan* like, JsonWriter& json);
std::string print_manifest(const Manifest& manifest);
Result<Program> parse_program(std::string_view text, const std::string& file, const std::vector<Chunk>& chunks);
std::string print_reference(const Reference& reference);
Result<Reference> parse_reference(std::string_view text, const std::string& file);
// What a constants file of these tensors holds. P0603 where a source cannot be read.
std::optional<float> one_element(DType dtype, std::string_view bytes);  // of a constant that is one f32
Result<std::vector<ConstantContent>> constant_contents(const std::vector<WeightTensor>& constants);
// The plan of another rank, and the index of each of its buffers by name; without it a reader makes its own.
using NameIndex = std::unordered_map<std::string_view, int32_t>;
struct OtherPlan {
  const RankPlan* plan = nullptr;
  const NameIndex* buffers = nullptr;
};
// `like` gives the plan of the rank that a text refers to, which outlives the reading; without it such a text is
// refused.
using PlanOfRank = std::function<Result<OtherPlan>(int32_t rank)>;
Result<RankPlan> parse_rank_plan(std::string_view text, const std::string& file,
                                 const std::vector<ProvenanceEntry>& provenance, const std::vector<Program>& programs,
                                 const PlanOfRank& like = {});
Result<Manifest> parse_manifest(std::string_view text, const std::string& file);

}  // namespace piper::plan
