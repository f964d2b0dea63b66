// Views of values that are spread over ranks (Spread), as views of what all ranks have together. Of experts.h.
#pragma once

#include <cstdint>
#include <string>

#include "schemas/verify/numbers/held.h"
#include "schemas/verify/numbers/number.h"
#include "schemas/verify/numbers/views.h"

namespace piper::verify {

// Which axes of a view name what ranks share; -1: none. Counted before any is left out.
struct SpreadView {
  Spread spread;
  int32_t part = -1;     // the experts, all of them in the view
  int32_t sources = -1;  // the ranks whose samples they are, where it is not the samples' own axis
  int32_t shares = -1;
  int32_t rows = -1;  // rows in the order of their experts (ordered_rows.h)
  // Along `part`: equal segments of the axis, of each of which a rank has its part.
  int64_t segments = 1;
  std::vector<int64_t> extents = {};  // of segments of unequal size, all of each
  int64_t surplus = 0;                // places along `part` that no element of the value has, of the parts of all ranks
};

// A view of rows that have several segments, `scale` times these pieces, as the view of rows that have nothing but the
// one that it names; -1: it names parts of several.
int32_t take_segment(View& view, const std::vector<int64_t>& pieces, int64_t scale);

// Which of the axes that may be the experts', and of those that may be the places', is taken for it, the likelier ones
// first.
struct AxisChoice {
  size_t experts = 0, places = 0;
};

// The view of elements of a value that is spread. `size`: elements of a sample that the rank has, or of all where it is
// not over samples; `samples`: of each rank. `places`: of HeldValue::places. "" or why it is none.
std::string view_of_spread(StridedElements elements, const HeldValue& value, Over over, int64_t size, int64_t samples,
                           View& view, SpreadView& where, SpreadView& places, const AxisChoice& choice = {});

// The same of rows in an order (ordered_rows.h) of each of which a place has a part. `elements`: as the rank has them,
// `view`: as it has the rows that one device has.
std::string view_of_places(const StridedElements& elements, const HeldValue& value, View& view, SpreadView& places,
                           size_t choice);

}  // namespace piper::verify
