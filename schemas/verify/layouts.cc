#include "schemas/verify/layouts.h"

#include <algorithm>
#include <limits>

#include "schemas/base/check.h"

namespace piper::verify {
namespace {

constexpr int64_t kEverything = std::numeric_limits<int64_t>::max();

std::string elements(const LayoutPart& part) {
  return part.name.empty() ? std::string(dtype_name(part.dtype)) : "\"" + std::string(part.name) + "\"";
}

}  // namespace

LayoutId Layouts::id(const Layout& layout, bool block) {
  if (layout.empty()) return kNoLayout;
  // What is of one type from its start on is that wherever it goes.
  if (!block && layout.size() == 1 && layout[0].begin == 0 && layout[0].name.empty()) return layout_of(layout[0].dtype);
  const auto [it, fresh] = ids_.emplace(layout, static_cast<LayoutId>(kTypes + layouts_.size()));
  if (fresh) {
    PIPER_CHECK(layouts_.size() < std::numeric_limits<LayoutId>::max() - kTypes, "more layouts than ids");
    layouts_.push_back(layout);
  }
  return it->second;
}

std::string Layouts::misfit(LayoutId there, int64_t origin, LayoutId wanted, int64_t bytes) {
  if (there == kNoLayout || wanted == kNoLayout || (there == wanted && (there < kTypes || origin == 0))) return "";
  if (origin != 0) return compare(there, origin, wanted, bytes);
  int64_t& known = fitting_[{there, wanted}];
  if (known >= bytes) return "";
  std::string wrong = compare(there, 0, wanted, bytes);
  if (wrong.empty()) known = bytes;
  return wrong;
}

std::string Layouts::misfit(LayoutId there, DType wanted) const {
  if (there == kNoLayout || there == layout_of(wanted)) return "";
  if (there < kTypes) return std::string(dtype_name(static_cast<DType>(there)));
  for (const LayoutPart& part : parts(there))
    if (part.dtype != wanted) return std::string(dtype_name(part.dtype));
  return "";
}

std::string Layouts::compare(LayoutId there, int64_t origin, LayoutId wanted, int64_t bytes) const {
  const auto listed = [this](LayoutId id) {
    return id < kTypes ? Layout{{0, kEverything, static_cast<DType>(id), {}}} : parts(id);
  };
  const Layout stands = listed(there), reads = listed(wanted);
  for (const LayoutPart& read : reads) {
    const int64_t begin = read.begin + origin, end = std::min(read.end, bytes) + origin;
    int64_t at = begin;
    for (const LayoutPart& part : stands) {
      if (part.end <= at || at >= end) continue;
      if (part.begin > at) break;
      if (part.dtype != read.dtype || (!read.name.empty() && read.name != part.name))
        return "reads " + elements(part) + " as " + elements(read) + ", from byte " + std::to_string(at) + " on";
      at = part.end;
    }
    if (at < end) return "reads bytes from " + std::to_string(at) + " on that were left unwritten";
  }
  return "";
}

}  // namespace piper::verify
