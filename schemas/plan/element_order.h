// Where elements lie in files that a plan counts part by part. A tensor that is cut (plan::TensorCut) is counted as all
// of part 0 in row-major order of that part, then part 1, and so on, so that each rank's elements are one range; files
// hold every tensor in row-major order of the whole. Whatever reads or writes a file translates by this.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "schemas/base/status.h"
#include "schemas/plan/plan.h"

namespace piper::plan {

// Equal parts of a tensor along each of the segments of an axis, which are equal or have `extents`. One part: elements
// are counted in row-major order.
struct PartsAlong {
  int32_t axis = 0;
  int64_t parts = 1, segments = 1;
  std::vector<int64_t> extents = {};
  friend bool operator==(const PartsAlong&, const PartsAlong&) = default;
};
// For a tensor of the manifest; one part where the parts follow one another in row-major order, too.
PartsAlong parts_along(const Manifest& manifest, const TensorInfo& tensor);

// Whether an axis falls into segments of these extents, of each of which there can be so many equal parts.
bool are_segments(const std::vector<int64_t>& extents, int64_t extent, int64_t parts);

// Elements [at, at + count) of the range that was asked for: they lie from `there` on in the other order.
struct ElementRun {
  int64_t at = 0, there = 0, count = 0;
};
// Elements of a tensor as plans count them: more than it has where its parts are not equal. Each part has as many as
// the first, and those past the tensor's last are in buffers alone, where they are zero.
std::vector<int64_t> counted_shape(const Manifest& manifest, const TensorInfo& tensor);

// The runs of a range, in its order, without a list of them.
class ElementRuns {
 public:
  class Iterator {
   public:
    explicit Iterator(const ElementRuns& of) : of_(of) { find(); }
    const ElementRun& operator*() const { return run_; }
    const ElementRun* operator->() const { return &run_; }
    Iterator& operator++() {
      run_.at += run_.count;
      find();
      return *this;
    }
    bool operator==(std::default_sentinel_t) const { return run_.at >= of_.count_; }

   private:
    void find() {
      const int64_t here = of_.first_ + run_.at, left = of_.count_ - run_.at;
      if (left <= 0) return;
      if (!of_.ends_.empty()) return find_in_segments(here, left);
      if (of_.rows_ == 1 || of_.columns_ == 1) {
        run_.there = here;
        run_.count = left;
        return;
      }
      const int64_t block = here / of_.inner_, inside = here % of_.inner_;
      run_.there = (block % of_.columns_ * of_.rows_ + block / of_.columns_) * of_.inner_ + inside;
      run_.count = std::min(of_.inner_ - inside, left);
    }
    // Each outer row has all segments one after the other: in the whole each of them, in a part its part of each.
    void find_in_segments(int64_t here, int64_t left) {
      const int64_t row = of_.ends_.back(), part_row = row / of_.parts_;  // elements, of the whole and of a part
      const int64_t of_block = of_.to_row_major_ ? part_row : row, inside = here % of_block;
      const int64_t scale = of_.to_row_major_ ? of_.parts_ : 1;
      const auto end = std::upper_bound(of_.ends_.begin(), of_.ends_.end(), inside * scale);
      const int64_t begin = end == of_.ends_.begin() ? 0 : *std::prev(end);
      const int64_t each = (*end - begin) / of_.parts_, within = inside - begin / scale;  // of the segment's part
      if (of_.to_row_major_) {
        const int64_t outer = here / part_row, part = outer / of_.outer_;
        run_.there = outer % of_.outer_ * row + begin + part * each + within;
        run_.count = std::min(each - within, left);
      } else {
        const int64_t part = within / each, place = within % each;
        run_.there = (part * of_.outer_ + here / row) * part_row + begin / of_.parts_ + place;
        run_.count = std::min(each - place, left);
      }
    }
    const ElementRuns& of_;
    ElementRun run_;
  };

  // Blocks of `inner` elements, [rows, columns] of them here, [columns, rows] there.
  ElementRuns(int64_t rows, int64_t columns, int64_t inner, int64_t first, int64_t count)
      : rows_(rows), columns_(columns), inner_(inner), first_(first), count_(count) {}
  // For `outer` rows of segments that end after so many elements, in so many parts.
  ElementRuns(std::vector<int64_t> ends, int64_t outer, int64_t parts, bool to_row_major, int64_t first, int64_t count)
      : first_(first),
        count_(count),
        ends_(std::move(ends)),
        outer_(outer),
        parts_(parts),
        to_row_major_(to_row_major) {}
  Iterator begin() const { return Iterator(*this); }
  std::default_sentinel_t end() const { return {}; }

 private:
  int64_t rows_ = 1, columns_ = 1, inner_ = 1, first_, count_;
  std::vector<int64_t> ends_;  // of segments of unequal size
  int64_t outer_ = 1, parts_ = 1;
  bool to_row_major_ = false;
};

class ElementOrder {
 public:
  ElementOrder() = default;  // row-major, of any shape
  // `along.parts * along.segments` divides the axis, or `along.parts` each of `along.extents`, which make it up.
  ElementOrder(const std::vector<int64_t>& shape, const PartsAlong& along);

  bool row_major() const { return parts_ == 1 || inner_ == 0 || (outer_ == 1 && ends_.empty()); }
  // Elements [first, first + count) as plans count them: where they lie in row-major order.
  ElementRuns row_major_runs(int64_t first, int64_t count) const {
    if (!ends_.empty()) return {ends_, outer_, parts_, true, first, count};
    return {parts_, outer_, inner_, first, count};
  }
  // Elements [first, first + count) in row-major order: where plans count them.
  ElementRuns counted_runs(int64_t first, int64_t count) const {
    if (!ends_.empty()) return {ends_, outer_, parts_, false, first, count};
    return {outer_, parts_, inner_, first, count};
  }
  friend bool operator==(const ElementOrder&, const ElementOrder&) = default;

 private:
  int64_t outer_ = 1, parts_ = 1, inner_ = 1;  // elements before the axis; of a row of a part
  std::vector<int64_t> ends_;                  // of segments of unequal size, in elements of a row of the whole
};

// The parts of what a rank has of the model's tensors, by name: parameters, their moments and gradients.
class PartsByName {
 public:
  explicit PartsByName(const Manifest& manifest);
  // `shape`: that of the whole, as a placement says it.
  PartsAlong of(const std::string& name, const std::vector<int64_t>& shape) const;
  // What files have of a placement: the tensor's own shape and elements.
  Placement in_files(Placement placement) const;

 private:
  struct Cut {
    std::vector<int64_t> shape;
    PartsAlong along;
  };
  std::map<std::string, Cut> cut_;
  struct Uneven {
    std::vector<int64_t> shape, counted;
  };
  std::map<std::string, Uneven> uneven_;
};

// `count` elements in pieces of a few MiB: `fill` puts elements [at, at + n) there, `use` takes them, in order.
using FillPiece = std::function<Status(int64_t at, int64_t n, std::byte* to)>;
using UsePiece = std::function<Status(int64_t at, int64_t n, const std::byte* data)>;
Status gather_pieces(int64_t count, int64_t element_bytes, const FillPiece& fill, const UsePiece& use);

}  // namespace piper::plan
