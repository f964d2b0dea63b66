// What directives make of regions: typed properties, and every error at once.
#include <catch2/catch.hpp>

#include "compiler/directives/directive_table.h"
#include "compiler/directives/order.h"
#include "compiler/directives/split.h"
#include "compiler/strategy/loader.h"

namespace piper::directives {
namespace {

// Four regions: PP 0 and PP 1, and experts in each.
ir::Module regions() {
  ir::Module module;
  module.step.batch = 64;
  module.variants.emplace_back();
  std::vector<ir::Chunk>& chunks = module.variants[0].chunked.chunks;
  for (int32_t stage = 0; stage < 2; ++stage) {
    const std::string name = "PP" + std::to_string(stage);
    chunks.push_back({{{"PP", stage}}, -1, name});
    chunks.push_back({{{"EP", stage}, {"PP", stage}}, -1, name + ".EP" + std::to_string(stage)});
  }
  return module;
}

// A strategy of these directives, resolved as far as they go.
struct Resolved {
  diag::Diagnostics diags;
  ir::Module module = regions();
  strategy::Strategy strategy;
  std::optional<Resolution> draft;

  // `places`: of the claims of all regions, which no directive sets.
  explicit Resolved(const std::string& directives, int32_t places = 1) {
    auto read = strategy::parse_strategy("s.yaml", "directives:\n" + directives, {}, all_specs(), diags);
    INFO(diags.render_text(true));
    REQUIRE(read.ok());
    strategy = std::move(read).value();
    for (const strategy::Directive& directive : strategy.directives)
      if (directive.spec == &split_spec()) REQUIRE(resolve_split(directive, module.step, diags).ok());
    draft.emplace(module);
    resolve_stage(Stage::kPlace, strategy.directives, *draft, diags);
    for (size_t c = 0; c < draft->regions.size(); ++c)
      for (int32_t m = 0; m < module.step.num_microbatches; ++m) draft->claims.at(ir::ChunkId(c), m).places = places;
    if (!diags.failed()) (void)settle(*draft, diags);
    resolve_stage(Stage::kRun, strategy.directives, *draft, diags);
    if (split_backwards(*draft, diags).ok()) resolve_stage(Stage::kBehindOrders, strategy.directives, *draft, diags);
  }
  const ir::ChunkProperties& row(size_t region) const { return draft->distribution.chunks[region]; }
  const std::string& stream(uint32_t index) const { return draft->distribution.streams[index]; }
};

}  // namespace

TEST_CASE("directives become properties of the regions that they match, with defaults") {
  Resolved r(R"(
  - {op: split, num_microbatches: 2}
  - {op: place, filter: {PP: 0}, devices: [0, 1]}
  - {op: place, filter: {PP: 1}, devices: [2, 3], stream: far}
  - {op: replicate, filter: {PP: 0}, devices: [0, 1], shard_params: true, residency: step, prefetch: 2}
  - {op: replicate, filter: {PP: 1}, devices: [2, 3], bucket_size: 1}
  - {op: shard, filter: {EP: 0}, devices: [[0], [1]], capacity: {factor: 1.25, overflow: error}}
  - {op: order, filters: [[{PP: 0, MB: 0, PASS: BI}], [{PP: 0, MB: 0, PASS: BW}]]}
  - {op: recompute, filter: {PP: 1, MB: 1}}
  - {op: stream, filter: {PP: 0, PASS: BW}, name: weights}
  - {op: note, filter: {PP: 1}, text: the last stage}
)");
  INFO(r.diags.render_text(true));
  REQUIRE(!r.diags.failed());
  CHECK(r.draft->distribution.world_size == 4);
  CHECK(r.draft->distribution.ranks(r.row(0).groups[1]) == std::vector<int32_t>{0, 1});
  CHECK(r.draft->distribution.ranks(r.row(3).groups[0]) == std::vector<int32_t>{2, 3});
  CHECK(r.stream(r.row(0).message_stream) == "pp");
  CHECK(r.stream(r.row(2).message_stream) == "far");
  const ir::Replication& replication = r.row(0).replication;
  CHECK(replication.sharded == ir::Sharded::kParameters);
  CHECK(replication.residency == ir::Residency::kStep);
  CHECK(replication.prefetch == 2);
  CHECK(replication.bucket_bytes == 25 << 20);
  CHECK(r.stream(replication.stream) == "dp_reduce");
  CHECK(r.row(2).replication.sharded == ir::Sharded::kNothing);
  CHECK(r.row(2).segment_bytes == 1 << 20);
  CHECK(r.row(0).shard == -1);
  CHECK(r.row(1).shard == 0);
  CHECK(r.draft->distribution.expert_groups[0].groups == std::vector<std::vector<int32_t>>{{0}, {1}});
  CHECK(r.draft->distribution.expert_groups[0].bound->strict);
  CHECK(r.row(1).backward_split);
  CHECK(!r.row(2).backward_split);
  CHECK(r.row(2).recomputed == std::vector<bool>{false, true});
  CHECK(r.row(2).recomputed_sometimes());
  CHECK(r.stream(r.row(0).compute_streams.at({ir::Phase::kBackwardWeight, 1})) == "weights");
  CHECK(r.row(2).notes.size() == 1);
  CHECK(r.row(0).notes.empty());
  REQUIRE(r.draft->schedule.orders.size() == 1);
  const ir::OrderMember& member = r.draft->schedule.orders[0].slots[0].members[0];
  CHECK(member.chunks == std::vector<ir::ChunkId>{ir::ChunkId(0), ir::ChunkId(1)});
  CHECK(member.phases == std::vector<ir::Phase>{ir::Phase::kBackward});
  CHECK(member.half);
}

TEST_CASE("claims of ranks that share samples become groups that say so, of as many replicas as there are pieces") {
  const std::string one_replica = R"(
  - {op: place, filter: {PP: 0}, devices: [0, 1]}
  - {op: place, filter: {PP: 1}, devices: [2, 3]}
)";
  Resolved shared(one_replica, 2);
  INFO(shared.diags.render_text(true));
  REQUIRE(!shared.diags.failed());
  CHECK(shared.draft->distribution.groups == std::vector<ir::DeviceGroup>{{{0, 1}, 2}, {{2, 3}, 2}});
  const Resolved apart(one_replica);
  REQUIRE(apart.diags.failed());
  CHECK(apart.diags.all()[0].code == "P0214");
  // Ranks 0 and 1 are the first replica of both lists, rank 2 is another one of each.
  const auto listed = [](const std::string& second) {
    return "  - {op: replicate, filter: {PP: 0}, devices: [0, 1, 2, 3]}\n"
           "  - {op: replicate, filter: {PP: 1}, devices: " +
           second + "}\n";
  };
  CHECK(!Resolved(listed("[1, 0, 3, 2]"), 2).diags.failed());
  const Resolved other(listed("[0, 2, 1, 3]"), 2);
  REQUIRE(other.diags.failed());
  CHECK(other.diags.render_text(true).find("device 2 is replica 0 of PP1, but replica 1 of PP0") != std::string::npos);
}

TEST_CASE("every wrong directive is told, and adds nothing") {
  Resolved r(R"(
  - {op: place, filter: {PP: 0}, devices: [0]}
  - {op: place, filter: {PP: 7}, devices: [1]}
  - {op: place, filter: {QQ: 0}, devices: [1]}
  - {op: replicate, filter: {PP: 0}, devices: [2, 3]}
  - {op: order, filters: [[{PP: 9}], [{PP: 1}]]}
  - {op: note, filter: {PP: 8}, text: nobody reads this}
)");
  std::vector<std::string> codes;
  std::vector<uint32_t> lines;
  for (const diag::Diagnostic& d : r.diags.all()) {
    codes.push_back(d.code);
    lines.push_back(d.span.line);
  }
  CHECK(codes == std::vector<std::string>{"P0204", "P0203", "P0215", "P0204", "P0204"});
  CHECK(lines == std::vector<uint32_t>{4, 5, 6, 7, 8});
  CHECK(r.draft->claims.at(ir::ChunkId(2), 0).ranks.empty());
  CHECK(!r.row(0).replication.prov.valid());
  CHECK(r.draft->schedule.orders.empty());
}

}  // namespace piper::directives
