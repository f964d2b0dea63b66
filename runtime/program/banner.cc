#include "runtime/program/banner.h"

#include <algorithm>
#include <cstdio>
#include <set>

namespace piper::program {
namespace {

std::string grouped(int64_t number) {
  std::string text = std::to_string(number);
  for (auto at = static_cast<int64_t>(text.size()) - 3; at > 0; at -= 3) text.insert(static_cast<size_t>(at), ",");
  return text;
}

std::string counted(int64_t number, const std::string& what) {
  return grouped(number) + " " + what + (number == 1 ? "" : "s");
}

std::string list(const std::set<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

// Products are computed in the type of a parameter's working copy where it has one.
std::string precision(const plan::Bundle& bundle) {
  std::set<std::string> working, masters;
  for (const plan::RankPlan& rank : bundle.ranks)
    for (const plan::Placement& placement : rank.placements) {
      if (placement.kind == plan::PlacementKind::kWorking) working.insert(std::string(dtype_name(placement.dtype)));
      if (placement.kind == plan::PlacementKind::kMaster) masters.insert(std::string(dtype_name(placement.dtype)));
    }
  if (!working.empty()) return list(working) + (masters.empty() ? "" : " with masters in " + list(masters));
  std::set<std::string> types;
  for (const plan::TensorInfo& tensor : bundle.manifest.tensors)
    if (tensor.buffer == plan::ModelBuffer::kNone) types.insert(std::string(dtype_name(tensor.dtype)));
  return list(types);
}

std::string model_line(const Inputs& inputs) {
  const plan::Manifest& manifest = inputs.bundle.manifest;
  int64_t parameters = 0, trained = 0;
  for (const plan::TensorInfo& tensor : manifest.tensors) {
    if (tensor.buffer != plan::ModelBuffer::kNone) continue;
    int64_t elements = 1;
    for (const int64_t extent : tensor.shape) elements *= extent;
    parameters += elements;
    if (tensor.trained) trained += elements;
  }
  std::string line = manifest.model.name + ": " + counted(parameters, "parameter");
  if (trained < parameters) line += ", " + grouped(trained) + " of them trained";
  return line + ", " + precision(inputs.bundle) + "; " + inputs.ranks_text;
}

void add_weights(const Flags& flags, const Inputs& inputs, std::vector<std::string>& lines) {
  if (inputs.start.from) {
    std::vector<std::string> ignored;
    if (!flags.load.empty()) ignored.emplace_back("--load");
    if (!flags.adapters.empty()) ignored.emplace_back("--adapters");
    if (!flags.init.empty()) ignored.emplace_back("--init");
    if (ignored.empty()) return;
    lines.push_back("weights: " + ignored[0] + (ignored.size() > 1 ? " and " + ignored[1] + " are" : " is") +
                    " ignored: the run continues from a checkpoint");
    return;
  }
  if (flags.load.empty()) return;
  const checkpoint::LoadReport report = inputs.weights->load_report();
  std::string line =
      "weights: " + flags.load + ": " + counted(static_cast<int64_t>(report.used.size()), "tensor") + " used";
  if (!report.unused.empty())
    line += "; not used, the model does not know " + std::string(report.unused.size() == 1 ? "it" : "them") + ": " +
            checkpoint::some_of(report.unused);
  if (!report.missing.empty()) line += "; missing there: " + checkpoint::some_of(report.missing);
  lines.push_back(line);
}

std::string sampled(const data::DataSource& data) {
  std::string text = counted(data.num_samples(), "sample");
  if (data.tokens_per_sample() > 0) text += " of " + counted(data.tokens_per_sample(), "token");
  if (data.sampling() == data::Sampling::kSequential) return text + ", in order";
  return text + (data.numbers_samples() ? ", shuffled" : ", from random starts");
}

std::string steps_line(const Flags& flags, const Inputs& inputs, const exec::Session& session) {
  const int64_t steps = session.options.steps, batch = inputs.bundle.manifest.batch;
  if (flags.eval_only) return "evaluates once, without training";
  std::string line = counted(steps, "step") + " of " + counted(batch, "sample");
  if (inputs.data->num_samples() > 0) {
    char times[40];
    std::snprintf(
        times, sizeof times, "%.3g",
        static_cast<double>(steps) * static_cast<double>(batch) / static_cast<double>(inputs.data->num_samples()));
    line += ": " + std::string(times) + (inputs.data->numbers_samples() ? " epochs of the data" : " times the data");
  }
  return line;
}

}  // namespace

std::vector<std::string> banner(const Flags& flags, const Inputs& inputs, const exec::Session& session) {
  std::vector<std::string> lines = {model_line(inputs)};
  add_weights(flags, inputs, lines);
  for (const std::string& source : inputs.data->description()) lines.push_back("data: " + source);
  lines.back() += "; " + sampled(*inputs.data);
  if (inputs.eval_data && !flags.eval_only)
    for (const std::string& source : inputs.eval_data->description())
      lines.push_back("evaluation: " + source + "; " + sampled(*inputs.eval_data));
  lines.push_back(steps_line(flags, inputs, session));
  return lines;
}

}  // namespace piper::program
