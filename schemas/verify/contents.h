// What the bytes of a buffer mean at one moment of a step: a value with its samples, a parameter with its
// version, a sum with its addends. The rules about contents (contents_flow.h) keep one such map per buffer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <span>
#include <vector>

#include "schemas/verify/layouts.h"

namespace piper::verify {

struct Content {
  enum class Kind : uint8_t {
    kNothing,    // never written
    kZero,       // cleared
    kValue,      // made by a run, or a model input
    kParameter,  // what programs read of one: its value, or a working copy
    kMaster,     // what an update makes the working copy of
    kConstant,
    kSum,
    kClip,       // the gradients' norm, or the factor that clips by it
    kMoment,     // of the optimizer
    kCounter,    // what training counts from step to step
    kStatistic,  // a running statistic
    kOther,      // scalars of the step: not followed
  };
  Kind kind = Kind::kNothing;
  bool start : 1 = false;       // here since before the step
  bool relied : 1 = false;      // ... and used as such
  bool scaled : 1 = false;      // kValue: the loss scale entered it
  LayoutId layout = kNoLayout;  // of what elements it consists, from the start of the value, tensor or accumulator
  // kValue: label, -1 any. kParameter, kMaster, kMoment, kStatistic: tensor. kConstant: name. kClip: 0 norm, 1 factor
  // that clips, 2 one that takes the loss scale back alone. kSum: >= 0 its only addend, else a list of addends.
  // kCounter: 1 the loss scale, 2 once found to count steps without an overflow.
  int32_t what = -1;
  // kValue: samples; kStatistic: samples that it took in this step. kParameter, kMaster: version. kSum with one addend:
  // the sum, with a list of them: in which order they were added (Ledger). kMoment: 1 the first, 2 the second.
  // kCounter: how often it was advanced in this step. kClip: 1 where the factor takes the loss scale back.
  int32_t how = 0;
  // kValue: > 0 its samples stand one after the other, in as many parts from other ranks; 0 not known. kMoment: 1 once
  // an update of this step has brought it forward.
  int32_t parts = 0;
  int32_t at = -1;     // kValue: what other ranks sent to this one as that part of theirs; -1: its own rows
  int64_t origin = 0;  // bytes from the start of the value, tensor or accumulator
  int64_t size = 0;    // kValue: bytes of the whole value. kParameter, kMaster: of an element

  bool same(const Content& other) const {  // apart from where it stands
    return kind == other.kind && what == other.what && how == other.how && parts == other.parts && at == other.at &&
           size == other.size && scaled == other.scaled && layout == other.layout;
  }
};
struct Piece {
  int64_t bytes = 0;
  Content content;
};
// One after the other, without gaps.
using Pieces = std::vector<Piece>;
void append(Pieces& pieces, const Piece& piece);  // joins what continues
bool is_loss_scale(const Pieces& pieces);         // as the step began with it

// The contents of one buffer. A rank has thousands, nearly all of them one segment, or one for each rank that sent a
// part.
class BufferContents {
 public:
  struct Segment {
    int64_t begin = 0, end = 0;
    Content content;
  };
  // `memory` outlives it and frees what it took.
  BufferContents(int64_t bytes, std::pmr::memory_resource& memory) : only_{0, bytes, {}}, memory_(&memory) {}
  BufferContents(BufferContents&&) = default;
  BufferContents(const BufferContents&) = delete;

  // Appends what is in [from, to).
  void read(int64_t from, int64_t to, Pieces& pieces) const;
  // The segments of [from, to), cut so that they fill it; valid until the next call.
  struct Span {
    Segment *first, *last;
    Segment* begin() const { return first; }
    Segment* end() const { return last; }
  };
  Span cut(int64_t from, int64_t to);
  void write(int64_t from, const Pieces& pieces);
  void write(int64_t from, int64_t to, const Content& content);
  std::span<const Segment> segments() const {
    return several_ != nullptr ? std::span<const Segment>(*several_) : std::span<const Segment>(&only_, 1);
  }
  // The segment that holds all of [from, to), or nullptr where several do.
  Segment* whole(int64_t from, int64_t to) {
    Segment& segment = several_ != nullptr ? (*several_)[find(from)] : only_;
    return to <= segment.end ? &segment : nullptr;
  }
  // The segment that is just [from, to), or nullptr.
  Segment* just(int64_t from, int64_t to) {
    Segment* const segment = whole(from, to);
    return segment != nullptr && segment->begin == from && segment->end == to ? segment : nullptr;
  }

 private:
  using Several = std::pmr::vector<Segment>;
  Several& several();
  size_t find(int64_t at) const;  // the segment that holds `at`
  size_t split(int64_t at);       // the segment that begins there; in `several_`

  Segment only_;                // while `several_` is null
  Several* several_ = nullptr;  // in `memory_`
  std::pmr::memory_resource* memory_;
};

}  // namespace piper::verify
