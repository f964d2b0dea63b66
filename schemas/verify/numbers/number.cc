#include "schemas/verify/numbers/number.h"

#include <algorithm>

#include "schemas/plan/dtype.h"

namespace piper::verify {
namespace {

void append_key(std::string& key, int64_t value) { key.append(reinterpret_cast<const char*>(&value), sizeof value); }

}  // namespace

void append_key(std::string& key, const View& view) {
  append_key(key, int64_t{view.number});
  append_key(key, static_cast<int64_t>(view.dtype));
  append_key(key, view.offset);
  append_key(key, static_cast<int64_t>(view.axes.size()));
  for (const ViewAxis& axis : view.axes) {
    append_key(key, axis.extent);
    append_key(key, axis.stride);
    key += axis.samples ? 's' : '-';
  }
}

bool is_whole(const View& view, const NumberTable& table) {
  const Number& number = table[view.number];
  int64_t next = 1;
  bool samples = number.over != Over::kEach;
  for (size_t axis = view.axes.size(); axis-- > 0;) {
    const ViewAxis& a = view.axes[axis];
    if (samples && number.over == Over::kEach && a.extent != 1) return false;  // an axis before the samples
    if (a.extent != 1 && a.stride != next) return false;
    next *= a.extent;
    samples = samples || a.samples;
  }
  return samples && view.offset == 0 && next * dtype_bytes(view.dtype) == number.bytes;
}

int32_t NumberTable::intern(std::string key, Number number) {
  const auto [it, fresh] = ids_.emplace(std::move(key), size());
  if (fresh) numbers_.push_back(std::move(number));
  return it->second;
}

int32_t NumberTable::leaf(const std::string& key, Over over, int64_t bytes) {
  Number number;
  number.over = over;
  number.bytes = bytes;
  number.late = !key.starts_with("input ") && key != "scalar sample_offset" && key != "scalar place";
  return intern("leaf " + key, std::move(number));
}

int32_t NumberTable::find_leaf(const std::string& key) const {
  const auto found = ids_.find("leaf " + key);
  return found == ids_.end() ? -1 : found->second;
}

int32_t NumberTable::total(const std::string& key, int64_t bytes, int32_t sum, bool marked) {
  const int32_t id = leaf(key, Over::kNothing, bytes);
  Number& number = numbers_[static_cast<size_t>(id)];
  number.total = marked;
  number.sum = sum;
  number.late = sum < 0 || (*this)[sum].late;
  return id;
}

int32_t NumberTable::constant(const std::string& key, int64_t bytes, std::optional<float> value) {
  Number number;
  number.bytes = bytes;
  number.constant = true;
  const int32_t id = intern("leaf " + key, std::move(number));
  const auto learnt = learnt_.find(key);
  if (!value && learnt != learnt_.end() && learnt->second.first == bytes) value = learnt->second.second;
  if (value) numbers_[static_cast<size_t>(id)].value = value;
  return id;
}

int32_t NumberTable::unknown(const std::string& why) {
  Number number;
  number.over = Over::kUnknown;
  number.why = why;
  return intern("unknown " + why, std::move(number));
}

int32_t NumberTable::unfit(const std::string& why, int32_t program, int32_t call) {
  Number number;
  number.over = Over::kUnknown;
  number.why = why;
  number.unfit = true;
  number.program = program;
  number.call = call;
  return intern("unfit " + std::to_string(program) + ":" + std::to_string(call) + " " + why, std::move(number));
}

int32_t NumberTable::result(Made made) {
  std::string key;
  if (made.addends.empty()) {
    key = {static_cast<char>(made.by.how), static_cast<char>(made.by.kernel)};
    key += made.what + '\n';
    for (const View& view : made.operands) append_key(key, view);
  } else {
    key = "sum of\n";  // its elements in the order of theirs, so its shape says nothing more
    for (const int32_t addend : made.addends) append_key(key, int64_t{addend});
  }
  Number number;
  number.addends = std::move(made.addends);
  number.over = made.over;
  number.bytes = made.bytes;
  number.divided = made.divided;
  number.times = made.times;
  number.program = made.program;
  number.call = made.call;
  number.constant = !made.operands.empty() &&
                    std::all_of(made.operands.begin(), made.operands.end(),
                                [&](const View& view) { return view.number < 0 || (*this)[view.number].constant; });
  const auto is_late = [&](int32_t of) { return of >= 0 && (*this)[of].late; };
  number.late =
      std::any_of(made.operands.begin(), made.operands.end(), [&](const View& view) { return is_late(view.number); }) ||
      std::any_of(number.addends.begin(), number.addends.end(), is_late);
  number.operands = std::move(made.operands);
  number.by = made.by;
  const int32_t copied = number.by == Kernel::kCopy && !number.operands.empty() ? number.operands[0].number : -1;
  const int32_t fresh = size(), id = intern(std::move(key), std::move(number));
  if (id == fresh && copied >= 0) copies_[copied].push_back(id);
  return id;
}

const std::vector<int32_t>& NumberTable::copies_of(int32_t number) const {
  static const std::vector<int32_t> kNone;
  const auto found = copies_.find(number);
  return found == copies_.end() ? kNone : found->second;
}

}  // namespace piper::verify
