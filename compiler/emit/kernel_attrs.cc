#include "compiler/emit/kernel_attrs.h"

#include <type_traits>
#include <variant>

namespace piper::emit {
namespace {

struct AttrCollector {
  std::vector<plan::Attr>& out;
  void operator()(const char* name, int64_t v) { out.push_back({name, v}); }
  void operator()(const char* name, double v) { out.push_back({name, v}); }
  void operator()(const char* name, bool v) { out.push_back({name, v}); }
  void operator()(const char* name, const std::string& v) { out.push_back({name, v}); }
  void operator()(const char* name, const std::vector<int64_t>& v) { out.push_back({name, v}); }
  void operator()(const char* name, DType v) { out.push_back({name, std::string(dtype_name(v))}); }
  void operator()(const char*, ir::ValueId) {}
};

}  // namespace

std::vector<plan::Attr> kernel_attrs(const ir::Attrs& attrs) {
  std::vector<plan::Attr> list;
  std::visit([&](const auto& a) { std::decay_t<decltype(a)>::fields(a, AttrCollector{list}); }, attrs);
  return list;
}

}  // namespace piper::emit
