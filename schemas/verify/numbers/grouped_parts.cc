#include "schemas/verify/numbers/grouped_parts.h"

#include <algorithm>

#include "schemas/plan/attrs.h"
#include "schemas/plan/kernels.h"

namespace piper::verify {
namespace {

class GroupedParts {
 public:
  explicit GroupedParts(SpreadCall& call) : call_(call) {}

  std::optional<std::string> find() {
    const size_t operands = features();
    if (operands == 0) return std::nullopt;
    if (!call_.of_cut()) return "experts in what " + call_.whole.call.kernel.text() + " makes";
    for (size_t i = 0; i < call_.where.size(); ++i) {
      if (!call_.where[i].spread.is_spread()) continue;
      if (i >= operands) return call_.wrong("an order of rows of which each place has its own");
      if (call_.where[i].surplus > 0)
        return "parts of unequal size in what " + call_.whole.call.kernel.text() + " makes";
    }
    if (std::string why = part(); !why.empty()) return why;
    return shares(operands);
  }

 private:
  // How many operands, the first ones, have features; 0: it is no such kernel.
  size_t features() const {
    switch (call_.whole.call.kernel.id()) {
      case Kernel::kTakeRows:
      case Kernel::kGroupedExpand:
      case Kernel::kGroupedSum: return 1;
      case Kernel::kGroupedMatmul:
      case Kernel::kGroupedMatmulWeight: return 2;
      default: return 0;
    }
  }

  std::string part() {
    const int64_t a = call_.part_of(0), b = call_.part_of(1);
    const Kernel kernel = call_.whole.call.kernel.id();
    for (size_t i = 0; i < 2; ++i)
      if (call_.part_of(i) > 0) call_.whole.segments = call_.where[i].segments;
    if (a == 0 && b == 0) return "";
    if (kernel == Kernel::kGroupedMatmulWeight) {  // [rows, A], [rows, B] -> [experts, A, B]
      if (a == 1 && b == 0) return at_end(2);
      return a == 0 && b == 1 ? at_end(1) : refused();
    }
    if (kernel == Kernel::kGroupedMatmul) {  // [rows, K], [experts, K, M] -> [rows, M]
      const auto* const transposed = plan::find_attr<bool>(call_.whole.call, "transposed");
      const int64_t summed = transposed != nullptr && *transposed ? 1 : 2;
      if (a == 1 && b == summed) {
        if (call_.where[0].segments != call_.where[1].segments) return "parts of different segments of an axis";
        call_.whole.spread.share = true;
        return "";
      }
      return a == 0 && b == 3 - summed ? at_end(1) : refused();
    }
    return a < static_cast<int64_t>(call_.whole.operands[0].axes.size()) ? at_end(a) : refused();
  }
  std::string at_end(int64_t from_end) {
    call_.whole.part = static_cast<int32_t>(static_cast<int64_t>(call_.rank()) - from_end);
    return call_.whole.part < 0 ? refused() : "";
  }
  std::string refused() const { return "parts of a cut in what " + call_.whole.call.kernel.text() + " makes"; }

  // Linear in each operand that has features.
  std::string shares(size_t operands) {
    size_t shares = 0;
    for (size_t i = 0; i < operands; ++i) shares += call_.present(i) && call_.where[i].spread.share;
    if (shares == 0) return "";
    if (shares > 1 || call_.whole.part >= 0 || call_.whole.spread.share)
      return call_.wrong("no linear function of a place's share of a sum");
    call_.whole.spread.share = true;
    return "";
  }

  SpreadCall& call_;
};

}  // namespace

std::optional<std::string> part_of_rows(SpreadCall& call) { return GroupedParts(call).find(); }

}  // namespace piper::verify
