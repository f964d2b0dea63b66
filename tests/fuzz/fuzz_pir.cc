// The reader of .pir texts on any bytes: a Module or a graph, or an error with a code; what is read prints to a text
// that reads back the same, and the rules of modules can be asked of it.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "compiler/ir/graph.h"
#include "compiler/ir/module_text.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace piper;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto module = ir::parse_module(text, "f.pir");
  if (!module.ok()) {
    if (module.error().code.empty()) std::abort();
    return 0;
  }
  const std::string printed = ir::print(*module);
  const auto again = ir::parse_module(printed, "f.pir");
  if (!again.ok() || ir::print(*again) != printed) std::abort();
  (void)ir::verify(*module).ok();
  return 0;
}
