// Where every node comes from: an interned list of entries, each naming a place in the user's
// files and the entries it was derived from. The chain is printed in diagnostics and carried into
// plans. Files appear by base name only; absolute paths of exporting machines never enter plans.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "compiler/ir/ids.h"

namespace piper::ir {

struct ModelOrigin {   // a node of the model file
  std::string node;    // the file's own node name
  std::string scope;   // module path
  std::string source;  // "modeling_gpt2.py:680" where the file says so: base name and line, never a path
  bool operator==(const ModelOrigin&) const = default;
};
struct DirectiveOrigin {  // a line of the strategy
  std::string directive;  // "replicate"
  std::string place;      // "s.yaml:14:3"
  bool operator==(const DirectiveOrigin&) const = default;
};
struct DerivedOrigin {  // made by a pass
  std::string pass;     // "autodiff"; where there is a `why`, what is made
  std::vector<ProvId> parents;
  std::string why = {};  // said to the user in place of the pass
  bool operator==(const DerivedOrigin&) const = default;
};
struct UnknownOrigin {
  std::string why;
  bool operator==(const UnknownOrigin&) const = default;
};
using ProvEntry = std::variant<ModelOrigin, DirectiveOrigin, DerivedOrigin, UnknownOrigin>;

class Provenance {
 public:
  ProvId model(ModelOrigin origin) { return intern(std::move(origin)); }
  ProvId directive(DirectiveOrigin origin) { return intern(std::move(origin)); }
  ProvId derived(std::string pass, std::vector<ProvId> parents, std::string why = {}) {
    return intern(DerivedOrigin{std::move(pass), std::move(parents), std::move(why)});
  }
  ProvId unknown(std::string why) { return intern(UnknownOrigin{std::move(why)}); }
  const ProvEntry& entry(ProvId id) const { return entries_[id.index]; }
  size_t size() const { return entries_.size(); }
  // One line: "layer_norm 'ln' (module h.0.ln1), backward by autodiff". With its reason where it has one.
  std::string describe(ProvId id) const;
  // The same without the reason.
  std::string describe_place(ProvId id) const;

 private:
  ProvId intern(ProvEntry entry);
  std::vector<ProvEntry> entries_;
  std::unordered_multimap<size_t, uint32_t> index_;  // by hash of the entry
};

}  // namespace piper::ir
