// What a kernel call says of the model (KernelCall::origin): the operator that it computes or serves, and the line of
// Python that made it, as one text for people. The emitter makes it here; digests and messages take it apart here.
//
//   linear_1 (layers.1) at model.py:27     node, module path, line; what the model's file does not say is left out
#pragma once

#include <string>
#include <string_view>

namespace piper::plan {

inline constexpr std::string_view kAtLine = " at ";

// `module`: path, "" for the outermost one. `node`: "" where the call comes from no node of the model.
inline std::string call_origin(std::string_view node, std::string_view module, std::string_view line) {
  std::string text(node.empty() ? module : node);
  if (text.empty()) text = "model";
  if (!node.empty() && !module.empty()) text.append(" (").append(module).append(")");
  if (!line.empty()) text.append(kAtLine).append(line);
  return text;
}

struct CallOrigin {
  std::string_view model_operator;  // "linear_1 (layers.1)"
  std::string_view line;            // "model.py:27"; "" where none is known
};
inline CallOrigin split_call_origin(std::string_view text) {
  const size_t at = text.rfind(kAtLine);
  // What is in parentheses may have lines of its own, of the strategy.
  const bool line = at != std::string_view::npos && text.find(':', at) != std::string_view::npos &&
                    text.find(')', at) == std::string_view::npos;
  if (!line) return {text, {}};
  return {text.substr(0, at), text.substr(at + kAtLine.size())};
}

}  // namespace piper::plan
