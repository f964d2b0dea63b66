#include "schemas/verify/numbers/vocabulary.h"

#include <algorithm>

#include "schemas/plan/attrs.h"
#include "schemas/verify/numbers/leaves.h"

namespace piper::verify {
namespace {

constexpr const char* kOtherNumber = "a place of another number of rows or classes";

// Axis 0 of a table, 1 of logits.
bool has_part(const SpreadView& operand, int32_t axis) {
  return operand.part == axis && operand.segments == 1 && !operand.spread.share && !operand.spread.shares;
}
bool is_same(const SpreadView& operand) { return operand.part < 0 && !operand.spread.share && !operand.spread.shares; }

class WithoutPlace {
 public:
  WithoutPlace(WholeCall& whole, std::vector<SpreadView>& where, const NumberTable& table)
      : whole_(whole), where_(where), table_(table) {}

  std::string make() {
    switch (whole_.call.kernel.id()) {
      case Kernel::kEmbedding: return look_up();
      case Kernel::kEmbeddingBackward: return look_up_gradient();
      case Kernel::kRowLse: return statistics();
      case Kernel::kCrossEntropySum: return loss();
      case Kernel::kCrossEntropyBackward: return loss_gradient();
      default: return "a place in what " + whole_.call.kernel.text() + " makes";
    }
  }

 private:
  std::string look_up() {
    if (std::string why = take_place(2, whole_.call.inputs[0].shape[0]); !why.empty()) return why;
    if (!has_part(where_[0], 0) || !is_same(where_[1])) return "a look-up of other rows than those of the place";
    if (rows_ != where_[0].surplus) return kOtherNumber;
    whole_.spread.share = true;
    return "";
  }
  std::string look_up_gradient() {
    if (std::string why = take_place(2, whole_.call.outputs[0].shape[0]); !why.empty()) return why;
    if (!is_same(where_[0]) || !is_same(where_[1])) return "a gradient of other rows than those of the place";
    whole_.part = 0;
    past_the_last_zero();
    return "";
  }
  std::string statistics() {
    if (std::string why = take_place(2, whole_.call.inputs[0].shape[1]); !why.empty()) return why;
    if (!has_part(where_[0], 1) || !is_same(where_[1])) return "statistics of other classes than those of the place";
    const auto* const places = plan::find_attr<int64_t>(whole_.call, "places");
    if (places == nullptr || *places != whole_.spread.devices) return "statistics of another number of places";
    if (rows_ != where_[0].surplus) return kOtherNumber;
    whole_.spread.share = true;
    return "";
  }
  std::string loss() {
    if (std::string why = take_place(4, whole_.call.inputs[0].shape[1]); !why.empty()) return why;
    if (!has_part(where_[0], 1) || !is_same(where_[1]) || !is_same(where_[3]) ||
        !is_whole(whole_.operands[3], table_) || whole_.operands[2].number >= 0)
      return "a loss of other classes than those of the place";
    if (rows_ != where_[0].surplus) return kOtherNumber;
    whole_.statistics = whole_.operands[3].number;
    pop();
    pop();               // weights of classes, of which it has none
    whole_.spread = {};  // what all places have alike
    return "";
  }
  std::string loss_gradient() {
    if (std::string why = take_place(5, whole_.call.inputs[1].shape[1]); !why.empty()) return why;
    if (!has_part(where_[1], 1) || !is_same(where_[0]) || !is_same(where_[2]) || !is_same(where_[3]))
      return "a gradient of other classes than those of the place";
    if (rows_ != where_[1].surplus) return kOtherNumber;
    whole_.part = 1;
    past_the_last_zero();
    return "";
  }

  // The last operand, `extent`: of the axis that is cut, as the place has it.
  std::string take_place(size_t operand, int64_t extent) {
    if (whole_.operands.size() != operand + 1 || whole_.spread.cut < 0) return "a place without a part of a cut";
    const View& place = whole_.operands[operand];
    if (place.number < 0 || place.number != known_place_of_rank(table_) || !is_whole(place, table_))
      return "a place that is not the rank's own";
    const auto* const all = plan::find_attr<int64_t>(whole_.call, "whole");
    const int64_t devices = whole_.spread.devices;
    if (all == nullptr || (*all + devices - 1) / devices != extent) return kOtherNumber;
    rows_ = extent * devices - *all;
    std::erase_if(whole_.call.attrs, [](const plan::Attr& attr) { return attr.name == "whole"; });
    pop();
    return "";
  }
  // What kernels write there, too.
  void past_the_last_zero() {
    whole_.surplus = rows_;
    whole_.spread.zeros = rows_ > 0;
  }
  void pop() {
    whole_.operands.pop_back();
    whole_.call.inputs.pop_back();
    where_.pop_back();
  }

  WholeCall& whole_;
  std::vector<SpreadView>& where_;
  const NumberTable& table_;
  int64_t rows_ = 0;  // or classes, that the places have together past the last of the whole
};

}  // namespace

std::optional<std::string> without_place(WholeCall& whole, std::vector<SpreadView>& where, const NumberTable& table) {
  if (plan::find_attr<int64_t>(whole.call, "whole") == nullptr) return std::nullopt;
  return WithoutPlace(whole, where, table).make();
}

}  // namespace piper::verify
