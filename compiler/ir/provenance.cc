// Interning and description of provenance entries.
#include "compiler/ir/provenance.h"

#include "schemas/base/check.h"

namespace piper::ir {
namespace {
// Separates the parts of an interning key; it appears in no name.
constexpr char kSep = '\x1f';
}  // namespace

ProvId Provenance::intern(std::string key, ProvEntry entry) {
  auto [place, added] = index_.try_emplace(std::move(key), static_cast<uint32_t>(entries_.size()));
  if (added) entries_.push_back(std::move(entry));
  return ProvId(place->second);
}

ProvId Provenance::model(ModelOrigin origin) {
  std::string key = "m" + origin.node + kSep + origin.scope + kSep + origin.source;
  ProvEntry entry;
  entry.kind = ProvEntry::Kind::kModel;
  entry.model = std::move(origin);
  return intern(std::move(key), std::move(entry));
}

ProvId Provenance::directive(DirectiveOrigin origin) {
  std::string key = "d" + origin.directive + kSep + origin.place;
  ProvEntry entry;
  entry.kind = ProvEntry::Kind::kDirective;
  entry.directive = std::move(origin);
  return intern(std::move(key), std::move(entry));
}

ProvId Provenance::derived(std::string pass, std::vector<ProvId> parents) {
  std::string key = "p" + pass;
  for (ProvId parent : parents) key += kSep + std::to_string(parent.index);
  ProvEntry entry;
  entry.kind = ProvEntry::Kind::kDerived;
  entry.derived = {std::move(pass), std::move(parents)};
  return intern(std::move(key), std::move(entry));
}

ProvId Provenance::unknown(std::string why) {
  std::string key = "u" + why;
  ProvEntry entry;
  entry.kind = ProvEntry::Kind::kUnknown;
  entry.unknown.why = std::move(why);
  return intern(std::move(key), std::move(entry));
}

std::string Provenance::describe(ProvId id) const {
  if (!id.valid() || id.index >= entries_.size()) return "no origin";
  const ProvEntry& e = entries_[id.index];
  switch (e.kind) {
    case ProvEntry::Kind::kModel: {
      std::string text = "node '" + e.model.node + "'";
      if (!e.model.scope.empty()) text += " (module " + e.model.scope + ")";
      if (!e.model.source.empty()) text += " at " + e.model.source;
      return text;
    }
    case ProvEntry::Kind::kDirective:
      return e.directive.directive + " at " + e.directive.place;
    case ProvEntry::Kind::kDerived: {
      std::string text;
      for (ProvId parent : e.derived.parents) {
        if (!text.empty()) text += " and ";
        text += describe(parent);
      }
      if (!text.empty()) text += ", ";
      return text + "made by " + e.derived.pass;
    }
    case ProvEntry::Kind::kUnknown: return "unknown origin (" + e.unknown.why + ")";
  }
  return "";
}

}  // namespace piper::ir
