// The kernels of kernels.def as an enum, and what a call says of its kernel: a name in the text of plans, looked up
// once.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "schemas/base/check.h"

namespace piper::plan {

enum class Kernel : uint8_t {
#define PIPER_KERNEL(enumerator, name, signature, can_accumulate, in_place, scratch) enumerator,
#include "schemas/plan/kernels.def"
#undef PIPER_KERNEL
};
std::string_view kernel_name(Kernel kernel);
std::optional<Kernel> kernel_from_name(std::string_view name);

// One of these, or a name that is none, which whoever reads the call refuses.
class CalledKernel {
 public:
  CalledKernel() = default;  // ""
  CalledKernel(Kernel kernel) : kernel_(kernel) {}
  template <class Text>
    requires std::convertible_to<const Text&, std::string_view>
  CalledKernel(const Text& name) : kernel_(kernel_from_name(name)) {
    if (!kernel_) unknown_ = std::string_view(name);
  }

  bool is_known() const { return kernel_.has_value(); }
  Kernel id() const {
    PIPER_CHECK(kernel_.has_value(), "no kernel is called ", unknown_);
    return *kernel_;
  }
  std::string_view name() const { return kernel_ ? kernel_name(*kernel_) : std::string_view(unknown_); }
  std::string text() const { return std::string(name()); }
  friend bool operator==(const CalledKernel&, const CalledKernel&) = default;
  friend bool operator==(const CalledKernel& called, Kernel kernel) { return called.kernel_ == kernel; }

 private:
  std::optional<Kernel> kernel_;
  std::string unknown_;
};

}  // namespace piper::plan
