#include "schemas/verify/numbers/masks.h"

#include "schemas/plan/attrs.h"
#include "schemas/plan/kernels.h"
#include "schemas/verify/numbers/leaves.h"

namespace piper::verify {

std::optional<std::string> mask_of_part(SpreadCall& call) {
  WholeCall& whole = call.whole;
  constexpr size_t kX = 0, kPlace = 3;
  if (whole.call.kernel != Kernel::kDropout || !call.of_cut() || call.where[kX].spread.share) return std::nullopt;
  const bool of_place = whole.operands.size() == kPlace + 1 && call.present(kPlace);
  const SpreadView& x = call.where[kX];
  if (x.part < 0) return of_place ? std::optional(call.wrong("the mask of a part for what is whole")) : std::nullopt;
  if (!of_place) return call.wrong("a mask of the first elements for those of a part");
  const View& place = whole.operands[kPlace];
  if (place.number != known_place_of_rank(call.table) || !is_whole(place, call.table))
    return call.wrong("a place that is not the rank's own");
  if (!x.extents.empty() || x.surplus > 0) return "parts of unequal size in what dropout makes";
  auto *const outer = plan::find_attr<int64_t>(whole.call, "outer"),
              *const batch = plan::find_attr<int64_t>(whole.call, "batch"),
              *const inner = plan::find_attr<int64_t>(whole.call, "inner"),
              *const places = plan::find_attr<int64_t>(whole.call, "places"),
              *const row = plan::find_attr<int64_t>(whole.call, "row");
  if (outer == nullptr || batch == nullptr || inner == nullptr || places == nullptr || row == nullptr || *batch < 1)
    return call.wrong("a mask of a part that is not given");
  const std::vector<int64_t>& shape = whole.call.inputs[kX].shape;
  // Elements of a part in a row, of one sample where samples are among them; of samples in one axis with what is cut
  // each has its segments.
  int64_t here = 1;
  bool before_samples = false;
  for (size_t d = static_cast<size_t>(x.part); d < shape.size(); ++d) {
    here *= shape[d];
    before_samples = before_samples || (d > static_cast<size_t>(x.part) && whole.operands[kX].axes[d].samples);
  }
  const bool among_samples = whole.operands[kX].axes[static_cast<size_t>(x.part)].samples;
  if (before_samples || among_samples) here /= call.own_samples;
  if (here % x.segments != 0 || here / x.segments != *row || *places != whole.spread.devices)
    return call.wrong_as_read("a mask of other elements than those of the part");
  (before_samples ? *outer : *inner) *= *places;
  std::erase_if(whole.call.attrs, [](const plan::Attr& attr) { return attr.name == "places" || attr.name == "row"; });
  whole.operands.pop_back();
  whole.call.inputs.pop_back();
  call.where.pop_back();
  whole.part = x.part;
  whole.segments = x.segments;
  return "";
}

}  // namespace piper::verify
