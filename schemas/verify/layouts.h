// What is in the bytes of a value: elements of one type, or, in a block of saved values, elements of several types
// one after the other, some under a name by which alone they are read (signature.h). Interned, so that the contents of
// a thousand ranks carry a number. Used by the rules about contents (contents_flow.h).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "schemas/plan/dtype.h"

namespace piper::verify {

// Sorted, disjoint; bytes between the parts are nobody's.
struct LayoutPart {
  int64_t begin = 0, end = 0;
  DType dtype = DType::kF32;
  std::string_view name;  // "": none. Of the kernel table, which lives as long as the program
  bool operator<(const LayoutPart& other) const { return key() < other.key(); }
  bool operator==(const LayoutPart& other) const { return key() == other.key(); }
  std::tuple<int64_t, int64_t, DType, std::string_view> key() const { return {begin, end, dtype, name}; }
};
using Layout = std::vector<LayoutPart>;

using LayoutId = int32_t;
inline constexpr LayoutId kNoLayout = -1;  // nothing is known, or nothing asked for
// Elements of one type, as many as there are.
constexpr LayoutId layout_of(DType dtype) { return static_cast<LayoutId>(dtype); }

class Layouts {
 public:
  // `block`: of several values, of which each reader takes some.
  LayoutId id(const Layout& layout, bool block);

  // Whether what is read fits what is there: "" or what is wrong, with what would be read as what. `origin`: where
  // in what is there the read begins; `wanted` begins at its own start, `bytes` of it count.
  std::string misfit(LayoutId there, int64_t origin, LayoutId wanted, int64_t bytes);
  // The same for elements of one type.
  std::string misfit(LayoutId there, DType wanted) const;

 private:
  static constexpr LayoutId kTypes = 7;
  const Layout& parts(LayoutId id) const { return layouts_[static_cast<size_t>(id - kTypes)]; }
  std::string compare(LayoutId there, int64_t origin, LayoutId wanted, int64_t bytes) const;

  std::vector<Layout> layouts_;  // those of id kTypes and above
  std::map<Layout, LayoutId> ids_;
  std::map<std::pair<LayoutId, LayoutId>, int64_t> fitting_;  // from their starts on: so many bytes are known to fit
};

}  // namespace piper::verify
