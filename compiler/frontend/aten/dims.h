// Symbolic extents of a model file: "B", "24*B", "((15*B)//2)", "Max(1, s72 - 1)".
// Used by both import routes once the symbols are bound. Division and remainder round down, as in
// Python. It knows no tensors.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "schemas/base/status.h"

namespace piper::frontend::aten {

// Rounds down; b is not 0. The one quotient beyond int64_t becomes the largest.
int64_t floor_div(int64_t a, int64_t b);

class Dims {
 public:
  void bind(const std::string& symbol, int64_t extent) { values_[symbol] = extent; }
  bool is_bound(const std::string& symbol) const { return values_.count(symbol) != 0; }
  // Error P0302: a symbol without an extent (named), or a text that is no expression.
  Result<int64_t> evaluate(std::string_view expression) const;

 private:
  std::map<std::string, int64_t> values_;
};

}  // namespace piper::frontend::aten
