// The verifier against damage: compiled plans of the compositions in tests/mutation are proved; damaged in any of the
// ways of damage_*.cc they are refused with the code that the table says; and what single changed fields of random
// instructions leave accepted means the same.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <map>
#include <random>

#include "schemas/plan/bundle_io.h"
#include "schemas/verify/verify.h"
#include "tests/unit/compiled_plans.h"
#include "tests/unit/plan_damages.h"
#include "tests/unit/plan_updates.h"

using namespace piper;

namespace {

std::string verdict(const plan::Bundle& bundle) {
  const auto report = verify::verify(bundle);
  return report.ok() ? "ok" : report.error().code + " " + report.error().message;
}

}  // namespace

TEST_CASE("plans as compiled are proved") {
  for (const auto& [name, bundle] : compiled::compositions()) {
    INFO(name);
    CHECK(verdict(bundle) == "ok");
  }
}

TEST_CASE("damaged plans are refused with the right code") {
  std::map<std::string, int> applied;
  for (const auto& [name, bundle] : compiled::compositions())
    for (const auto& damage : damages::all()) {
      plan::Bundle damaged = bundle;
      if (!damage.apply(damaged)) continue;
      ++applied[damage.name];
      const std::string said = verdict(damaged);
      INFO(name << ": " << damage.name << ": " << said);
      CHECK(std::count(damage.codes.begin(), damage.codes.end(), said.substr(0, 5)) == 1);
    }
  for (const auto& damage : damages::all()) {
    INFO(damage.name);
    CHECK(applied[damage.name] > 0);
  }
}

namespace {

using namespace plan;

std::string print(const Bundle& bundle) {
  std::string text;
  for (const auto& plan : bundle.ranks) text += print_rank_plan(plan, bundle.provenance, bundle.programs);
  return text;
}

// One field of one instruction, argument, input or placement, set to another value that the field could have.
// Says what was changed; "" where there was nothing to change.
class Mutation {
 public:
  Mutation(Bundle& bundle, uint32_t seed) : bundle_(bundle), random_(seed) {}

  std::string apply() {
    plan_ = &bundle_.ranks[pick(bundle_.ranks.size())];
    switch (pick(8)) {
      case 0: return argument();
      case 1: return input();
      case 2: return placement();
      default: return instruction();
    }
  }

 private:
  size_t pick(size_t count) { return std::uniform_int_distribution<size_t>(0, count - 1)(random_); }
  std::string changed(const char* what, int64_t& field, std::vector<int64_t> values) {
    values.erase(std::remove(values.begin(), values.end(), field), values.end());
    if (values.empty()) return "";
    const int64_t before = field;
    field = values[pick(values.size())];
    return std::string(what) + " " + std::to_string(before) + " -> " + std::to_string(field);
  }
  std::string changed(const char* what, int32_t& field, size_t count) {
    int64_t wide = field;
    std::vector<int64_t> values;
    for (size_t i = 0; i < count; ++i) values.push_back(static_cast<int64_t>(i));
    auto said = changed(what, wide, values);
    field = static_cast<int32_t>(wide);
    return said;
  }
  std::string range(BufferRange& where) {
    if (where.buffer < 0) return "";
    if (pick(3) == 0) return changed("offset", where.offset, {0, 4, 64, where.offset + 64});
    const auto& buffers = plan_->buffers;
    const std::string before = buffers[static_cast<size_t>(where.buffer)].name;
    const auto said = changed("buffer", where.buffer, buffers.size());
    return said + " " + before + " -> " + buffers[static_cast<size_t>(where.buffer)].name;
  }
  std::string argument() {
    auto& list = plan_->arguments.edit()[pick(plan_->arguments.size())];
    if (list.arguments.empty() || list.name == "clip") return "";  // ranks that report nothing have no use for the norm
    const size_t at = pick(list.arguments.size());
    const auto name = [&] { return plan_->buffers[static_cast<size_t>(list.arguments[at].buffer)].name; };
    const std::string before = name(), said = range(list.arguments[at]), after = name();
    // A rank may add to its own part of a sharded gradient at once: the sum is the same.
    if (before.rfind("grad ", 0) == 0 && after.size() > 5 && after.substr(after.size() - 5) == " part") return "";
    return list.name + " argument " + std::to_string(at) + " " + said;
  }
  std::string input() {
    if (plan_->inputs.empty()) return "";
    auto& slice = plan_->inputs[pick(plan_->inputs.size())];
    const int64_t batch = bundle_.manifest.batch;
    if (pick(2) == 0) return "input first " + changed("first", slice.first, {0, 1, batch / 2, batch - 1});
    return "input count " + changed("count", slice.count, {1, batch / 2, batch});
  }
  std::string placement() {
    if (plan_->placements.empty()) return "";
    auto& placement = plan_->placements[pick(plan_->placements.size())];
    auto& part = placement.part;
    switch (pick(3)) {
      case 0: part.owner = !part.owner; return placement.name + " owner";
      case 1: return placement.name + " first " + changed("first", part.first, {0, 1, part.first + part.count});
      default: return placement.name + " " + range(part.where);
    }
  }
  std::string instruction() {
    auto& chosen = plan_->instructions.edit()[pick(plan_->instructions.size())];
    if (auto* run = std::get_if<Run>(&chosen.action))
      return "run " + changed("arguments", run->arguments, plan_->arguments.size());
    if (auto* send = std::get_if<Send>(&chosen.action)) {
      if (pick(2) == 0) return "send " + range(send->data);
      return "send " + changed("count", send->count, {1, send->count / 2, send->count - 1, send->count + 1});
    }
    if (auto* recv = std::get_if<Recv>(&chosen.action)) {
      if (pick(2) == 0) return "recv " + range(recv->data);
      return "recv " + changed("peer", plan_->channels[static_cast<size_t>(recv->channel)].peer,
                               static_cast<size_t>(bundle_.manifest.world_size));
    }
    if (auto* reduce = std::get_if<AllReduce>(&chosen.action)) {
      if (pick(2) == 0) return "all_reduce " + range(reduce->data);
      return "all_reduce " + changed("count", reduce->count, {1, reduce->count / 2, reduce->count + 1});
    }
    if (auto* reduce = std::get_if<ReduceScatter>(&chosen.action))
      return "reduce_scatter " + range(reduce->out.buffer < 0 || pick(2) == 0 ? reduce->data : reduce->out);
    if (auto* exchange = std::get_if<AllToAll>(&chosen.action)) {
      if (pick(3) == 0)
        return "all_to_all " + changed("count", exchange->count, {1, exchange->count / 2, exchange->count * 2});
      return "all_to_all " + range(pick(2) == 0 ? exchange->send : exchange->recv);
    }
    // A gather brings along elements that its reader does not need: changing those changes nothing.
    if (auto* update = std::get_if<Update>(&chosen.action)) {
      auto ranges = example::ranges_of(bundle_, *plan_, *update);
      std::string said;
      switch (pick(7)) {
        case 0: said = "update parameter " + range(ranges.parameter); break;
        case 1: said = "update gradient " + range(ranges.gradient); break;
        case 2: said = "update first moment " + range(ranges.m); break;
        case 3: said = "update scale " + range(ranges.scale); break;
        case 4: said = "update overflow " + range(ranges.overflow); break;
        case 5: said = "update working copy " + range(ranges.working); break;
        default: said = "update " + changed("count", ranges.count, {1, ranges.count / 2});
      }
      if (said.back() == ' ') return "";  // there is no such range
      example::set_ranges(bundle_, *plan_, *update, ranges);
      return said;
    }
    return "";
  }

  Bundle& bundle_;
  std::mt19937 random_;
  RankPlan* plan_ = nullptr;
};

// As a user's file would come: through the text and the reader's checks.
std::string verdict_of_text(const Bundle& bundle) {
  Bundle again = bundle;
  for (auto& plan : again.ranks) {
    auto parsed = parse_rank_plan(print_rank_plan(plan, bundle.provenance, bundle.programs), "r", bundle.provenance,
                                  bundle.programs);
    if (!parsed.ok()) return parsed.error().code + " " + parsed.error().message;
    plan = std::move(*parsed);
  }
  return verdict(again);
}

}  // namespace

// PIPER_TEST_SEED and PIPER_TEST_ROUNDS choose others and more.
TEST_CASE("a changed field is refused") {
  const auto number = [](const char* name, uint32_t otherwise) {
    return std::getenv(name) ? static_cast<uint32_t>(std::stoul(std::getenv(name))) : otherwise;
  };
  const uint32_t seed = number("PIPER_TEST_SEED", 1), rounds = number("PIPER_TEST_ROUNDS", 150);
  std::map<std::string, int> codes;
  for (const auto& [name, bundle] : compiled::compositions()) {
    const std::string whole = print(bundle);
    for (uint32_t round = 0; round < rounds; ++round) {
      Bundle mutated = bundle;
      const std::string what = Mutation(mutated, seed * 1000003u + round).apply();
      if (what.empty() || print(mutated) == whole) continue;
      const std::string said = verdict_of_text(mutated);
      INFO("seed " << seed << " round " << round << ", " << name << ": " << what << ": " << said);
      ++codes[said.substr(0, 5)];
      CHECK(said != "ok");
    }
  }
  CHECK(codes.size() > 5);
}
