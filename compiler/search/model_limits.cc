#include "compiler/search/model_limits.h"

#include <algorithm>
#include <map>

#include "compiler/search/write_strategy.h"

namespace piper::search {
namespace {

// The modules of all layers that hold such a parameter: "model.layers.3.mlp.experts.gate_up" ->
// "model.layers.*.mlp.experts", "mixtures.3.up" -> "mixtures.*"; "" where the model itself holds it.
std::string module_glob(const std::string& parameter) {
  const size_t end = parameter.rfind('.');
  if (end == std::string::npos) return "";
  std::string glob;
  for (size_t from = 0; from < end;) {
    const size_t to = std::min(parameter.find('.', from), end);
    const std::string part = parameter.substr(from, to - from);
    const bool number = part.find_first_not_of("0123456789") == std::string::npos;
    glob += (glob.empty() ? "" : ".") + (number ? "*" : part);
    from = to + 1;
  }
  return glob;
}

// Parameters of three axes and more may be experts'; which are, the compiler says.
std::map<std::string, int64_t> candidates(const plan::Manifest& manifest) {
  std::map<std::string, int64_t> globs;
  for (const plan::TensorInfo& tensor : manifest.tensors)
    if (tensor.shape.size() == 3 && tensor.trained && tensor.shape[0] > 1)
      if (const std::string glob = module_glob(tensor.name); !glob.empty()) globs.emplace(glob, tensor.shape[0]);
  return globs;
}

int64_t least_factor(int64_t number) {
  int64_t factor = 2;
  while (number % factor != 0) ++factor;
  return factor;
}

}  // namespace

Result<ModelLimits> limits_of(Pricer& pricer, const BaseStrategy& base, int32_t most_stages, int64_t samples,
                              diag::Diagnostics* diags) {
  ModelLimits limits;
  const auto stages_compile = [&](int32_t stages) {
    Point point;
    point.pp = stages;
    point.family = "gpipe";
    ++limits.compiled;
    return pricer.probe(strategy_of(point, base, {}), samples);
  };
  const Compiled whole = stages_compile(1);
  if (whole.compilation == nullptr) {
    // The user's own lines come first in the text, so that places are those of the user's file.
    BaseStrategy given = base;
    if (!base.given.empty()) given.text = base.given;
    if (diags != nullptr) pricer.probe(strategy_of(Point(), given, {}), samples, diags, base.given_overrides);
    return diags != nullptr && diags->failed() ? Status::reported("") : Status::failure("", whole.why_not);
  }
  int32_t above = most_stages + 1;
  while (limits.most_stages + 1 < above) {
    // The most that is asked for first: large models have more layers than that.
    const int32_t middle = above == most_stages + 1 ? most_stages : (limits.most_stages + above) / 2;
    (stages_compile(middle).compilation != nullptr ? limits.most_stages : above) = middle;
  }
  for (const auto& [glob, experts] : candidates(whole.bundle().manifest)) {
    Point point;
    point.ep = static_cast<int32_t>(least_factor(experts));
    ++limits.compiled;
    if (pricer.probe(strategy_of(point, base, {glob}), samples * point.ep).compilation == nullptr) continue;
    if (limits.experts != 0 && limits.experts != experts) continue;
    limits.experts = experts;
    limits.expert_globs.push_back(glob);
  }
  return limits;
}

}  // namespace piper::search
