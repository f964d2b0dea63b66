// What a tensor of a model is besides a parameter: a persistent buffer that no step changes. It is loaded, saved and
// kept in checkpoints like a frozen parameter, and never drawn by --init. Running statistics are not meant: steps
// change them.
#pragma once

#include <cstdint>
#include <string_view>

namespace piper::plan {

enum class ModelBuffer : uint8_t {
  kNone,   // a parameter, or a running statistic
  kRead,   // a step reads its value
  kFixed,  // the plan was made from its value (a mask, positions): another one cannot be loaded
};

constexpr std::string_view model_buffer_name(ModelBuffer buffer) {
  switch (buffer) {
    case ModelBuffer::kNone: return "none";
    case ModelBuffer::kRead: return "read";
    case ModelBuffer::kFixed: return "fixed";
  }
  return "";
}

}  // namespace piper::plan
