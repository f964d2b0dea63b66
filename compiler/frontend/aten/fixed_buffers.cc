#include "compiler/frontend/aten/fixed_buffers.h"

#include <algorithm>
#include <map>
#include <vector>

#include "compiler/frontend/aten/table.h"

namespace piper::frontend::aten {
namespace {

enum class Use : uint8_t {
  kNone,
  kMask,  // its value could be read in a step
  kRead,  // of its value, by an operator on data
  kForm,  // an index, or a number that must be known
};

bool is_one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

Use use_as(const Parameter& parameter) {
  if (is_one_of(parameter.name, {"index", "indices", "offsets", "repeats"})) return Use::kForm;
  if (is_one_of(parameter.name, {"condition", "mask", "attn_mask"})) return Use::kMask;
  if (parameter.type == "Operand" && parameter.name == "exponent") return Use::kForm;
  const bool is_tensor = parameter.type.rfind("Tensor", 0) == 0 || is_one_of(parameter.type, {"Operand", "Any"});
  return is_tensor ? Use::kRead : Use::kForm;
}

class Finder {
 public:
  Finder(const Program& program, const std::set<std::string>& buffers, const std::set<std::string>& constants)
      : program_(program), known_(constants) {
    for (const std::string& buffer : buffers) {
      known_.insert(buffer);
      made_of_[buffer] = {buffer};
    }
  }

  // A value that is made of known ones alone is known: what its readers do is done to the buffers that it is made of.
  std::set<std::string> run() {
    for (const ProgramCall& c : program_.calls) {
      std::vector<std::string> refs;  // the program may not be indexed yet
      for (const Item& item : c.call.args) collect_refs(item, refs);
      for (const auto& [key, item] : c.call.kwargs) collect_refs(item, refs);
      const bool known = std::all_of(refs.begin(), refs.end(), [&](const std::string& ref) { return is_known(ref); });
      if (c.call.target.rfind("aten.sym_size", 0) == 0) known_.insert(c.call.name);
      else if (known) pass_on(c, refs);
      else look_at(c);
    }
    std::set<std::string> fixed;
    for (const auto& [buffer, use] : uses_)
      if (use == Use::kMask || use == Use::kForm) fixed.insert(buffer);
    return fixed;
  }

 private:
  bool is_known(const std::string& name) const { return known_.count(name) != 0 || program_.sizes.count(name) != 0; }

  void pass_on(const ProgramCall& c, const std::vector<std::string>& refs) {
    std::vector<std::string> results = {c.call.name};
    for (const auto& [name, index] : c.results) results.push_back(name);
    for (const std::string& result : results) {
      known_.insert(result);
      for (const std::string& ref : refs)
        if (const auto found = made_of_.find(ref); found != made_of_.end())
          made_of_[result].insert(found->second.begin(), found->second.end());
    }
  }

  void look_at(const ProgramCall& c) {
    const TableRow* const row = find_row(without_underscore(c.call.target));
    const std::vector<Parameter> none;
    const std::vector<Parameter>& parameters = row == nullptr ? none : row->schema.parameters;
    for (size_t i = 0; i < c.call.args.size(); ++i)
      note(c.call.args[i], i < parameters.size() ? use_as(parameters[i]) : Use::kRead);
    for (const auto& [key, item] : c.call.kwargs) {
      const auto named = std::find_if(parameters.begin(), parameters.end(),
                                      [&name = key](const Parameter& p) { return p.name == name; });
      note(item, named == parameters.end() ? Use::kRead : use_as(*named));
    }
  }

  // "aten.masked_fill_.Scalar" -> "aten.masked_fill.Scalar"
  static std::string without_underscore(std::string target) {
    const size_t at = target.rfind("_.");
    return at == std::string::npos ? target : target.erase(at, 1);
  }

  void note(const Item& item, Use use) {
    std::vector<std::string> refs;
    collect_refs(item, refs);
    for (const std::string& ref : refs)
      if (const auto found = made_of_.find(ref); found != made_of_.end())
        for (const std::string& buffer : found->second) uses_[buffer] = std::max(uses_[buffer], use);
  }

  const Program& program_;
  std::set<std::string> known_;
  std::map<std::string, std::set<std::string>> made_of_;  // value -> buffers
  std::map<std::string, Use> uses_;
};

}  // namespace

std::set<std::string> fixed_buffers(const Program& program, const std::set<std::string>& buffers,
                                    const std::set<std::string>& constants) {
  if (buffers.empty()) return {};
  return Finder(program, buffers, constants).run();
}

}  // namespace piper::frontend::aten
