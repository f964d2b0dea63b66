#include "schemas/plan/bundle_io.h"
#include "schemas/plan/field_writer.h"
#include "schemas/plan/like_ranks.h"
#include "schemas/plan/rank_plan_fields.h"
#include "schemas/plan/rank_run.h"

namespace piper::plan {
namespace {

template <class Items>
const auto& at(const Items& items, int32_t index, const char* what) {
  PIPER_CHECK(index >= 0 && static_cast<size_t>(index) < items.size(), what, " ", index, " of ", items.size());
  return items[static_cast<size_t>(index)];
}

class RankPlanWriter : public FieldWriter<RankPlanWriter> {
 public:
  RankPlanWriter(JsonWriter& json, const RankPlan& plan, const std::vector<ProvenanceEntry>& provenance,
                 const std::vector<Program>& programs)
      : FieldWriter(json), plan_(plan), provenance_(provenance), programs_(programs) {}
  using FieldWriter::write;

  void print(const RankPlan* like) {
    json_.clear();
    json_.reserve(like == nullptr ? 1024 + 144 * plan_.instructions.size() + 192 * plan_.buffers.size() : 8192);
    int32_t like_rank = like == nullptr ? -1 : like->rank;
    json_.begin_file();
    head_fields(*this, plan_, like_rank);
    rest_fields(*this, plan_, like);
    json_.end_file();
  }

  void name(std::string_view key, int32_t index, Names names) {
    begin(key);
    json_.string(name_of(index, names));
  }
  void place(std::string_view key, const BufferRange& where, int64_t, int64_t) { optional(key, where, {}); }
  void ranks(std::string_view key, const std::vector<int32_t>& ranks) {
    if (const std::string run = rank_run(ranks); !run.empty()) return (*this)(key, run);
    begin(key);
    json_.numbers(ranks);
  }
  void like(std::string_view key, int32_t rank, const Rule&) { optional(key, rank, -1); }
  void action(const Action& action) {
    std::visit([this](const auto& kind) { fields(*this, kind); }, action);
  }
  void offsets(std::string_view key, const RankPlan& plan) {
    begin(key);
    list(
        plan.buffers,
        [&](const Buffer& buffer) {
          json_.string(buffer.name);
          json_.raw(":");
          json_.number(buffer.offset);
        },
        '{', '}');
  }
  // Left out where the plan keeps what the other one keeps, and saves nothing.
  void own_placements(std::string_view key, const RankPlan& plan, const RankPlan& like) {
    if (!places_like(plan, like)) (*this)(key, like_placements(plan.placements, like.placements));
  }
  // The lists that differ from the other plan's, left out where none does.
  void own_arguments(std::string_view key, const RankPlan& plan, const RankPlan& like) {
    std::vector<LikeArguments> items;
    for (const size_t index : own_lists(plan, like))
      items.push_back(like_arguments(plan.arguments[index], like.arguments[index]));
    unless_empty(key, items);
  }

  void write(const BufferRange& range) {
    const std::string& name = at(plan_.buffers, range.buffer, "buffer").name;
    json_.raw("\"");
    json_.string_body(name);
    if (range.offset != 0 || ends_like_offset(name)) {
      json_.raw("+");
      json_.number(range.offset);
    }
    json_.raw("\"");
  }

 private:
  std::string_view name_of(int32_t index, Names names) const {
    switch (names) {
      case Names::kProgram: return at(programs_, index, "program").name;
      case Names::kArguments: return at(plan_.arguments, index, "argument list").name;
      case Names::kEvent: return at(plan_.events, index, "event");
      case Names::kStream: return at(plan_.streams, index, "stream").name;
      case Names::kChannel: return at(plan_.channels, index, "channel").name;
      case Names::kCommunicator: return at(plan_.communicators, index, "communicator").name;
      case Names::kBuffer: return at(plan_.buffers, index, "buffer").name;
      case Names::kProvenance: return at(provenance_, index, "provenance").key;
    }
    return "";
  }

  const RankPlan& plan_;
  const std::vector<ProvenanceEntry>& provenance_;
  const std::vector<Program>& programs_;
};

}  // namespace

std::string print_rank_plan(const RankPlan& plan, const std::vector<ProvenanceEntry>& provenance,
                            const std::vector<Program>& programs, const RankPlan* like) {
  JsonWriter json;
  print_rank_plan(plan, provenance, programs, like, json);
  return json.str();
}

void print_rank_plan(const RankPlan& plan, const std::vector<ProvenanceEntry>& provenance,
                     const std::vector<Program>& programs, const RankPlan* like, JsonWriter& json) {
  RankPlanWriter(json, plan, provenance, programs).print(like);
}

}  // namespace piper::plan
