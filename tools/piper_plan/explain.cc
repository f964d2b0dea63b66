#include <algorithm>
#include <map>

#include "schemas/base/byte_text.h"
#include "schemas/plan/bundle_io.h"
#include "schemas/plan/json_writer.h"
#include "schemas/plan/names.h"
#include "schemas/plan/provenance_text.h"
#include "schemas/verify/accesses.h"
#include "schemas/verify/describe.h"
#include "schemas/verify/live_at_peak.h"
#include "tools/piper_plan/commands.h"
#include "tools/piper_plan/cut_collectives.h"
#include "tools/piper_plan/number_text.h"
#include "tools/piper_plan/text_table.h"

namespace piper::tools {
namespace {

using namespace plan;

constexpr size_t kShown = 40;
constexpr size_t kShownAlive = 12;  // buffers

bool overlap(const BufferRange& a, int64_t a_bytes, const BufferRange& b, int64_t b_bytes) {
  return a.buffer == b.buffer && a.offset < b.offset + b_bytes && b.offset < a.offset + a_bytes;
}

class Explainer {
 public:
  Explainer(const Bundle& bundle, const RankPlan& plan)
      : bundle_(bundle), plan_(plan), accesses_(plan.instructions.size()) {
    for (size_t i = 0; i < accesses_.size(); ++i)
      verify::collect_accesses(bundle, plan, plan.instructions[i].action, accesses_[i]);
  }

  std::string instruction(size_t index) const {
    const auto& instruction = plan_.instructions[index];
    std::string text = describe(index) + "\n";
    if (instruction.provenance >= 0) {
      const auto& entry = bundle_.provenance[static_cast<size_t>(instruction.provenance)];
      text += "  from " + entry.key + ": " + whole_text(entry) + "\n";
    }
    if (const auto* run = std::get_if<Run>(&instruction.action))
      text += modules(bundle_.programs[static_cast<size_t>(run->program)]);
    if (const auto* wait = std::get_if<Wait>(&instruction.action)) text += recorder(wait->event);
    for (const auto& access : accesses_[index]) {
      text += std::string("  ") + (access.reads ? (access.writes ? "reads and writes " : "reads ") : "writes ") +
              place(access) + "\n";
      if (access.reads) text += neighbour(index, access, -1, "    written by ");
      if (access.writes) text += neighbour(index, access, 1, "    next: ");
    }
    return text;
  }

  std::string buffer(size_t index) const {
    const auto& buffer = plan_.buffers[index];
    std::string text = "rank " + std::to_string(plan_.rank) + " buffer \"" + buffer.name +
                       "\": " + std::string(class_name(buffer.cls)) + ", " + std::to_string(buffer.bytes) +
                       " bytes at " + std::to_string(buffer.offset) + ", " + std::string(dtype_name(buffer.dtype)) +
                       "\n";
    size_t shown = 0, total = 0;
    for (size_t i = 0; i < accesses_.size(); ++i)
      for (const auto& access : accesses_[i]) {
        if (access.where.buffer != static_cast<int32_t>(index) || ++total > kShown) continue;
        ++shown;
        text += std::string("  ") +
                (access.reads ? (access.writes ? "read and written by " : "read by ") : "written by ") + describe(i) +
                "\n";
      }
    if (total > shown) text += "  (" + std::to_string(total - shown) + " more accesses)\n";
    if (buffer.cls == BufferClass::kArena) text += sharers(index);
    return text;
  }

  // How many instructions each origin made, and what the collectives of cuts are for.
  std::string summary() const {
    std::vector<std::vector<std::string>> rows;
    for (const Origin& origin : origins())
      rows.push_back({origin.line.empty() ? "-" : origin.line, std::to_string(origin.instructions), origin.text});
    return "rank " + std::to_string(plan_.rank) + "\n" + format_table({"from", "instructions", ""}, rows) +
           collectives() + arena();
  }

  // The same as {"rank","arena_bytes","live_bytes","from":[{"line","text","instructions"}],
  // "collectives":[{"collective","stream","line","why","times","bytes"}]}.
  void summary_as_json(JsonWriter& json) const {
    json.raw("{");
    for (const auto& [key, value] : {std::pair{"rank", int64_t{plan_.rank}},
                                     {"arena_bytes", plan_.arena_bytes},
                                     {"live_bytes", verify::live_at_peak(bundle_, plan_).bytes}}) {
      json.key(key);
      json.number(value);
    }
    json.key("from");
    json.raw("[");
    bool first = true;
    for (const Origin& origin : origins()) {
      json.raw(first ? "{" : ",{");
      first = false;
      json.member("line", origin.line);
      json.member("text", origin.text);
      json.member("instructions", origin.instructions);
      json.raw("}");
    }
    json.raw("]");
    json.key("collectives");
    json.raw("[");
    first = true;
    for (const CutCollectives& of : cut_collectives(bundle_, plan_)) {
      json.raw(first ? "{" : ",{");
      first = false;
      json.member("collective", of.kind);
      json.member("stream", of.stream);
      json.member("line", of.line);
      json.member("why", of.why);
      json.member("times", of.times);
      json.member("bytes", of.bytes);
      json.raw("}");
    }
    json.raw("]}");
  }

 private:
  struct Origin {
    std::string line, text;  // "" of what has none
    int64_t instructions = 0;
  };
  // By entry of the provenance; those of one line that say a reason each are one.
  std::vector<Origin> origins() const {
    std::map<int32_t, int64_t> counts;
    for (const auto& instruction : plan_.instructions) ++counts[instruction.provenance];
    std::vector<Origin> all;
    std::map<std::string, size_t> with_reasons;  // by line
    for (const auto& [index, count] : counts) {
      if (index < 0) {
        all.push_back({"", "", count});
        continue;
      }
      const ProvenanceEntry& entry = bundle_.provenance[static_cast<size_t>(index)];
      if (entry.why.empty()) {
        all.push_back({entry.key, entry.text, count});
        continue;
      }
      const auto [at, first] = with_reasons.emplace(strategy_line(entry), all.size());
      if (first) all.push_back({at->first, entry.text, 0});
      all[at->second].instructions += count;
    }
    return all;
  }

  std::string collectives() const {
    std::vector<std::vector<std::string>> rows;
    for (const CutCollectives& of : cut_collectives(bundle_, plan_))
      rows.push_back({of.line, std::to_string(of.times), of.kind, human_bytes(of.bytes), of.stream, of.why});
    if (rows.empty()) return "";
    return "  collectives of cuts\n" + format_table({"asked by", "times", "", "bytes", "stream", "why"}, rows);
  }

  // What is alive at the fullest moment, and what the arena holds beside it.
  std::string arena() const {
    const auto peak = verify::live_at_peak(bundle_, plan_);
    if (peak.buffers.empty()) return "  nothing in the arena\n";
    std::string text = "  arena: " + std::to_string(plan_.arena_bytes) + " bytes, " +
                       live_ratio(plan_.arena_bytes, peak.bytes) + " of the " + std::to_string(peak.bytes) +
                       " that are alive at " + describe(peak.instruction) + "\n";
    int64_t told = 0;
    const size_t shown = std::min(peak.buffers.size(), kShownAlive);
    for (size_t i = 0; i < shown; ++i) {
      const auto& buffer = plan_.buffers[static_cast<size_t>(peak.buffers[i])];
      told += buffer.bytes;
      text += "    \"" + buffer.name + "\": " + std::to_string(buffer.bytes) + " bytes\n";
    }
    if (shown < peak.buffers.size())
      text += "    " + std::to_string(peak.buffers.size() - shown) +
              " smaller ones: " + std::to_string(peak.bytes - told) + " bytes\n";
    return text + "    kept for messages, holes and alignment: " + std::to_string(plan_.arena_bytes - peak.bytes) +
           " bytes\n";
  }

  std::string describe(size_t index) const { return verify::describe_instruction(bundle_, plan_, index); }
  std::string place(const verify::Access& access) const {
    return "\"" + plan_.buffers[static_cast<size_t>(access.where.buffer)].name + "\" " +
           std::to_string(access.where.offset) + " to " + std::to_string(access.where.offset + access.bytes);
  }
  // The nearest write before (or access after) `index` that touches the same bytes.
  std::string neighbour(size_t index, const verify::Access& access, int direction, const char* intro) const {
    for (auto i = static_cast<int64_t>(index) + direction; i >= 0 && i < static_cast<int64_t>(accesses_.size());
         i += direction)
      for (const auto& other : accesses_[static_cast<size_t>(i)])
        if ((direction > 0 || other.writes) && overlap(access.where, access.bytes, other.where, other.bytes))
          return intro + describe(static_cast<size_t>(i)) + "\n";
    return "";
  }
  std::string recorder(int32_t event) const {
    for (size_t i = 0; i < plan_.instructions.size(); ++i)
      if (const auto* record = std::get_if<Record>(&plan_.instructions[i].action); record && record->event == event)
        return "  recorded by " + describe(i) + "\n";
    return "";
  }
  static std::string modules(const Program& program) {
    std::string text = "  program " + program.name + ": " + std::to_string(program.calls.size()) + " calls\n";
    std::string last = "-";
    size_t shown = 0;
    for (const auto& call : program.calls) {
      if (call.origin == last || call.origin.empty()) continue;
      last = call.origin;
      if (++shown > kShown) return text + "    ...\n";
      text += "    " + call.origin + "\n";
    }
    return text;
  }
  std::string sharers(size_t index) const {
    const auto& mine = plan_.buffers[index];
    std::string text;
    for (const auto& buffer : plan_.buffers)
      if (&buffer != &mine && buffer.cls == BufferClass::kArena && buffer.offset < mine.offset + mine.bytes &&
          mine.offset < buffer.offset + buffer.bytes)
        text += "  shares bytes, at another time, with \"" + buffer.name + "\"\n";
    return text;
  }

  const Bundle& bundle_;
  const RankPlan& plan_;
  std::vector<std::vector<verify::Access>> accesses_;
};

// Names that hold `wanted`, for a message.
std::string similar_buffers(const RankPlan& plan, const std::string& wanted) {
  std::string text;
  size_t count = 0;
  for (const auto& buffer : plan.buffers)
    if (buffer.name.find(wanted) != std::string::npos && ++count <= 8)
      text += (text.empty() ? "; these hold it: \"" : ", \"") + buffer.name + "\"";
  return text;
}

}  // namespace

Result<std::string> explain(const std::string& directory, const ExplainOptions& options) {
  std::vector<int32_t> ranks;
  if (options.rank >= 0) ranks = {options.rank};
  PIPER_ASSIGN(const auto bundle, read_bundle(directory, ranks));
  std::string text, similar;
  if (options.json) {
    JsonWriter json;
    json.raw("[");
    for (size_t p = 0; p < bundle.ranks.size(); ++p) {
      json.raw(p > 0 ? "," : "");
      Explainer(bundle, bundle.ranks[p]).summary_as_json(json);
    }
    json.raw("]\n");
    return json.str();
  }
  for (const auto& plan : bundle.ranks) {
    const Explainer explainer(bundle, plan);
    if (options.instruction >= 0) {
      if (static_cast<size_t>(options.instruction) < plan.instructions.size())
        text += explainer.instruction(static_cast<size_t>(options.instruction));
    } else if (!options.buffer.empty()) {
      const auto found = std::find_if(plan.buffers.begin(), plan.buffers.end(),
                                      [&](const auto& buffer) { return buffer.name == options.buffer; });
      if (found != plan.buffers.end()) text += explainer.buffer(static_cast<size_t>(found - plan.buffers.begin()));
      else if (similar.empty()) similar = similar_buffers(plan, options.buffer);
    } else {
      text += explainer.summary();
    }
  }
  if (!text.empty()) return text;
  if (!options.buffer.empty()) return Status::failure("", "no buffer is called \"" + options.buffer + "\"" + similar);
  return Status::failure("", "there is no instruction " + std::to_string(options.instruction));
}

}  // namespace piper::tools
