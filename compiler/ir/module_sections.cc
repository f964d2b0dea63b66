// Texts that several sections of a module have.
#include "compiler/ir/module_sections.h"

namespace piper::ir {

std::string span_text(diag::Span span) {
  return "@" + std::to_string(span.file) + ":" + std::to_string(span.line) + ":" + std::to_string(span.column) + "+" +
         std::to_string(span.length);
}

std::string_view phase_text(Phase phase) { return phase_name(phase, false); }

std::string ranges_text(const std::vector<uint32_t>& indices) {
  std::string all = "[";
  for (size_t i = 0; i < indices.size();) {
    size_t end = i + 1;
    while (end < indices.size() && indices[end] == indices[end - 1] + 1) ++end;
    all += (i > 0 ? ", " : "") + std::to_string(indices[i]);
    if (end - i > 1) all += ".." + std::to_string(indices[end - 1]);
    i = end;
  }
  return all + "]";
}

std::string ranges_text(const std::vector<int32_t>& indices) {
  return ranges_text(std::vector<uint32_t>(indices.begin(), indices.end()));
}

std::string rank_lists_text(const std::vector<std::vector<int32_t>>& lists) {
  return list_text(lists, [](const std::vector<int32_t>& ranks) { return ranges_text(ranks); });
}

Result<Phase> ModuleReader::phase() {
  for (size_t p = 0; p < kNumPhases; ++p)
    if (is_word(phase_text(static_cast<Phase>(p)))) {
      PIPER_RETURN_IF_ERROR(advance());
      return static_cast<Phase>(p);
    }
  return fail("expected a phase: C, N, F, B or BW");
}

Result<std::vector<std::vector<int32_t>>> ModuleReader::rank_lists() {
  return list_of<std::vector<int32_t>>([&] { return ranges<int32_t>("a rank"); });
}

Result<size_t> ModuleReader::one_of(Words words) {
  std::string expected;
  for (size_t i = 0; i < words.size(); ++i) {
    if (is_word(words[i])) {
      PIPER_RETURN_IF_ERROR(advance());
      return i;
    }
    expected += (i == 0 ? "expected " : i + 1 < words.size() ? ", " : " or ") + std::string(words[i]);
  }
  return fail(expected);
}

Result<ValueId> ModuleReader::value(const Module& module) {
  PIPER_ASSIGN(const bool none, takes("none"));
  if (none) return ValueId();
  if (module.variants.empty()) return fail("a value of the model, whose variant must come before it");
  if (values_.empty()) values_ = values_by_name(module.graph());
  return value_of(values_);
}

std::map<std::string, ValueId> values_by_name(const Graph& graph) {
  std::map<std::string, ValueId> values;
  for (size_t v = 0; v < graph.num_values(); ++v) values.emplace(graph.value(ValueId(v)).name, ValueId(v));
  return values;
}

Result<ValueId> ModuleReader::value_of(const std::map<std::string, ValueId>& values) {
  if (token().kind != TokenKind::kValue) return fail("expected a value");
  const auto found = values.find(token().text);
  if (found == values.end()) return fail("the model has no value '" + token().text + "'");
  PIPER_RETURN_IF_ERROR(advance());
  return found->second;
}

}  // namespace piper::ir
