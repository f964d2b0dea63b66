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
#include <vector>

#include "schemas/base/status.h"
#include "schemas/plan/plan.h"

namespace piper::plan {

// Equal parts of a tensor along each of equal segments of an axis. One part: elements are counted in row-major order.
struct PartsAlong {
  int32_t axis = 0;
  int64_t parts = 1, segments = 1;
  friend bool operator==(const PartsAlong&, const PartsAlong&) = default;
};
// Of a tensor of the manifest; one part where the parts follow one another in row-major order, too.
PartsAlong parts_along(const Manifest& manifest, const TensorInfo& tensor);

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
      if (of_.rows_ == 1 || of_.columns_ == 1) {
        run_.there = here;
        run_.count = left;
        return;
      }
      const int64_t block = here / of_.inner_, inside = here % of_.inner_;
      run_.there = (block % of_.columns_ * of_.rows_ + block / of_.columns_) * of_.inner_ + inside;
      run_.count = std::min(of_.inner_ - inside, left);
    }
    const ElementRuns& of_;
    ElementRun run_;
  };

  // Blocks of `inner` elements, [rows, columns] of them here, [columns, rows] there.
  ElementRuns(int64_t rows, int64_t columns, int64_t inner, int64_t first, int64_t count)
      : rows_(rows), columns_(columns), inner_(inner), first_(first), count_(count) {}
  Iterator begin() const { return Iterator(*this); }
  std::default_sentinel_t end() const { return {}; }

 private:
  int64_t rows_, columns_, inner_, first_, count_;
};

class ElementOrder {
 public:
  ElementOrder() = default;  // row-major, of any shape
  // `along.parts * along.segments` divides the axis.
  ElementOrder(const std::vector<int64_t>& shape, const PartsAlong& along);

  bool row_major() const { return parts_ == 1 || outer_ == 1 || inner_ == 0; }
  // Elements [first, first + count) as plans count them: where they lie in row-major order.
  ElementRuns row_major_runs(int64_t first, int64_t count) const { return {parts_, outer_, inner_, first, count}; }
  // Elements [first, first + count) in row-major order: where plans count them.
  ElementRuns counted_runs(int64_t first, int64_t count) const { return {outer_, parts_, inner_, first, count}; }
  friend bool operator==(const ElementOrder&, const ElementOrder&) = default;

 private:
  int64_t outer_ = 1, parts_ = 1, inner_ = 1;  // elements before the axis; of a row of a part
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
