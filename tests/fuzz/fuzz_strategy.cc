// Any bytes as a strategy file: a program or diagnostics, never a crash. What is accepted can be
// printed; the bytes go through the reader of pipeline tables too, whose round trip must hold.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "compiler/directives/directive_table.h"
#include "compiler/strategy/directive_args.h"
#include "compiler/strategy/families.h"
#include "compiler/strategy/loader.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace piper;
  const std::string text(reinterpret_cast<const char*>(data), size);
  diag::Diagnostics diags;
  auto strategy = strategy::parse_strategy("s.yaml", text, {"model.batch=4"}, directives::all_specs(), diags);
  if (strategy.ok() == diags.failed()) std::abort();
  (void)diags.render_text(true);
  (void)diags.render_json();
  if (strategy.ok()) {
    for (const auto& directive : strategy->directives) (void)strategy::to_string(directive);
  }
  auto table = strategy::parse_csv(text);
  if (table.ok()) {
    auto again = strategy::parse_csv(strategy::print_csv(*table));
    if (!again.ok() || again->rows != table->rows) std::abort();
  }
  return 0;
}
