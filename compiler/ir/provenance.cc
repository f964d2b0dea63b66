// Interning and description of provenance entries.
#include "compiler/ir/provenance.h"

namespace piper::ir {
namespace {

size_t mixed(size_t a, size_t b) { return a * 0x9e3779b97f4a7c15u + b; }

struct Hash {
  std::hash<std::string> text;
  size_t operator()(const ModelOrigin& o) const { return mixed(mixed(text(o.node), text(o.scope)), text(o.source)); }
  size_t operator()(const DirectiveOrigin& o) const { return mixed(text(o.directive), text(o.place)); }
  size_t operator()(const DerivedOrigin& o) const {
    size_t hash = mixed(text(o.pass), text(o.why));
    for (const ProvId parent : o.parents) hash = mixed(hash, parent.index);
    return hash;
  }
  size_t operator()(const UnknownOrigin& o) const { return text(o.why); }
};

}  // namespace

ProvId Provenance::intern(ProvEntry entry) {
  const size_t hash = std::visit(Hash(), entry);
  for (auto [known, end] = index_.equal_range(hash); known != end; ++known)
    if (entries_[known->second] == entry) return ProvId(known->second);
  index_.emplace(hash, static_cast<uint32_t>(entries_.size()));
  entries_.push_back(std::move(entry));
  return ProvId(entries_.size() - 1);
}

std::string Provenance::describe(ProvId id) const {
  std::string text = describe_place(id);
  if (!id.valid() || id.index >= entries_.size()) return text;
  const auto* derived = std::get_if<DerivedOrigin>(&entries_[id.index]);
  return derived == nullptr || derived->why.empty() ? text : text + ": " + derived->why;
}

std::string Provenance::describe_place(ProvId id) const {
  if (!id.valid() || id.index >= entries_.size()) return "no origin";
  const ProvEntry& entry = entries_[id.index];
  if (const auto* model = std::get_if<ModelOrigin>(&entry)) {
    std::string text = "node '" + model->node + "'";
    if (!model->scope.empty()) text += " (module " + model->scope + ")";
    if (!model->source.empty()) text += " at " + model->source;
    return text;
  }
  if (const auto* directive = std::get_if<DirectiveOrigin>(&entry))
    return directive->directive + " at " + directive->place;
  if (const auto* derived = std::get_if<DerivedOrigin>(&entry)) {
    std::string text;
    for (ProvId parent : derived->parents) {
      if (!text.empty()) text += " and ";
      text += describe(parent);
    }
    if (!derived->why.empty()) return text;
    if (!text.empty()) text += ", ";
    return text + "made by " + derived->pass;
  }
  return "unknown origin (" + std::get<UnknownOrigin>(entry).why + ")";
}

}  // namespace piper::ir
