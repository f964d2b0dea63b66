// What the bytes of a buffer mean at one moment of a step: a value with its samples, a parameter with its
// version, a sum with its addends. The rules about contents (contents_flow.h) keep one such map per buffer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <span>
#include <vector>

namespace piper::verify {

struct Content {
  enum class Kind : uint8_t {
    kNothing,    // never written
    kZero,       // cleared
    kValue,      // made by a run, or a model input
    kParameter,
    kConstant,
    kSum,
    kClip,       // the gradients' norm, or the factor that clips by it
    kOther,      // moments, running statistics, scalars of the step: not followed
  };
  Kind kind = Kind::kNothing;
  bool start = false;    // here since before the step
  bool relied = false;   // ... and used as such
  int32_t what = -1;     // kValue: label, -1 any. kParameter: tensor. kConstant: name. kClip: 0 norm, 1 factor. kSum: >= 0 its only addend, else a list of addends
  int32_t how = 0;       // kValue: samples. kParameter: version. kSum with one addend: the sum
  int32_t parts = 0;     // kValue: > 0 its samples stand one after the other, in as many parts from other ranks; 0 not known
  int64_t origin = 0;    // bytes from the start of the value, tensor or accumulator
  int64_t size = 0;      // kValue: bytes of the whole value

  bool same(const Content& other) const {  // apart from where it stands
    return kind == other.kind && what == other.what && how == other.how && parts == other.parts && size == other.size;
  }
};
struct Piece {
  int64_t bytes = 0;
  Content content;
};
// One after the other, without gaps.
using Pieces = std::vector<Piece>;
void append(Pieces& pieces, const Piece& piece);  // joins what continues

// The contents of one buffer.
class BufferContents {
 public:
  struct Segment {
    int64_t begin = 0, end = 0;
    Content content;
  };
  // `memory` outlives it.
  explicit BufferContents(int64_t bytes, std::pmr::memory_resource* memory = std::pmr::get_default_resource())
      : segments_(1, Segment{0, bytes, {}}, memory) {}

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
  std::span<const Segment> segments() const { return segments_; }
  // The segment that holds all of [from, to), or nullptr where several do.
  Segment* whole(int64_t from, int64_t to) {
    Segment& segment = segments_[find(from)];
    return to <= segment.end ? &segment : nullptr;
  }

 private:
  size_t find(int64_t at) const;  // the segment that holds `at`
  size_t split(int64_t at);       // the segment that begins there

  std::pmr::vector<Segment> segments_;
};

}  // namespace piper::verify
