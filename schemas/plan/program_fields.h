// The members of programs/*.json and of reference.json, struct by struct (fields.h).
#pragma once

#include <optional>
#include <string>

#include "schemas/plan/fields.h"

namespace piper::plan {

// Slot::reads and Slot::writes as one word.
enum class Access : uint8_t { kNone, kRead, kWrite, kReadWrite };
constexpr std::string_view word_of(Access access) {
  switch (access) {
    case Access::kNone: return "none";
    case Access::kRead: return "read";
    case Access::kWrite: return "write";
    case Access::kReadWrite: return "read_write";
  }
  return "";
}

// A slot of a reference, and what Reference::constants and inputs say of it.
struct ReferenceSlot {
  Slot slot;
  std::string sha256, sha256_of_each;
  std::optional<double> per_sample;
  int64_t each = 0;
  Feed feed = Feed::kNone;
  int told() const { return int{!sha256.empty()} + int{!sha256_of_each.empty()} + int{per_sample.has_value()}; }
};

// Up to its size.
void slot_fields(auto& v, auto& slot) {
  v("slot", slot.name, {.unique = "slots"});
  v("role", slot.role, {.what = "slot role"});
  v.optional("of", slot.of, "",
             {.about = "the model's name of an input, a parameter or a state, or of what a gradient is of"});
  v.optional("holds", slot.holds, StepNumber::kNone,
             {.what = "number of the step", .says = "a slot that holds no number does not say so"});
  v.optional("term", slot.term, 0, {.least = 1});
  v.optional("spread", slot.spread, Spread::kSame, {.what = "spread of a value"});
  v.optional("cut", slot.cut, -1,
             {.least = 0, .about = "over which the value is spread: its place in the list of cuts"});
}
template <class V>
void fields(V& v, Of<Slot> auto& slot) {
  slot_fields(v, slot);
  v("bytes", slot.bytes, {.least = 0});
  auto access = static_cast<Access>((slot.reads ? 1 : 0) + (slot.writes ? 2 : 0));
  v("access", access, {.hint = "; read, write, read_write or none"});
  if constexpr (V::kReads) {
    slot.reads = access == Access::kRead || access == Access::kReadWrite;
    slot.writes = access == Access::kWrite || access == Access::kReadWrite;
  }
}
void fields(auto& v, Of<ReferenceSlot> auto& line) {
  slot_fields(v, line.slot);
  v.by_samples("bytes", line.slot.bytes);
  v.optional("sha256", line.sha256, "", {.as = "sha256"});
  v.optional("each", line.each, 0, {.least = 1});
  v("per_sample", line.per_sample);
  v.optional("sha256_of_each", line.sha256_of_each, "", {.as = "sha256"});
  v.optional("feed", line.feed, Feed::kNone);
}

void fields(auto& v, Of<KernelCall> auto& call) {
  v("call", call.kernel);
  v.optional("add", call.accumulate, false);
  v("out", call.outputs);
  v("in", call.inputs);
  v.unless_empty("attrs", call.attrs);
  v.optional("from", call.origin, "");
  v.end_of(call);
}

void fields(auto& v, Of<ChunkPass> auto& of) {
  v.chunk("chunk", of.chunk);
  v("pass", of.pass);
  v("samples", of.samples, {.least = 1, .says = "a program of a chunk is for one sample or more"});
  v.optional("recomputing", of.recomputing, false);
}
void fields(auto& v, Of<Program> auto& program) {
  v("program", program.name, {.unique = "programs"});
  v("of", program.of,
    {.about = "which chunk of the manifest it is of, which pass, and on how many samples a run works"});
  v("workspace_bytes", program.workspace_bytes, {.least = 0});
  v("slots", program.slots);
  v("calls", program.calls);
}
// `v` has the reference's slots and lines.
void fields(auto& v, Of<Reference> auto& reference) {
  v.format("reference", 3);
  v("slots", v.slots(reference));
  v("calls", reference.program.calls);
}

}  // namespace piper::plan
