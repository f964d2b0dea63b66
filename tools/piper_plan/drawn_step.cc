#include "tools/piper_plan/drawn_step.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <unordered_map>

#include "schemas/plan/json_writer.h"
#include "schemas/plan/names.h"
#include "schemas/timeline/stages.h"
#include "schemas/verify/accesses.h"
#include "tools/piper_plan/cut_collectives.h"
#include "tools/piper_plan/number_text.h"
#include "tools/piper_plan/subject.h"
#include "tools/piper_plan/text_table.h"

namespace piper::tools {
namespace {

using namespace plan;
using timeline::Activity;
using timeline::Measured;
using timeline::Timeline;

constexpr size_t kShownOperators = 40;  // of a program
constexpr size_t kShownPeers = 8;       // of ranks that share a row

class Strings {
 public:
  int32_t add(const std::string& text) {
    const auto [found, added] = index_.emplace(text, static_cast<int32_t>(all_.size()));
    if (added) all_.push_back(text);
    return found->second;
  }
  const std::vector<std::string>& all() const { return all_; }

 private:
  std::unordered_map<std::string, int32_t> index_;
  std::vector<std::string> all_;
};

// Whether one row can stand for both: the same steps at the same times, on whatever names.
bool look_alike(const RankPlan& a, const std::vector<Activity>& a_times, const RankPlan& b,
                const std::vector<Activity>& b_times) {
  if (a.arena_bytes != b.arena_bytes || a.streams.size() != b.streams.size()) return false;
  for (size_t s = 0; s < a.streams.size(); ++s)
    if (a.streams[s].name != b.streams[s].name) return false;
  const auto same_step = [](const Instruction& x, const Instruction& y) {
    return x.stream == y.stream && x.action.index() == y.action.index() && x.provenance == y.provenance;
  };
  return std::equal(a.instructions.begin(), a.instructions.end(), b.instructions.begin(), b.instructions.end(),
                    same_step) &&
         std::equal(a_times.begin(), a_times.end(), b_times.begin(), b_times.end(),
                    [](const Activity& x, const Activity& y) { return x.begin == y.begin && x.end == y.end; });
}

class StepWriter {
 public:
  explicit StepWriter(const StepOfBundle& step)
      : bundle_(step.bundle),
        timeline_(step.timeline),
        measured_(step.measured ? &*step.measured : nullptr),
        unit_(step.microseconds ? "us" : "units"),
        times_(step.times),
        stages_(step.bundle) {
    for (size_t p = 0; p < bundle_.ranks.size(); ++p) place(p);
  }

  std::string write() {
    const Manifest& manifest = bundle_.manifest;
    json_.raw("{");
    json_.key("title");
    json_.string(manifest.model.name + " with " + manifest.strategy.name + ": " + std::to_string(manifest.world_size) +
                 (manifest.world_size == 1 ? " rank" : " ranks") + ", batch " + std::to_string(manifest.batch));
    json_.member("about", "step " + number_text(timeline_.step) + " " + unit_ + ", bubble " +
                              per_cent(timeline::bubble(timeline_)) + "; " + times_ +
                              (manifest.cuts.empty() ? "" : "; " + cuts_line(manifest)));
    json_.member("strategy", manifest.strategy.name);
    json_.member("unit", unit_);
    json_.key("step");
    time(timeline_.step);
    list("origins", bundle_.provenance.size(), [this](size_t i) {
      json_.raw("{");
      json_.member("key", bundle_.provenance[i].key);
      json_.member("text", bundle_.provenance[i].text);
      if (!bundle_.provenance[i].why.empty()) json_.member("why", bundle_.provenance[i].why);
      json_.raw("}");
    });
    list("programs", bundle_.programs.size(), [this](size_t i) { program(bundle_.programs[i]); });
    list("rows", rows_.size(), [this](size_t r) { row(rows_[r]); });
    transfers();
    json_.member("strings", strings_.all());
    json_.raw("}");
    return json_.str();
  }

 private:
  // The row of a loaded rank.
  void place(size_t p) {
    for (size_t r = 0; measured_ == nullptr && r < rows_.size(); ++r) {
      const size_t first = rows_[r].front();
      if (!look_alike(bundle_.ranks[p], timeline_.activities[p], bundle_.ranks[first], timeline_.activities[first]))
        continue;
      rows_[r].push_back(p);
      row_of_.push_back(r);
      return;
    }
    row_of_.push_back(rows_.size());
    rows_.push_back({p});
  }

  template <class Item>
  void list(std::string_view name, size_t count, const Item& item) {
    json_.key(name);
    json_.raw("[");
    for (size_t i = 0; i < count; ++i) {
      if (i > 0) json_.raw(",");
      item(i);
    }
    json_.raw("]");
  }
  // Seven digits are less than a pixel at any zoom that the page allows.
  void time(double value) {
    char digits[32];
    const auto end = std::to_chars(digits, digits + sizeof digits, value, std::chars_format::general, 7).ptr;
    json_.raw({digits, static_cast<size_t>(end - digits)});
  }

  void program(const Program& program) {
    std::vector<int32_t> origins;
    std::string last;
    for (const auto& call : program.calls) {
      if (call.origin.empty() || call.origin == last || origins.size() == kShownOperators) continue;
      last = call.origin;
      origins.push_back(strings_.add(call.origin));
    }
    json_.raw("{");
    json_.member("name", program.name);
    json_.member("calls", program.calls.size());
    json_.member("origins", origins);
    json_.raw("}");
  }

  void row(const std::vector<size_t>& members) {
    const RankPlan& plan = bundle_.ranks[members.front()];
    std::vector<int32_t> ranks;
    for (const size_t p : members) ranks.push_back(bundle_.ranks[p].rank);
    json_.raw("{");
    json_.member("ranks", rank_list(ranks));
    list("streams", plan.streams.size(), [&](size_t s) { json_.string(plan.streams[s].name); });
    columns(plan, members);
    if (measured_ != nullptr) {
      json_.key("measured");
      json_.raw("{");
      for (const auto& [name, times] : {std::pair{"begin", &measured_->begin_us}, {"end", &measured_->end_us}})
        list(name, plan.instructions.size(), [&, t = times](size_t i) { time((*t)[members.front()][i]); });
      json_.raw("}");
    }
    memory(plan, members.front());
    json_.raw("}");
  }

  std::optional<ChunkPass> pass_of(const Instruction& instruction) const {
    const auto* const run = std::get_if<Run>(&instruction.action);
    return run == nullptr ? std::nullopt : bundle_.programs[static_cast<size_t>(run->program)].of;
  }
  // In the model's order.
  std::vector<std::string> stages_on(const RankPlan& plan) const {
    std::set<int32_t> chunks;
    for (const Instruction& instruction : plan.instructions)
      if (const auto of = pass_of(instruction)) chunks.insert(of->chunk);
    std::vector<std::string> stages;
    for (const int32_t chunk : chunks)
      if (std::find(stages.begin(), stages.end(), stages_.stage_of(chunk)) == stages.end())
        stages.push_back(stages_.stage_of(chunk));
    return stages;
  }

  void columns(const RankPlan& plan, const std::vector<size_t>& members) {
    const size_t count = plan.instructions.size();
    const auto& activities = timeline_.activities[members.front()];
    std::vector<int32_t> name, object, peer, stage, microbatch;
    std::vector<int64_t> bytes;
    std::vector<std::string> pass;
    const std::vector<std::string> stages = stages_on(plan);
    for (const Instruction& instruction : plan.instructions) {
      const auto of = pass_of(instruction);
      const auto at = of ? std::find(stages.begin(), stages.end(), stages_.stage_of(of->chunk)) : stages.end();
      stage.push_back(of ? static_cast<int32_t>(at - stages.begin()) : -1);
      pass.push_back(of ? std::string(1, pass_name(of->pass).back()) : "");
      const auto* const run = std::get_if<Run>(&instruction.action);
      microbatch.push_back(of ? plan.arguments[static_cast<size_t>(run->arguments)].microbatch : -1);
      const Subject subject = subject_of(plan, instruction.action);
      name.push_back(strings_.add(subject.name));
      object.push_back(subject.program >= 0 ? subject.program : strings_.add(subject.object));
      peer.push_back(subject.channel >= 0 ? strings_.add(peers(members, subject.channel)) : -1);
      bytes.push_back(subject.bytes);
    }
    list("kind", count, [&](size_t i) { json_.number(plan.instructions[i].action.index()); });
    list("stream", count, [&](size_t i) { json_.number(plan.instructions[i].stream); });
    list("origin", count, [&](size_t i) { json_.number(plan.instructions[i].provenance); });
    json_.member("stages", stages);
    for (const auto& [column, values] : {std::pair{"name", &name},
                                         {"object", &object},
                                         {"peer", &peer},
                                         {"stage", &stage},
                                         {"microbatch", &microbatch}}) {
      json_.member(column, *values);
    }
    json_.member("pass", pass);
    json_.member("bytes", bytes);
    list("begin", count, [&](size_t i) { time(activities[i].begin); });
    list("end", count, [&](size_t i) { time(activities[i].end); });
  }
  std::string peers(const std::vector<size_t>& members, int32_t channel) const {
    std::string text;
    for (size_t m = 0; m < members.size(); ++m) {
      if (m == kShownPeers) return text + ",...";
      const auto& channels = bundle_.ranks[members[m]].channels;
      text += (m > 0 ? "," : "") + std::to_string(channels[static_cast<size_t>(channel)].peer);
    }
    return text;
  }

  void memory(const RankPlan& plan, size_t p) {
    struct Life {
      int32_t first = -1, last = -1;
    };
    std::vector<Life> lives(plan.buffers.size());
    const auto& activities = timeline_.activities[p];
    std::vector<verify::Access> accesses;
    for (size_t i = 0; i < plan.instructions.size(); ++i) {
      accesses.clear();
      verify::collect_accesses(bundle_, plan, plan.instructions[i].action, accesses);
      for (const auto& access : accesses) {
        Life& life = lives[static_cast<size_t>(access.where.buffer)];
        if (life.first < 0 || activities[i].begin < activities[static_cast<size_t>(life.first)].begin)
          life.first = static_cast<int32_t>(i);
        if (life.last < 0 || activities[i].end > activities[static_cast<size_t>(life.last)].end)
          life.last = static_cast<int32_t>(i);
      }
    }
    int64_t persistent = 0;
    std::vector<size_t> alive;
    for (size_t b = 0; b < plan.buffers.size(); ++b) {
      if (plan.buffers[b].cls != BufferClass::kArena) persistent += plan.buffers[b].bytes;
      else if (lives[b].first >= 0) alive.push_back(b);
    }
    json_.member("persistent", persistent);
    list("buffers", alive.size(), [&](size_t k) {
      const size_t b = alive[k];
      json_.numbers(std::vector<int64_t>{strings_.add(plan.buffers[b].name), plan.buffers[b].bytes, lives[b].first,
                                         lives[b].last});
    });
  }

  // Those of ranks that share rows are reported once.
  void transfers() {
    std::set<std::vector<int64_t>> told;
    json_.key("transfers");
    json_.raw("[");
    for (const timeline::Transfer& transfer : timeline_.transfers) {
      std::vector<int64_t> ends;
      std::set<std::pair<size_t, int32_t>> known;
      for (const timeline::TransferEnd& end : timeline_.ends_of(transfer)) {
        const size_t row = row_of_[static_cast<size_t>(end.plan)];
        if (!known.emplace(row, end.instruction).second) continue;
        ends.push_back(static_cast<int64_t>(row));
        ends.push_back(end.instruction);
      }
      if (!told.insert(ends).second) continue;
      json_.raw(told.size() > 1 ? ",[" : "[");
      time(transfer.begin);
      json_.raw(",");
      time(transfer.end);
      json_.raw(",");
      json_.number(transfer.bytes);
      for (const int64_t end : ends) {
        json_.raw(",");
        json_.number(end);
      }
      json_.raw("]");
    }
    json_.raw("]");
  }

  const Bundle& bundle_;
  const Timeline& timeline_;
  const Measured* measured_;
  const char* unit_;
  const std::string& times_;
  const timeline::Stages stages_;
  std::vector<std::vector<size_t>> rows_;  // loaded ranks
  std::vector<size_t> row_of_;             // of each loaded rank
  Strings strings_;
  JsonWriter json_;
};

}  // namespace

std::string drawn_step(const StepOfBundle& step) { return StepWriter(step).write(); }

}  // namespace piper::tools
