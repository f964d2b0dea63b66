#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>

#include "schemas/base/byte_text.h"
#include "schemas/plan/actions.h"
#include "schemas/plan/bundle_io.h"
#include "schemas/checkpoint/state_parts.h"
#include "schemas/plan/device_memory.h"
#include "schemas/plan/json_writer.h"
#include "schemas/plan/names.h"
#include "schemas/plan/read_ahead.h"
#include "schemas/verify/live_at_peak.h"
#include "tools/piper_plan/commands.h"
#include "tools/piper_plan/cut_collectives.h"
#include "tools/piper_plan/number_text.h"
#include "tools/piper_plan/schedule_rows.h"
#include "tools/piper_plan/text_table.h"

namespace piper::tools {
namespace {

using namespace plan;
using namespace timeline;
using Rows = std::vector<std::vector<std::string>>;

constexpr size_t kShownRows = 64;  // of a table, unless all are asked for

// One row: every time unit `width` columns wide, idle time as dots. Runs of two streams at one time
// are one after the other as far as they fit.
std::string draw(const std::vector<Cell>& cells, double unit, size_t width, double step) {
  std::string row(static_cast<size_t>(std::lround(step / unit)) * width, '.');
  for (const auto& cell : cells) {
    const auto from = static_cast<size_t>(std::lround(cell.begin / unit)) * width;
    const auto to = std::max(from + width, static_cast<size_t>(std::lround(cell.end / unit)) * width);
    std::string text = cell.label;
    text.resize(std::max(to - from, text.size() + 1), '-');
    text.back() = ' ';
    if (from + text.size() > row.size()) row.resize(from + text.size(), '.');
    row.replace(from, text.size(), text);
  }
  return row;
}

// A cell in the colour of its pass, time in which nothing runs dimmed; between the bars of each line alone.
std::string coloured(const std::string& rows) {
  const auto sequence = [](const std::string& token) -> const char* {
    if (token[0] == '.') return "\x1b[2m";
    const size_t pass = token.find_last_of("FBIW");
    switch (pass == std::string::npos ? ' ' : token[pass]) {
      case 'F': return "\x1b[34m";
      case 'B': return "\x1b[32m";
      case 'I': return "\x1b[36m";
      case 'W': return "\x1b[33m";
      default: return "";
    }
  };
  std::string text, token;
  bool inside = false;
  const auto flush = [&] {
    if (token.empty()) return;
    const std::string begin = sequence(token);
    text += begin + token + (begin.empty() ? "" : "\x1b[0m");
    token.clear();
  };
  for (const char c : rows) {
    if (c == '|' || c == '\n') {
      flush();
      inside = c == '|' && !inside;
      text += c;
    } else if (!inside || c == ' ') {
      flush();
      text += c;
    } else {
      if (!token.empty() && (token[0] == '.') != (c == '.')) flush();
      token += c;
    }
  }
  flush();
  return text;
}

std::string picture(const Bundle& bundle, const Timeline& timeline, const ShowOptions& options) {
  const auto all = schedule_rows(bundle, timeline);
  const double unit = shortest_cell(all);
  size_t width = 3;
  for (const auto& row : all)
    for (const auto& cell : row.cells) width = std::max(width, cell.label.size() + 1);
  if (unit == 0) return "  no passes of stages\n";
  Rows rows;
  bool cut = false;
  for (const auto& schedule : all) {
    auto row = draw(schedule.cells, unit, width, timeline.step);
    if (options.columns > 0 && row.size() > static_cast<size_t>(options.columns)) {
      row.resize(static_cast<size_t>(options.columns));
      cut = true;
    }
    rows.push_back({std::to_string(schedule.ranks.front()), "|" + row + "|"});
  }
  rows = merge_ranks(rows);
  const size_t total = rows.size();
  if (!options.all && total > kShownRows) rows.resize(kShownRows);
  auto text = format_table(
      {"rank", "F forward, B backward, I and W its halves (input, weight); 3F0: stage 3, microbatch 0"}, rows);
  if (options.colour) text = coloured(text);
  if (rows.size() < total) text += "  (" + std::to_string(total - rows.size()) + " more rows; --all shows them)\n";
  if (cut) text += "  (cut at " + std::to_string(options.columns) + " columns; --columns 0 shows all)\n";
  return text;
}

std::string memory_table(const Bundle& bundle) {
  Rows rows;
  const Target& target = bundle.manifest.target;
  const bool on_gpus = target.device == DeviceKind::kCuda;
  for (const auto& plan : bundle.ranks) {
    std::vector<int64_t> bytes(kNumBufferClasses);
    for (const auto& buffer : plan.buffers) bytes[static_cast<size_t>(buffer.cls)] += buffer.bytes;
    bytes[static_cast<size_t>(BufferClass::kArena)] = plan.arena_bytes;
    std::vector<std::string> row = {std::to_string(plan.rank)};
    for (int cls = 0; cls < kNumBufferClasses; ++cls) {
      row.push_back(human_bytes(bytes[static_cast<size_t>(cls)]));
      if (static_cast<BufferClass>(cls) != BufferClass::kArena) continue;
      const int64_t live = verify::live_at_peak(bundle, plan).bytes;
      row.push_back(human_bytes(live));
      row.push_back(live_ratio(plan.arena_bytes, live));
    }
    const auto& summary = bundle.manifest.ranks[static_cast<size_t>(plan.rank)];
    row.push_back(human_bytes(summary.scratch_bytes));
    if (on_gpus) {
      row.push_back(human_bytes(communicator_bytes(plan, target)));
      row.push_back(human_bytes(kernel_part_bytes(bundle.programs, plan, target)));
    } else {
      row.push_back(human_bytes(read_ahead_bytes(bundle.manifest, plan)));
    }
    row.push_back(human_bytes(summary.peak_bytes));
    row.push_back(human_bytes(checkpoint::snapshot_bytes(bundle.manifest, plan)));
    rows.push_back(row);
  }
  std::vector<std::string> headings = {"rank"};
  for (int cls = 0; cls < kNumBufferClasses; ++cls) {
    headings.emplace_back(class_name(static_cast<BufferClass>(cls)));
    if (static_cast<BufferClass>(cls) == BufferClass::kArena) headings.insert(headings.end(), {"live", "arena/live"});
  }
  headings.push_back("scratch");
  if (on_gpus) {
    headings.emplace_back("communicators");
    headings.emplace_back("kernels");
  } else {
    headings.emplace_back("samples");
  }
  headings.push_back("peak");
  headings.push_back("checkpoint");  // on the host, of runs that save some
  return format_table(headings, merge_ranks(rows));
}

// The ranks that share samples, and what those that send most send each other: by kind, and how much of it.
std::string cut_table(const Bundle& bundle) {
  Rows rows;
  for (size_t c = 0; c < bundle.manifest.cuts.size(); ++c) {
    const plan::Cut& cut = bundle.manifest.cuts[c];
    const auto& tensors = bundle.manifest.tensors;
    const auto parts = std::count_if(tensors.begin(), tensors.end(), [&](const TensorInfo& tensor) {
      return tensor.cut && tensor.cut->cut == static_cast<int32_t>(c);
    });
    std::map<std::string, std::pair<int64_t, int64_t>> most;  // by kind
    int64_t most_bytes = -1;
    for (const auto& plan : bundle.ranks) {
      const bool member = std::any_of(cut.groups.begin(), cut.groups.end(), [&](const auto& group) {
        return std::find(group.begin(), group.end(), plan.rank) != group.end();
      });
      if (!member) continue;
      std::map<std::string, std::pair<int64_t, int64_t>> of_rank;
      int64_t bytes = 0;
      for (const CutCollectives& of : cut_collectives(bundle, plan)) {
        auto& [times, sum] = of_rank[of.kind];
        times += of.times;
        sum += of.bytes;
        bytes += of.bytes;
      }
      if (bytes <= most_bytes) continue;
      most_bytes = bytes;
      most = std::move(of_rank);
    }
    std::string sends;
    for (const auto& [kind, of] : most)
      sends += (sends.empty() ? "" : ", ") + std::to_string(of.first) + " " + kind + " of " + human_bytes(of.second);
    rows.push_back({cut.name, groups_text(cut), std::to_string(parts) + " of " + std::to_string(tensors.size()),
                    sends.empty() ? "nothing" : sends});
  }
  return format_table({"cut", "ranks that share samples", "tensors in parts", "a rank takes part in"}, rows);
}

struct Traffic {
  int64_t ranks = 0, instructions = 0, runs = 0, messages = 0, collectives = 0, bytes = 0;
};

// Bytes of a collective's whole data on this rank; -1 for other instructions. Of counted rows: at most.
int64_t collective_bytes(const RankPlan& plan, const Action& action) {
  const auto members = [&plan](int32_t c) {
    return static_cast<int64_t>(plan.communicators[static_cast<size_t>(c)].ranks.size());
  };
  return std::visit(Cases{[](const AllReduce& a) { return a.bytes(); },
                          [&](const IsOneOf<ReduceScatter, AllGather, AllToAll> auto& a) {
                            return a.bytes() * members(a.communicator);
                          },
                          [](const IsOneOf<Run, Update, Send, Recv, Record, Wait> auto&) { return int64_t{-1}; }},
                    action);
}

std::string stream_table(const Bundle& bundle, bool all) {
  std::map<std::string, Traffic> streams;
  for (const auto& plan : bundle.ranks) {
    for (const auto& stream : plan.streams) ++streams[stream.name].ranks;
    for (const auto& instruction : plan.instructions) {
      auto& traffic = streams[plan.streams[static_cast<size_t>(instruction.stream)].name];
      ++traffic.instructions;
      if (std::holds_alternative<Run>(instruction.action)) ++traffic.runs;
      if (const auto* send = std::get_if<Send>(&instruction.action)) {
        ++traffic.messages;
        traffic.bytes += send->bytes();
      }
      if (const int64_t bytes = collective_bytes(plan, instruction.action); bytes >= 0) {
        ++traffic.collectives;
        traffic.bytes += bytes;
      }
    }
  }
  Rows rows;
  for (const auto& [name, traffic] : streams)
    rows.push_back({name, std::to_string(traffic.ranks), std::to_string(traffic.instructions),
                    std::to_string(traffic.runs), std::to_string(traffic.messages), std::to_string(traffic.collectives),
                    human_bytes(traffic.bytes)});
  const size_t total = rows.size();
  if (!all && total > kShownRows) rows.resize(kShownRows);
  auto text = format_table({"stream", "ranks", "instructions", "runs", "sends", "collectives", "bytes"}, rows);
  if (rows.size() < total) text += "  (" + std::to_string(total - rows.size()) + " more; --all shows them)\n";
  return text;
}

std::string rank_table(const Bundle& bundle, const Timeline& timeline) {
  Rows rows;
  for (size_t p = 0; p < bundle.ranks.size(); ++p) {
    const auto& plan = bundle.ranks[p];
    const auto idle = std::lround(100 * idle_share(timeline, p));
    rows.push_back({std::to_string(plan.rank), std::to_string(plan.instructions.size()),
                    std::to_string(plan.streams.size()), std::to_string(plan.buffers.size()),
                    human_bytes(bundle.manifest.ranks[static_cast<size_t>(plan.rank)].sent_bytes),
                    std::to_string(idle) + " %"});
  }
  return format_table({"rank", "instructions", "streams", "buffers", "sent", "idle"}, merge_ranks(rows));
}

// The data that the strategy names, and of a mix how much of each.
std::string data_line(const RunDefaults& run) {
  double whole = 0;
  for (const auto& data : run.data) whole += data.weight;
  std::string text;
  for (const auto& data : run.data) {
    char share[32] = "";
    if (data.weight > 0) std::snprintf(share, sizeof share, "%.4g %% ", 100 * data.weight / whole);
    text += (text.empty() ? "data: " : ", ") + (share + data.path);
  }
  return text.empty() ? "" : text + "\n";
}

std::string evaluation_line(const Evaluation& eval, const std::string& directory) {
  return "evaluates " + (eval.batches > 0 ? std::to_string(eval.batches) : std::string("all")) + " batches" +
         (eval.data.empty() ? "" : " of " + eval.data) + " after " +
         (eval.every > 0 ? "every " + std::to_string(eval.every) + " steps" : std::string("the last step")) +
         ": piper-plan show " + directory + "/eval\n";
}

std::string flops_line(double flops) {
  char text[64];
  std::snprintf(text, sizeof text, "%.4g floating-point operations of the model a step\n", flops);
  return text;
}

std::string as_json(const Bundle& bundle, const Timeline& timeline) {
  const Manifest& manifest = bundle.manifest;
  JsonWriter json;
  const auto text = [&](const char* key, const std::string& value) {
    json.key(key);
    json.string(value);
  };
  const auto number = [&](const char* key, int64_t value) {
    json.key(key);
    json.number(value);
  };
  json.raw("{");
  text("model", manifest.model.name);
  text("strategy", manifest.strategy.name);
  text("device", manifest.target.device == DeviceKind::kCuda ? "cuda" : "cpu");
  text("optimizer", manifest.evaluates ? "" : manifest.optimizer.kind);
  number("batch", manifest.batch);
  number("programs", static_cast<int64_t>(bundle.programs.size()));
  json.key("model_flops");
  json.real(manifest.model_flops);
  json.key("step_units");
  json.real(timeline.step);
  json.key("ranks");
  json.raw("[");
  for (size_t p = 0; p < bundle.ranks.size(); ++p) {
    const RankPlan& plan = bundle.ranks[p];
    const RankSummary& summary = manifest.ranks[static_cast<size_t>(plan.rank)];
    json.raw(p > 0 ? ",{" : "{");
    number("rank", plan.rank);
    number("instructions", static_cast<int64_t>(plan.instructions.size()));
    number("streams", static_cast<int64_t>(plan.streams.size()));
    number("arena_bytes", plan.arena_bytes);
    number("peak_bytes", summary.peak_bytes);
    number("sent_bytes", summary.sent_bytes);
    number("checkpoint_bytes", checkpoint::snapshot_bytes(bundle.manifest, plan));
    json.key("idle");
    json.real(idle_share(timeline, p));
    json.raw("}");
  }
  json.raw("]}\n");
  return json.str();
}

}  // namespace

Result<std::string> show(const std::string& directory, const ShowOptions& options) {
  PIPER_ASSIGN(const auto bundle, read_bundle(directory));
  PIPER_ASSIGN(const auto timeline, simulate(bundle, options.costs));
  if (options.json) return as_json(bundle, timeline);
  const auto& manifest = bundle.manifest;
  std::string text = manifest.model.name + " with " + manifest.strategy.name + ": " +
                     std::to_string(manifest.world_size) + " ranks, batch " + std::to_string(manifest.batch) + ", " +
                     std::to_string(bundle.programs.size()) + " programs, " +
                     (manifest.evaluates ? "an evaluation" : manifest.optimizer.kind) + "\n";
  if (manifest.model_flops > 0) text += flops_line(manifest.model_flops);
  text += data_line(manifest.run);
  if (manifest.eval) text += evaluation_line(*manifest.eval, directory);
  text += "\nSchedule: step " + number_text(timeline.step) + " units, bubble " + per_cent(bubble(timeline)) +
          " (only passes of stages take time: a forward " + number_text(options.costs.forward) + ", a backward " +
          number_text(options.costs.backward) + " units)\n" + picture(bundle, timeline, options);
  text += "\nRanks\n" + rank_table(bundle, timeline);
  if (!manifest.cuts.empty()) text += "\nCuts\n" + cut_table(bundle);
  text += "\nMemory\n" + memory_table(bundle);
  text += "\nStreams\n" + stream_table(bundle, options.all);
  return text;
}

}  // namespace piper::tools
