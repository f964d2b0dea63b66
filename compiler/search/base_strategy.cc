#include "compiler/search/base_strategy.h"

#include "compiler/strategy/overridden_text.h"
#include "compiler/strategy/value.h"

namespace piper::search {

using strategy::Value;

Result<BaseStrategy> read_base(const std::string& name, const std::string& text,
                               const std::vector<std::string>& overrides, diag::Diagnostics& diags) {
  BaseStrategy base;
  base.text = text;
  if (base.text.empty() || base.text.back() != '\n') base.text += '\n';
  const uint32_t file = diags.add_file(name, base.text);
  PIPER_ASSIGN(const Value given, strategy::read_yaml(file, base.text, 0, diags));
  Value root = given;
  for (const std::string& override : overrides) PIPER_RETURN_IF_ERROR(strategy::apply_override(root, override, diags));
  if (root.kind != Value::Kind::kMap)
    return diags.error("P0270", root.span).help("write keys: `model: {batch: 64}`, `optimizer: {adamw: {lr: 3.0e-4}}`")
           << "a search starts from a mapping of keys, not from " << strategy::describe(root);
  for (size_t i = 0; i < root.keys.size(); ++i)
    for (const char* spread : {"directives", "schedule", "annotate", "mesh", "node"}) {
      if (root.keys[i].text != spread) continue;
      auto error = diags.error("P0270", root.keys[i].span);
      error << "the strategy that a search starts from has '" << spread << "', which the search itself chooses";
      error.help("remove it; --fix pp=4 fixes one choice");
      return error;
    }
  const Value* model = root.find("model");
  const Value* batch = model != nullptr ? model->find("batch") : nullptr;
  if (batch == nullptr || batch->kind != Value::Kind::kInt || batch->integer < 1)
    return diags.error("P0228", model != nullptr ? model->span : root.span)
               .help("add model: {batch: N}, the samples of one step on all ranks")
           << "a search needs 'model.batch'";
  base.batch = batch->integer;
  const bool takes_lines = strategy::takes_lines(base.text, given);
  std::string written = strategy::rewritten(base.text, given, root);
  if (!strategy::takes_lines(written, root)) written = strategy::lines_of(root);
  if (takes_lines && written != base.text) {
    base.given = base.text;
    base.given_overrides = overrides;
  }
  base.text = std::move(written);
  return base;
}

}  // namespace piper::search
