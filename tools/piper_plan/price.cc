#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>

#include "schemas/base/byte_text.h"
#include "schemas/plan/actions.h"
#include "schemas/plan/bundle_io.h"
#include "schemas/plan/json_writer.h"
#include "schemas/plan/tokens_of_sample.h"
#include "schemas/timeline/assess.h"
#include "schemas/timeline/priced.h"
#include "tools/piper_plan/commands.h"
#include "tools/piper_plan/target.h"
#include "tools/piper_plan/text_table.h"

namespace piper::tools {
namespace {

using namespace timeline;

constexpr double kRange = 0.2;  // of all kernel efficiencies, up and down, where no published runs say better

// All messages, or all collectives of a kind.
struct KindOfTransfers {
  int64_t count = 0;
  double us = 0, alone_us = 0;  // that they take, and would where each had its links alone
};

struct Estimate {
  double step_us = 0, fastest_us = 0, slowest_us = 0;
  bool by_published_runs = false;  // what the range is; else efficiencies
  double tokens_per_s = 0;         // 0: the model has no tokens
  double mfu = 0;                  // 0: the model's flops are not known
  double work_flops = 0;           // of the plans' calls
  DType type = DType::kF32;
  double peak_flops = 0;           // of one rank, in that type
  size_t calls = 0, measured = 0;  // distinct kernel calls, and those of a measured time
  bool routes = false;             // rows of experts are counted
  std::vector<RankTime> ranks;
  std::vector<LineTime> lines;
  std::map<Kind, KindOfTransfers> transfers;  // by the kind of their first end
};

// How many transfers of the whole bundle are played as the one that this is an end of.
int64_t num_transfers(const Kinds& kinds, const TransferEnd& end) {
  const auto kind = static_cast<size_t>(end.plan);
  const plan::RankPlan& plan = kinds.bundle.ranks[kind];
  const int32_t communicator = plan::communicator_of(plan.instructions[static_cast<size_t>(end.instruction)].action);
  if (communicator < 0) return kinds.num_ranks[kind];  // each rank of the kind sends one
  const std::vector<int32_t>& members = plan.communicators[static_cast<size_t>(communicator)].ranks;
  return kinds.num_ranks[kind] / std::count_if(members.begin(), members.end(), [&](int32_t rank) {
           return kinds.kind_of[static_cast<size_t>(rank)] == end.plan;
         });
}

Result<Estimate> estimate(const plan::Bundle& bundle, const Machine& machine, const plan::KernelTimes& measured) {
  Estimate out;
  PIPER_ASSIGN(const Kinds kinds, kinds_on(bundle, machine));
  const Priced prices(kinds, machine, 1, measured);
  const Timeline timeline = simulate_on(kinds, prices);
  out.step_us = timeline.step;
  out.by_published_runs = machine.nine_of_ten && measured.empty();
  if (out.by_published_runs) {
    out.fastest_us = timeline.step * machine.nine_of_ten->first;
    out.slowest_us = timeline.step * machine.nine_of_ten->second;
  } else {
    out.fastest_us = simulate_on(kinds, Priced(kinds, machine, 1 + kRange, measured)).step;
    out.slowest_us = simulate_on(kinds, Priced(kinds, machine, 1 - kRange, measured)).step;
  }
  const std::vector<RankTime> of_kinds = rank_times(kinds.bundle, timeline);
  for (const plan::RankPlan& plan : bundle.ranks)
    out.ranks.push_back(of_kinds[static_cast<size_t>(kinds.kind_of[static_cast<size_t>(plan.rank)])]);
  out.lines = by_line(kinds.bundle, critical_path(kinds.bundle, timeline));
  for (const Transfer& transfer : timeline.transfers) {
    const TransferEnd& first = timeline.ends_of(transfer)[0];
    KindOfTransfers& all =
        out.transfers[timeline.activities[static_cast<size_t>(first.plan)][static_cast<size_t>(first.instruction)]
                          .kind];
    const Task alone = prices.transfer(timeline.ends_of(transfer));
    const int64_t like_it = num_transfers(kinds, first);
    all.count += like_it;
    all.us += static_cast<double>(like_it) * (transfer.end - transfer.begin);
    all.alone_us += static_cast<double>(like_it) * (alone.fixed + alone.shared);
  }
  out.work_flops = prices.flops();
  out.calls = prices.distinct_calls();
  out.measured = prices.measured_calls();
  out.type = prices.product_type();
  const double own = machine.flops[static_cast<size_t>(out.type)];
  out.peak_flops = own > 0 ? own : machine.flops[static_cast<size_t>(DType::kF32)];
  out.routes = !balanced_load(bundle).empty();
  const double seconds = timeline.step / 1e6;
  if (seconds <= 0) return out;
  out.tokens_per_s = static_cast<double>(bundle.manifest.batch * plan::tokens_of_sample(bundle.manifest)) / seconds;
  out.mfu = bundle.manifest.model_flops / (seconds * out.peak_flops * bundle.manifest.world_size);
  return out;
}

int64_t peak_of(const plan::Bundle& bundle, size_t p) {
  const auto rank = static_cast<size_t>(bundle.ranks[p].rank);
  return rank < bundle.manifest.ranks.size() ? bundle.manifest.ranks[rank].peak_bytes : 0;
}
bool fits(int64_t bytes, const Machine& machine) { return static_cast<double>(bytes) <= machine.memory_bytes; }

std::string name_of(Kind kind) { return std::string(plan::kActionNames[static_cast<size_t>(kind)]); }

template <class... Parts>
std::string formatted(const char* format, Parts... parts) {
  char text[256];
  std::snprintf(text, sizeof text, format, parts...);
  return text;
}
std::string milliseconds(double us) { return formatted("%.6g", std::round(us) / 1000); }

std::string assumptions(const Machine& machine, const Estimate& estimate) {
  const char* const collectives = machine.collectives == Collectives::kDirect ? "direct"
                                  : machine.algorithms.empty()                ? "rings"
                                                                              : "the fastest of rings and trees";
  return std::string("collectives: ") + collectives + "; exchanges: pairwise; links shared max-min fair\nrouter: " +
         (estimate.routes ? "balanced, every expert has as many rows" : "none") +
         formatted("\nkernel times: %zu of %zu distinct kernel calls measured, the others by roofline",
                   estimate.measured, estimate.calls) +
         "\nMFU: products of the model, once forward and twice backward, attention without its mask\n";
}

std::string as_text(const plan::Bundle& bundle, const Machine& machine, const Estimate& e, int64_t lines) {
  std::string text =
      formatted("step: %s ms (%s to %s ms %s) on ", milliseconds(e.step_us).c_str(), milliseconds(e.fastest_us).c_str(),
                milliseconds(e.slowest_us).c_str(),
                e.by_published_runs ? "as nine of ten published runs"
                                    : formatted("with kernels %.0f %% more or less efficient", 100 * kRange).c_str()) +
      machine.name + "\n";
  if (e.tokens_per_s > 0) text += formatted("tokens/s: %.6g\n", e.tokens_per_s);
  if (e.mfu > 0)
    text += formatted("MFU: %.1f %% of %.6g TFLOP/s %s a rank\n", 100 * e.mfu, e.peak_flops / 1e12,
                      std::string(dtype_name(e.type)).c_str());
  text += assumptions(machine, e);
  std::vector<std::vector<std::string>> rows;
  const auto percent = [&](double us) { return formatted("%.1f %%", e.step_us > 0 ? 100 * us / e.step_us : 0); };
  for (size_t p = 0; p < e.ranks.size(); ++p) {
    const int64_t bytes = peak_of(bundle, p);
    rows.push_back({std::to_string(bundle.ranks[p].rank), percent(e.ranks[p].busy), percent(e.ranks[p].communication),
                    percent(e.ranks[p].waiting), human_bytes(bytes), fits(bytes, machine) ? "ok" : "oom"});
  }
  text += format_table({"rank", "busy", "exposed communication", "waiting", "peak memory", "fits"}, merge_ranks(rows));
  text += "transfers, each with its links alone and as they are shared:\n";
  rows.clear();
  for (const auto& [kind, all] : e.transfers)
    rows.push_back({name_of(kind), std::to_string(all.count), milliseconds(all.alone_us) + " ms",
                    milliseconds(all.us) + " ms", formatted("%.2f", all.alone_us > 0 ? all.us / all.alone_us : 1)});
  text += format_table({"kind", "count", "alone", "shared", "times as long"}, rows);
  text += "critical path by line of the strategy:\n";
  rows.clear();
  double on_path = 0;
  for (const LineTime& line : e.lines) on_path += line.time;
  for (const LineTime& line : e.lines)
    if (lines == 0 || rows.size() < static_cast<size_t>(lines))
      rows.push_back({line.line, name_of(line.kind), milliseconds(line.time) + " ms", percent(line.time)});
  if (const double host = e.step_us - on_path; host > 1e-9 * e.step_us)
    rows.push_back({"the host issues", "", milliseconds(host) + " ms", percent(host)});
  return text + format_table({"line", "kind", "time", "of the step"}, rows);
}

std::string as_json(const plan::Bundle& bundle, const Machine& machine, const Estimate& e) {
  plan::JsonWriter json;
  json.begin_file();
  json.member("target", machine.name);
  json.member("step_us", e.step_us);
  json.member("step_us_least", e.fastest_us);
  json.member("step_us_most", e.slowest_us);
  json.member("tokens_per_s", e.tokens_per_s);
  json.member("mfu", e.mfu);
  json.member("peak_flops", e.peak_flops);
  json.member("dtype", dtype_name(e.type));
  json.member("work_flops", e.work_flops);
  json.member("distinct_calls", e.calls);
  json.member("measured_calls", e.measured);
  json.member("collectives", "ring");
  json.member("router", e.routes ? "balanced" : "none");
  json.begin_lines("transfers", '[');
  for (const auto& [kind, all] : e.transfers) {
    json.line();
    json.raw("{");
    json.member("kind", name_of(kind));
    json.member("count", all.count);
    json.member("us", all.us);
    json.member("alone_us", all.alone_us);
    json.raw("}");
  }
  json.end_lines(']');
  json.begin_lines("ranks", '[');
  for (size_t p = 0; p < e.ranks.size(); ++p) {
    json.line();
    json.raw("{");
    json.member("rank", bundle.ranks[p].rank);
    json.member("busy_us", e.ranks[p].busy);
    json.member("exposed_communication_us", e.ranks[p].communication);
    json.member("waiting_us", e.ranks[p].waiting);
    json.member("peak_bytes", peak_of(bundle, p));
    json.member("fits", fits(peak_of(bundle, p), machine) ? "ok" : "oom");
    json.raw("}");
  }
  json.end_lines(']');
  json.begin_lines("critical_path", '[');
  for (const LineTime& line : e.lines) {
    json.line();
    json.raw("{");
    json.member("line", line.line);
    json.member("kind", name_of(line.kind));
    json.member("us", line.time);
    json.raw("}");
  }
  json.end_lines(']');
  json.end_file();
  return json.str();
}

}  // namespace

Result<std::string> price(const std::string& directory, const PriceOptions& options) {
  PIPER_ASSIGN(const auto bundle, plan::read_bundle(directory));
  PIPER_ASSIGN(const TargetMachine target, read_target(options.target, options.kernel_times, bundle));
  PIPER_ASSIGN(const Estimate result, estimate(bundle, target.machine, target.kernel_times));
  return options.json ? as_json(bundle, target.machine, result)
                      : as_text(bundle, target.machine, result, options.lines);
}

}  // namespace piper::tools
