#include "runtime/checkpoint/missing_weights.h"

#include <algorithm>

#include "schemas/base/glob.h"

namespace piper::checkpoint {
namespace {

template <class Holds>
bool any_name(const plan::TensorInfo& tensor, const Holds& holds) {
  return holds(tensor.name) || std::any_of(tensor.aliases.begin(), tensor.aliases.end(), holds);
}

}  // namespace

Result<std::set<std::string>> missing_weights(const plan::Manifest& manifest,
                                              const std::vector<const plan::WeightFiles*>& files,
                                              const std::vector<std::string>& globs) {
  const auto there = [&](const std::string& name) {
    return std::any_of(files.begin(), files.end(), [&](const auto* file) { return file->find(name) != nullptr; });
  };
  std::set<std::string> missing;
  for (const std::string& glob : globs) {
    bool covers = false;
    for (const plan::TensorInfo& tensor : manifest.tensors) {
      if (!any_name(tensor, [&](const std::string& name) { return glob_covers(glob, name); })) continue;
      covers = true;
      if (!any_name(tensor, there)) missing.insert(tensor.name);
    }
    if (!covers) return Status::failure("R0505", "--missing " + glob + " covers no tensor of the model");
  }
  return missing;
}

Status check_adapters(const plan::Manifest& manifest, const plan::WeightFiles& adapters, const std::string& path) {
  for (const std::string& name : adapters.names()) {
    const auto known = [&](const std::string& other) { return other == name; };
    if (std::none_of(manifest.tensors.begin(), manifest.tensors.end(),
                     [&](const plan::TensorInfo& tensor) { return any_name(tensor, known); }))
      return Status::failure("R0505", path + " holds '" + name + "', which is no tensor of the model");
  }
  return {};
}

}  // namespace piper::checkpoint
