// Which values are where in the slots and the workspace of a program.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

namespace piper::verify {

// Rows that an expert_order has put expert by expert, in `segments` segments with padding after each (ordered_rows.h),
// and what belongs to that order.
struct RowOrder {
  enum class Kind : uint8_t {
    kNone,
    kRows,       // rows, segment by segment; nothing is said of padding
    kPositions,  // the place of each of the model's rows
    kCounts,     // rows of each expert: [segments, experts of a segment]
    kTotals,     // rows of each segment
  };
  Kind kind = Kind::kNone;
  int32_t counts = -1;  // the number of its counts, by which orders are told apart
  int64_t segments = 1;
  int64_t rows = 0;    // places that one device's order has, in one segment
  int64_t places = 0;  // of all segments
  // Where each place of a cut orders the rows of its own part alone: the cut, over how many places, and how many rows
  // of its part are in a row before those of others. `rows` are those of all places, `places` those of one. Of a sum
  // over rows of experts, which has no kind: rows of all places of this cut are in it.
  int32_t cut = -1;
  int64_t parts = 1, run = 0;
  friend bool operator==(const RowOrder&, const RowOrder&) = default;
};

// What a rank of a group of D has of a value that one device has whole, each with its part of the experts, or at its
// place of a cut (experts.h). With one rank all of it. Along each dimension of the devices one: HeldValue.
struct Spread {
  int64_t devices = 1;  // D
  // Elements of a sample that a rank has in a row, those of its own experts; in the value those of all D ranks are
  // there, rank by rank. 0: what the rank has does not depend on which experts it has.
  int64_t part = 0;
  // For a tensor that is cut in segments of unequal size: how many elements of a row are of each, in the rank's part;
  // together they are `part`. Empty: as many of each, so that a rank's elements repeat with `part`.
  std::vector<int64_t> pieces = {};
  bool sources = false;  // of the samples of all D ranks, rank by rank, and not only of its own
  bool apart = false;    // ... the ranks' samples are the outermost axis, other axes are between them and the samples
  // ... each rank sent what its own place of this cut has, HeldValue::places, of its samples; also of sums over these.
  int32_t across = -1;
  bool share = false;   // what its own experts, or its part of a tensor, add to a sum over all of them
  bool shares = false;  // the shares of all D ranks, one after the other
  bool summed = false;  // the sum of what it is for the samples of each of the D ranks
  int32_t cut = -1;     // over whose places: index into Manifest::cuts; -1: ranks that share experts
  // Of a cut whose places do not divide the axis: elements of the ranks' parts together that are none of the value, the
  // last ones. `zeros`: what is there is zero, so that sums and products may read it.
  int64_t surplus = 0;
  bool zeros = false;
  RowOrder order = {};
  bool is_spread() const { return devices > 1; }
  int64_t of_all() const { return part * devices - surplus; }  // elements in a row of the value
  friend bool operator==(const Spread&, const Spread&) = default;
};

// Whether a place's part is one element of each row, which is its share of the sum along the row, too.
inline bool is_share_of_sum(const Spread& part) { return part.cut >= 0 && !part.share && part.part == 1; }
inline constexpr const char* kPartAsShare = "a place's one element of a row, as its share of the sum of the row";

// The values in a slot or workspace, by the byte where they begin.
struct HeldValue {
  int64_t end = 0;    // after its last byte
  int64_t first = 0;  // the element of the value that lies at the beginning
  int32_t number = -1;
  int64_t period = 0;  // elements: the value is repeated (repetitions.h); 0: it is not
  int64_t block = 0;   // elements of a sample after which the next sample's are; 0: all of them
  Spread spread = {};  // over the ranks that share experts; of what these do not divide, over the places of a cut
  // Over the places of a cut, of what ranks that share experts divide too: memory holds this of what `spread` says of
  // the value.
  Spread places = {};
  // Elements that the rank has, of `all` that the value has, in each sample where it has samples.
  int64_t elements_of(int64_t all) const;
  friend bool operator==(const HeldValue&, const HeldValue&) = default;
};
// A value that ranks share along both dimensions, as far as they do.
void hold(HeldValue& value, Spread experts, Spread places);
class HeldValues {
 public:
  void put(int64_t begin, HeldValue value);
  // The value that holds all of [begin, end), or nullptr; `at`: where it begins.
  const HeldValue* find(int64_t begin, int64_t end, int64_t& at) const;
  const std::map<int64_t, HeldValue>& all() const { return values_; }

 private:
  std::map<int64_t, HeldValue> values_;
};

}  // namespace piper::verify
