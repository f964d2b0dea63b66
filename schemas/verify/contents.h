// What the bytes of a buffer mean at one moment of a step: a value with its samples, a parameter with its
// version, a sum with its addends. The rules about contents (contents_flow.h) keep one such map per buffer.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include "schemas/verify/layouts.h"

namespace piper::verify {

struct Nothing {  // never written
  friend bool operator==(const Nothing&, const Nothing&) = default;
};
struct Zero {  // cleared
  friend bool operator==(const Zero&, const Zero&) = default;
};
inline constexpr uint64_t kMostConversions = 3;
struct Value {          // made by a run, or a model input
  int64_t bytes = 0;    // of the whole value
  int32_t label = -1;   // -1: any
  int32_t samples = 0;  // SampleTable
  // > 0: its samples are one after the other, in as many parts from other ranks; 0: not known
  int64_t parts : 20 = 0;
  int64_t at : 22 = -1;     // what other ranks sent to this one as that part of theirs; -1: its own rows
  int64_t spread : 18 = 0;  // Places: of a value whose tensors are cut, what of it this is
  // How often it came by a sum over the places of a cut, or of their parts, or by a gather, one after the other; no
  // more than kMostConversions are counted.
  uint64_t conversions : 2 = 0;
  bool scaled : 1 = false;    // the loss scale entered it
  bool by_place : 1 = false;  // of rows that all places of a cut sent: its samples count as those of their shares
  friend bool operator==(const Value&, const Value&) = default;
};
struct Parameter {
  int32_t tensor = -1;
  int32_t version = 0;  // 1 once an update of this step has made it
  int32_t element = 0;  // bytes
  bool master = false;  // what an update makes the working copy of: programs read that
  friend bool operator==(const Parameter&, const Parameter&) = default;
};
struct Constant {
  int32_t name = -1;
  friend bool operator==(const Constant&, const Constant&) = default;
};
struct Sum {
  int32_t addend = -1;  // its only one; -1: it has several
  int32_t sum = 0;      // of one addend: SumTable
  int32_t list = -1;    // of several: they and their sums (Ledger)
  int32_t order = -1;   // ... and in which order they were added
  friend auto operator<=>(const Sum&, const Sum&) = default;
};
struct Clip {
  enum class Is : uint8_t {
    kNorm,       // of all gradients
    kFactor,     // that clips by it
    kUnscaling,  // the factor that takes the loss scale back alone
  };
  Is is = Is::kNorm;
  bool unscales = false;  // the loss scale is taken back
  friend bool operator==(const Clip&, const Clip&) = default;
};
struct OptimizerMoment {  // of the optimizer
  int32_t tensor = -1;
  int32_t number = 1;    // the first, the second
  bool updated = false;  // an update of this step has brought it forward
  friend bool operator==(const OptimizerMoment&, const OptimizerMoment&) = default;
};
struct Counter {                                               // what training counts from step to step
  enum class Of : uint8_t { kSteps, kLossScale, kGoodSteps };  // kGoodSteps: once found to count those
  Of of = Of::kSteps;
  bool advanced = false;  // in this step
  friend bool operator==(const Counter&, const Counter&) = default;
};
struct Statistic {  // a running statistic
  int32_t tensor = -1;
  int32_t samples = 0;  // that it took in this step
  friend bool operator==(const Statistic&, const Statistic&) = default;
};
struct Other {  // scalars of the step: not followed
  friend bool operator==(const Other&, const Other&) = default;
};

struct Content {
  using What =
      std::variant<Nothing, Zero, Value, Parameter, Constant, Sum, Clip, OptimizerMoment, Counter, Statistic, Other>;
  What what;
  int64_t origin = 0;           // bytes from the start of the value, tensor or accumulator
  LayoutId layout = kNoLayout;  // of what elements it consists, from there
  bool start : 1 = false;       // here since before the step
  bool relied : 1 = false;      // ... and used as such

  template <class T>
  bool is() const {
    return std::holds_alternative<T>(what);
  }
  template <class T>
  const T* as() const {
    return std::get_if<T>(&what);
  }
  template <class T>
  T* as() {
    return std::get_if<T>(&what);
  }
  bool is_empty() const { return is<Nothing>() || is<Zero>(); }
  bool same(const Content& other) const {  // apart from where it is
    return layout == other.layout && what == other.what;
  }
};
struct Piece {
  int64_t bytes = 0;
  Content content;
};
// A plan for thousands of ranks has millions.
static_assert(sizeof(Value) == 24 && sizeof(Content) == 48);

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
  using Several = std::pmr::vector<Segment>;
  // The memory of all buffers of a rank. What is received from many ranks has a segment for each of them; lists that
  // are of no use any more are taken again.
  struct Memory {
    std::pmr::monotonic_buffer_resource bytes;
    std::vector<Several*> spare;
  };
  // `memory` outlives it and frees what it took.
  BufferContents(int64_t bytes, Memory& memory) : only_{0, bytes, {}}, memory_(&memory) {}
  BufferContents(BufferContents&&) = default;
  BufferContents(const BufferContents&) = delete;

  // As of a buffer of so many bytes that was never written.
  void reset(int64_t bytes) {
    only_ = {0, bytes, {}};
    if (several_ != nullptr) memory_->spare.push_back(std::exchange(several_, nullptr));
  }
  // Takes the contents of another buffer of as many bytes, each changed by `change`.
  template <class Change>
  void set(const BufferContents& other, const Change& change) {
    reset(0);
    only_ = other.only_;
    if (other.several_ != nullptr) *(several_ = new_several()) = *other.several_;
    for (Segment& segment : several_ != nullptr ? std::span<Segment>(*several_) : std::span<Segment>(&only_, 1))
      segment.content = change(segment.content);
  }
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
  Several& several();
  Several* new_several();
  size_t find(int64_t at) const;  // the segment that holds `at`
  size_t split(int64_t at);       // the segment that begins there; in `several_`

  Segment only_;                // while `several_` is null
  Several* several_ = nullptr;  // in `memory_`
  Memory* memory_;
};

}  // namespace piper::verify
