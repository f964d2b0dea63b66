#include "compiler/tune/trial.h"

#include <algorithm>
#include <map>
#include <stdexcept>

#include "compiler/driver/run_pipeline.h"

namespace piper::tune {
namespace {

// A machine's prices for what ranks do themselves; what goes between them takes no time.
class FreeLinks : public timeline::Priced {
 public:
  using Priced::Priced;
  timeline::Task transfer(std::span<const timeline::TransferEnd>) const override { return {}; }
};

}  // namespace

Judge::Judge(driver::CompileOptions options, std::shared_ptr<frontend::ModelFile> model, timeline::Machine machine,
             plan::KernelTimes times, int64_t limit)
    : options_(std::move(options)),
      model_(std::move(model)),
      machine_(std::move(machine)),
      times_(std::move(times)),
      limit_(limit) {}

void Judge::measure(timeline::ProfiledTimes measured) {
  measured.times.merge(times_);
  times_ = std::move(measured.times);
  factors_ = std::move(measured.factors);
}

Result<Trial> Judge::price(const std::string& text, bool reference, diag::Diagnostics& diags) {
  ++compiled_;
  Trial trial;
  trial.text = text;
  trial.compilation = std::make_unique<driver::Compilation>();
  trial.compilation->model = model_;
  driver::CompileOptions options = options_;
  options.reference = reference;
  try {
    PIPER_RETURN_IF_ERROR(driver::compile_in_memory(options, text, *trial.compilation, diags));
  } catch (const driver::PassFailure& bug) {
    throw std::runtime_error(bug.pass() + ": " + bug.what() + "\nwith this strategy:\n" + text);
  }
  const plan::Bundle& bundle = trial.compilation->emitted.bundle;
  PIPER_ASSIGN(trial.timeline, timeline::simulate_on(bundle, prices(bundle)));
  trial.step_us = trial.timeline.step;
  trial.limit_bytes = limit_;
  for (const plan::RankSummary& rank : bundle.manifest.ranks) {
    trial.peak_bytes = std::max(trial.peak_bytes, rank.peak_bytes);
    trial.excess_bytes += std::max<int64_t>(0, rank.peak_bytes - limit_);
  }
  return trial;
}

Result<Trial> Judge::judge(const std::string& text, diag::Diagnostics& diags) { return price(text, false, diags); }

std::optional<Trial> Judge::judge(const std::string& text) {
  diag::Diagnostics unheard;
  auto trial = price(text, false, unheard);
  return trial.ok() ? std::optional<Trial>(std::move(trial).value()) : std::nullopt;
}

Result<bool> Judge::prove(const Trial& trial) {
  diag::Diagnostics unheard;  // what can be said of the strategy was said when it was tried
  PIPER_ASSIGN(Trial again, price(trial.text, options_.reference, unheard));
  driver::prove(again.compilation->emitted.bundle);
  return again.step_us == trial.step_us && again.peak_bytes == trial.peak_bytes;
}

double Judge::without_links_us(const Trial& trial) const {
  const plan::Bundle& bundle = trial.compilation->emitted.bundle;
  const auto timeline = timeline::simulate_on(bundle, FreeLinks(bundle, machine_, 1, times_, factors_));
  return timeline.ok() ? timeline->step : 0;
}

Judge::LeastTime Judge::least_time(const Trial& trial) const {
  const plan::Bundle& bundle = trial.compilation->emitted.bundle;
  const timeline::Priced priced = prices(bundle);
  std::vector<double> work(priced.resources()), moved(priced.resources());
  const auto add = [](const timeline::Task& task, std::vector<double>& to) {
    for (const timeline::Use& use : task.uses) to[static_cast<size_t>(use.resource)] += task.shared * use.part;
  };
  for (size_t p = 0; p < bundle.ranks.size(); ++p)
    for (size_t i = 0; i < bundle.ranks[p].instructions.size(); ++i) add(priced.local(p, i), work);
  std::map<std::pair<int32_t, int32_t>, double> streams;  // by loaded rank
  for (const timeline::Transfer& transfer : trial.timeline.transfers) {
    const timeline::Task task = priced.transfer(trial.timeline.ends_of(transfer));
    add(task, moved);
    for (const timeline::TransferEnd& end : trial.timeline.ends_of(transfer)) {
      const auto& plan = bundle.ranks[static_cast<size_t>(end.plan)];
      streams[{end.plan, plan.instructions[static_cast<size_t>(end.instruction)].stream}] += task.fixed + task.shared;
    }
  }
  for (const auto& [stream, us] : streams) moved.push_back(us);
  return {*std::max_element(work.begin(), work.end()), *std::max_element(moved.begin(), moved.end())};
}

}  // namespace piper::tune
