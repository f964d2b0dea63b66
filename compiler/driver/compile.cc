#include "compiler/driver/compile.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <future>
#include <iomanip>
#include <map>
#include <optional>
#include <ostream>
#include <regex>
#include <set>

#include "compiler/directives/directive_table.h"
#include "compiler/directives/order.h"
#include "compiler/directives/place.h"
#include "compiler/directives/placement.h"
#include "compiler/directives/recompute.h"
#include "compiler/directives/replicate.h"
#include "compiler/directives/shard.h"
#include "compiler/directives/stream.h"
#include "compiler/driver/check_exchanges.h"
#include "compiler/driver/expand_schedule.h"
#include "compiler/driver/fuse_alike_chunks.h"
#include "compiler/driver/note_running_statistics.h"
#include "compiler/driver/prepare_model.h"
#include "compiler/driver/print_dag.h"
#include "compiler/emit/emit_bundle.h"
#include "compiler/emit/rank_emitter.h"
#include "compiler/passes/build_dag.h"
#include "compiler/passes/fuse_chunks.h"
#include "compiler/passes/insert_gathers.h"
#include "compiler/passes/insert_gradient_work.h"
#include "compiler/passes/insert_transfers.h"
#include "compiler/passes/order_nodes.h"
#include "compiler/strategy/directive_args.h"
#include "compiler/strategy/loader.h"
#include "schemas/base/parallel.h"
#include "schemas/verify/verify.h"

namespace piper::driver {
namespace {

struct Digests {
  std::string model, strategy;
};

// Everything that the phases hand on.
struct Compilation {
  strategy::Strategy strategy;
  std::unique_ptr<frontend::ModelFile> model;
  int64_t batch = 1;
  std::optional<strategy::ScheduleTable> table;  // of `schedule: {csv: ...}`
  ExpandedSchedule schedule;
  std::optional<directives::Placement> placement;
  std::vector<ModelVariant> variants;           // [0] = the reference
  std::map<int64_t, ir::ChunkedGraph> chunked;  // bound, not yet differentiated
  ForwardShape forward;
  std::vector<ir::ChunkId> fused;  // [chunk of the finished forward] -> chunk
  BackwardShape backward;
  std::vector<passes::ChunkShape> shapes;
  ir::Dag dag;
  std::future<Digests> digests;  // made beside the other phases; after `model` and `strategy`, which it reads
  emit::Emitted emitted;
};

class Driver {
 public:
  Driver(const CompileOptions& options, diag::Diagnostics& diags, std::ostream& out, std::ostream& err)
      : options_(options), diags_(diags), out_(out), err_(err) {}
  Status run();
  // A thread that outlives main would run while the libraries it calls are torn down.
  void end_threads() const {
    if (c_.digests.valid()) c_.digests.wait();
  }

 private:
  Status load();
  Status bind();
  Status place();
  Status claim();
  Status differentiate();
  Status build();
  Status order();
  Status emit();
  Status verify() const;
  Status write();
  std::vector<const strategy::Directive*> directives_named(std::string_view name) const;
  Status check_memory() const;
  void print_state(const std::string& phase);
  void print_expansion();

  const CompileOptions& options_;
  diag::Diagnostics& diags_;
  std::ostream& out_;
  std::ostream& err_;
  Compilation c_;
};

Status Driver::load() {
  // Side by side; of two wrong files the strategy is told.
  Status strategy_read, model_read;
  diag::Diagnostics of_model;
  parallel_invoke(
      [&] {
        auto model = frontend::open_model(options_.model, options_.route, of_model);
        if (model.ok()) c_.model = std::move(model).value();
        else model_read = model.take_status();
      },
      [&] {
        auto strategy = strategy::load_strategy(options_.strategy, options_.overrides, directives::all_specs(), diags_);
        if (strategy.ok()) c_.strategy = std::move(strategy).value();
        else strategy_read = strategy.take_status();
      });
  PIPER_RETURN_IF_ERROR(std::move(strategy_read));
  diags_.append(std::move(of_model));
  PIPER_RETURN_IF_ERROR(std::move(model_read));
  if (!c_.strategy.optimizer) {
    auto error = diags_.error("P0238");
    error << "the strategy has no optimizer";
    error.help("add optimizer: {adamw: {lr: 3.0e-4}}, or use --set optimizer.sgd.lr=0.1");
    return error;
  }
  if (c_.strategy.schedule && !c_.strategy.schedule->csv.empty()) {
    const size_t slash = options_.strategy.find_last_of('/');
    PIPER_ASSIGN(c_.table,
                 read_schedule_table(*c_.strategy.schedule,
                                     slash == std::string::npos ? "" : options_.strategy.substr(0, slash), diags_));
    c_.strategy.schedule->microbatches = microbatches_of(*c_.table);
  }
  for (const strategy::StreamConfig& stream : c_.strategy.streams)
    diags_.remark("resources of stream '" + stream.name + "' have no effect on CPU ranks", stream.span);
  if (c_.strategy.model.batch) {
    c_.batch = *c_.strategy.model.batch;
  } else if (c_.model->fixed_batch() > 0) {
    c_.batch = c_.model->fixed_batch();
  } else {
    auto error = diags_.error("P0228", c_.strategy.model.span);
    error << "the number of samples of a step is not given";
    error.help("set model.batch, in the file or with --set model.batch=64");
    return error;
  }
  // Here and now where the system has no more threads.
  c_.digests = std::async([this] { return Digests{c_.model->sha256(), c_.strategy.sha256()}; });
  return Status();
}

// One bind is enough to see chunks and tags; it is done at the local batch of the largest group.
Status Driver::bind() {
  PIPER_ASSIGN(c_.dag.num_microbatches, choose_microbatches(c_.strategy, c_.dag.split, diags_));
  int64_t largest = 1;
  for (const strategy::Directive& directive : c_.strategy.directives)
    for (const char* name : {"place", "replicate"})
      if (directive.spec->name == name)
        if (const auto* devices = strategy::find_arg<strategy::Devices>(directive, "devices"))
          largest = std::max<int64_t>(largest, static_cast<int64_t>(devices->ranks.size()));
  for (const strategy::Directive* directive : directives_named("shard")) {
    PIPER_ASSIGN(const directives::ShardArgs args, directives::read_shard(*directive));
    int64_t devices = 0;
    for (const strategy::Devices& group : args.devices) devices += static_cast<int64_t>(group.ranks.size());
    largest = std::max(largest, devices);
  }
  if (c_.strategy.schedule)
    for (const strategy::Devices& devices : c_.strategy.schedule->ranks)
      largest = std::max<int64_t>(largest, static_cast<int64_t>(devices.ranks.size()));
  const int64_t pieces = c_.dag.num_microbatches * largest;
  if (c_.batch % pieces != 0) {
    auto error = diags_.error("P0223", c_.strategy.model.batch_span);
    error << "a batch of " << c_.batch << " does not divide into " << c_.dag.num_microbatches << " microbatches on "
          << largest << " replicas";
    std::string good;
    for (int64_t m = 1; m <= 64 && m * largest <= c_.batch; ++m)
      if (c_.batch % (m * largest) == 0) good += (good.empty() ? "" : ", ") + std::to_string(m);
    const int64_t below = c_.batch / pieces * pieces;
    if (good.empty())
      error.note("batches that would do: " + (below > 0 ? std::to_string(below) + ", " : std::string()) +
                 std::to_string(below + pieces));
    else error.note("numbers of microbatches that would do: " + good);
    return error;
  }
  const int64_t local = c_.batch / pieces;
  if (c_.model->fixed_batch() > 0 && local != c_.model->fixed_batch()) {
    auto error = diags_.error("P0223", c_.strategy.model.batch_span);
    error << "the model's batch is fixed at " << c_.model->fixed_batch() << " samples, but each piece would have "
          << local;
    error.help("export with a symbolic batch (tools/piper_export.py), or choose batch = " +
               std::to_string(pieces * c_.model->fixed_batch()));
    return error;
  }
  if (local < c_.model->declared_min_batch())
    diags_.warning("P0223", c_.strategy.model.batch_span)
        << "pieces of " << local << " sample(s) are below the exporter's declared minimum of "
        << c_.model->declared_min_batch() << "; the model may have been specialised";
  PIPER_ASSIGN(ir::ChunkedGraph chunked, bind_and_cut(*c_.model, c_.strategy, c_.batch, local, diags_));
  c_.chunked.emplace(local, std::move(chunked));
  return Status();
}

// Regions first: schedules and bucket sizes are said of them. Then the forward is finished, which may cut regions into
// several chunks, and every chunk is placed.
Status Driver::place() {
  const int64_t local = c_.chunked.begin()->first;
  ir::Dag& dag = c_.dag;
  dag.chunks = c_.chunked.at(local).chunks;
  dag.streams = {"compute"};
  // The user's own before the schedule, which reads its ranks from what they claim.
  PIPER_RETURN_IF_ERROR(claim());
  PIPER_ASSIGN(c_.schedule, expand_schedule(c_.strategy, dag, *c_.placement, c_.table ? &*c_.table : nullptr, diags_));
  c_.forward.cut = local < c_.batch;
  c_.forward.segment_bytes.assign(dag.chunks.size(), -1);
  std::vector<directives::ReplicateArgs> replicates;
  for (const strategy::Directive* directive : directives_named("replicate")) {
    PIPER_ASSIGN(directives::ReplicateArgs args, directives::read_replicate(*directive));
    replicates.push_back(std::move(args));
  }
  PIPER_RETURN_IF_ERROR(directives::bound_segments(replicates, dag, c_.forward.segment_bytes, diags_));
  for (const strategy::Directive* directive : directives_named("shard")) {
    PIPER_ASSIGN(const directives::ShardArgs args, directives::read_shard(*directive));
    PIPER_RETURN_IF_ERROR(directives::find_shard(args, *directive, dag, c_.forward.shards, diags_));
  }
  if (!c_.schedule.placement.empty() || !c_.schedule.replication.empty()) PIPER_RETURN_IF_ERROR(claim());
  for (size_t region = 0; region < dag.chunks.size(); ++region) {
    c_.forward.devices.emplace_back();
    for (int32_t m = 0; m < dag.num_microbatches; ++m)
      c_.forward.devices.back().push_back(
          std::max<int64_t>(1, static_cast<int64_t>(c_.placement->at(ir::ChunkId(region), m).ranks.size())));
  }
  PIPER_RETURN_IF_ERROR(finish_forward(c_.chunked.at(local), c_.strategy, c_.batch, local, c_.forward, diags_));

  dag.chunks = c_.chunked.at(local).chunks;
  PIPER_RETURN_IF_ERROR(claim());
  PIPER_RETURN_IF_ERROR(directives::settle(*c_.placement, c_.batch, dag, diags_));
  directives::replicate_unasked(dag);
  std::vector<directives::HalfNames> halves;
  const directives::Selector selector(dag);
  for (const strategy::Directive* directive : directives_named("order")) {
    PIPER_ASSIGN(const directives::OrderArgs args, directives::read_order(*directive));
    PIPER_RETURN_IF_ERROR(directives::find_split_backwards(args, dag, selector, halves, diags_));
  }
  PIPER_ASSIGN(dag.backward_split, directives::chunks_to_split(halves, dag, diags_));
  dag.recomputed.assign(dag.chunks.size(), std::vector<bool>(dag.num_microbatches, false));
  for (const strategy::Directive* directive : directives_named("recompute")) {
    PIPER_ASSIGN(const directives::RecomputeArgs args, directives::read_recompute(*directive));
    PIPER_RETURN_IF_ERROR(directives::apply_recompute(args, dag, diags_));
  }
  for (const strategy::Directive* directive : directives_named("stream")) {
    PIPER_ASSIGN(const directives::StreamArgs args, directives::read_stream(*directive));
    PIPER_RETURN_IF_ERROR(directives::apply_stream(args, *directive, dag, diags_));
  }
  c_.fused = fuse_alike_chunks(directives_named("order"), c_.chunked.at(local), dag, *c_.placement);
  c_.backward.split = dag.backward_split;
  for (std::vector<bool>& row : dag.recomputed) {
    const bool alike = std::equal(row.begin() + 1, row.end(), row.begin());
    c_.backward.recompute.push_back(alike && row[0]);
    c_.backward.repeat_some.push_back(!alike);
    if (alike) row.clear();
  }
  for (const ir::ExpertShard& shard : c_.chunked.at(local).shards)
    dag.expert_groups.push_back(
        {shard.groups, dag.intern_stream(shard.stream), dag.provenance.directive({"shard", diags_.place(shard.span)})});
  return Status();
}

// What directives claim of the chunks there are now.
Status Driver::claim() {
  ir::Dag& dag = c_.dag;
  dag.replication.assign(dag.chunks.size(), ir::Replication());
  c_.placement.emplace(dag.chunks.size(), dag.num_microbatches);
  for (const strategy::Directive* directive : directives_named("place")) {
    PIPER_ASSIGN(const directives::PlaceArgs args, directives::read_place(*directive));
    PIPER_RETURN_IF_ERROR(directives::apply_place(args, *directive, dag, *c_.placement, diags_));
  }
  for (const strategy::Directive* directive : directives_named("replicate")) {
    PIPER_ASSIGN(const directives::ReplicateArgs args, directives::read_replicate(*directive));
    PIPER_RETURN_IF_ERROR(directives::apply_replicate(args, *directive, dag, *c_.placement, diags_));
  }
  for (const strategy::Directive* directive : directives_named("shard")) {
    PIPER_ASSIGN(const directives::ShardArgs args, directives::read_shard(*directive));
    PIPER_RETURN_IF_ERROR(directives::apply_shard(args, *directive, dag, *c_.placement, diags_));
  }
  return Status();
}

// The user's directives of a kind, then those that the schedule expands to.
std::vector<const strategy::Directive*> Driver::directives_named(std::string_view name) const {
  std::vector<const strategy::Directive*> found;
  for (const auto* list :
       {&c_.strategy.directives, &c_.schedule.placement, &c_.schedule.replication, &c_.schedule.orders})
    for (const strategy::Directive& directive : *list)
      if (directive.spec->name == name) found.push_back(&directive);
  return found;
}

// One variant per distinct local batch; the largest local batch is the reference.
Status Driver::differentiate() {
  ir::Dag& dag = c_.dag;
  std::set<int64_t, std::greater<>> locals;
  for (const auto& row : dag.placement)
    for (ir::GroupId group : row)
      locals.insert(c_.batch / dag.num_microbatches / static_cast<int64_t>(dag.groups[group.index].ranks.size()));
  for (int64_t local : locals) {
    if (!c_.chunked.count(local)) {
      PIPER_ASSIGN(ir::ChunkedGraph chunked, bind_and_cut(*c_.model, c_.strategy, c_.batch, local, diags_));
      PIPER_RETURN_IF_ERROR(finish_forward(chunked, c_.strategy, c_.batch, local, c_.forward, diags_));
      if (chunked.chunks.size() == c_.fused.size()) passes::fuse_chunks(chunked, c_.fused);  // else refused below
      c_.chunked.emplace(local, std::move(chunked));
    }
    PIPER_ASSIGN(ModelVariant variant,
                 differentiate_and_lower(std::move(c_.chunked.at(local)), local, c_.backward,
                                         c_.variants.empty() ? nullptr : &c_.variants[0], diags_));
    c_.variants.push_back(std::move(variant));
  }
  c_.chunked.clear();
  const ModelVariant& reference = c_.variants[0];
  for (const ModelVariant& other : c_.variants) {
    const auto &wanted = reference.lowered.crossings, &found = other.lowered.crossings;
    size_t at = 0;
    while (at < std::min(wanted.size(), found.size()) && wanted[at].value == found[at].value) ++at;
    if (at == wanted.size() && at == found.size() && other.chunked.chunks.size() == reference.chunked.chunks.size())
      continue;
    auto error = diags_.error("P0512");
    error << "the model has another structure for pieces of " << other.local_batch << " samples than for "
          << reference.local_batch << "; use device groups of one size";
    if (at < wanted.size())
      error.note("a piece of " + std::to_string(reference.local_batch) + " samples hands on '" +
                 reference.chunked.graph.value(wanted[at].value).name + "'");
    if (at < found.size())
      error.note("a piece of " + std::to_string(other.local_batch) + " samples hands on '" +
                 other.chunked.graph.value(found[at].value).name + "'");
    return error;
  }
  const ir::Graph& graph = reference.chunked.graph;
  c_.shapes.assign(dag.chunks.size(), passes::ChunkShape());
  for (const emit::LoweredProgram& program : reference.lowered.programs) {
    passes::ChunkShape& shape = c_.shapes[program.chunk.index];
    switch (program.phase) {
      case ir::Phase::kCount: shape.has_count = true; break;
      case ir::Phase::kCountFinish: shape.has_count_finish = true; break;
      case ir::Phase::kForward: shape.has_forward = true; break;
      case ir::Phase::kBackward: shape.has_backward = true; break;
      case ir::Phase::kBackwardWeight: shape.has_backward_weight = true; break;
    }
    for (const emit::SlotHolds& holds : program.holds) {
      if (holds.kind == emit::SlotHolds::Kind::kParameter) {
        shape.reads.push_back(holds.index);
        for (size_t pass = 0; pass < ir::kNumPasses; ++pass)
          if (emit::phase_of(static_cast<ir::Pass>(pass)) == program.phase)
            shape.pass_reads[pass].push_back(holds.index);
      }
      if (holds.kind == emit::SlotHolds::Kind::kGradient) shape.gradients.push_back(holds.index);
    }
  }
  for (const emit::LoweredProgram& program : reference.lowered.repeating)
    for (const emit::SlotHolds& holds : program.holds)
      if (holds.kind == emit::SlotHolds::Kind::kParameter)
        for (size_t pass = 0; pass < ir::kNumPasses; ++pass)
          if (emit::phase_of(static_cast<ir::Pass>(pass)) == program.phase)
            c_.shapes[program.chunk.index].repeating_reads[pass].push_back(holds.index);
  for (const emit::Exchange& exchange : reference.lowered.exchanges)
    (exchange.phase == ir::Phase::kForward ? c_.shapes[exchange.chunk.index].has_forward
                                           : c_.shapes[exchange.chunk.index].has_backward) = true;
  for (passes::ChunkShape& shape : c_.shapes)
    for (auto* list : {&shape.reads, &shape.gradients}) {
      std::sort(list->begin(), list->end());
      list->erase(std::unique(list->begin(), list->end()), list->end());
    }
  for (const emit::Crossing& crossing : reference.lowered.crossings)
    dag.crossings.push_back({crossing.from, crossing.to,
                             crossing.phase == ir::Phase::kBackward ? ir::Pass::kBackward : ir::Pass::kForward,
                             crossing.value});
  PIPER_RETURN_IF_ERROR(directives::check_nesting(*c_.placement, dag, diags_));
  PIPER_RETURN_IF_ERROR(check_exchanges(*c_.placement, dag, c_.variants, c_.batch, diags_));
  note_running_statistics(*c_.placement, dag, reference, diags_);
  std::set<ir::ChunkId> loss_chunks;
  for (ir::ValueId term : graph.all_losses()) {
    const ir::ValueId loss = reference.lowered.layouts[term.index].root;
    if (graph.value(loss).kind == ir::ValueKind::kOpResult)
      loss_chunks.insert(graph.op(graph.value(loss).producer).chunk);
  }
  dag.loss_chunks.assign(loss_chunks.begin(), loss_chunks.end());
  std::set<ir::ChunkId> dropping_chunks;
  for (ir::ValueId number : graph.dropped) dropping_chunks.insert(graph.op(graph.value(number).producer).chunk);
  dag.dropping_chunks.assign(dropping_chunks.begin(), dropping_chunks.end());
  return Status();
}

Status Driver::build() {
  ir::Dag& dag = c_.dag;
  passes::build_dag(dag, c_.shapes);
  passes::insert_transfers(dag);
  const ir::Graph& graph = c_.variants[0].chunked.graph;
  std::vector<passes::ParameterInfo> parameters;
  for (const ir::Parameter& p : graph.parameters()) {
    passes::ParameterInfo info{p.names[0], graph.type(p.value).bytes(), p.trainable, p.shard, {}};
    if (p.shard >= 0) {
      // Position by position across the expert groups.
      const auto& groups = dag.expert_groups[p.shard].groups;
      info.teams.resize(groups[0].size());
      for (const std::vector<int32_t>& group : groups)
        for (size_t position = 0; position < group.size(); ++position) info.teams[position].push_back(group[position]);
    }
    parameters.push_back(std::move(info));
  }
  passes::GradientOptions gradient;
  gradient.clip = c_.strategy.clip_grad_norm > 0;
  if (gradient.clip)
    gradient.clip_prov = dag.provenance.directive({"clip_grad_norm", diags_.place(c_.strategy.clip_span)});
  gradient.update_prov = dag.provenance.directive({"optimizer", diags_.place(c_.strategy.optimizer->span)});
  passes::insert_gradient_work(dag, c_.shapes, parameters, gradient);
  for (const ir::Accumulator& a : dag.accumulators) {
    const ir::Bucket& bucket = dag.buckets[a.bucket.index];
    if (a.use == 0 && bucket.sharded < dag.replication[a.chunk.index].sharded && bucket.teams[0].size() > 1)
      diags_.remark("'" + parameters[a.parameter].name +
                    "' is kept whole: its uses are not sharded alike over groups of one size");
  }
  return Status();
}

Status Driver::order() {
  directives::DataPaths paths;
  std::optional<directives::Selector> selector;
  parallel_invoke([&] { paths = directives::data_paths(c_.dag); }, [&] { selector.emplace(c_.dag); });
  for (const strategy::Directive* directive : directives_named("order")) {
    PIPER_ASSIGN(const directives::OrderArgs args, directives::read_order(*directive));
    PIPER_RETURN_IF_ERROR(directives::apply_order(args, *directive, c_.dag, paths, *selector, diags_));
  }
  PIPER_RETURN_IF_ERROR(passes::order_nodes(c_.dag, diags_));
  passes::insert_gathers(c_.dag, c_.shapes);
  return Status();
}

Status Driver::emit() {
  emit::EmitRequest request;
  request.dag = &c_.dag;
  request.strategy = &c_.strategy;
  request.batch = c_.batch;
  request.model_name = c_.model->base_name();
  Digests digests = c_.digests.get();
  request.model_sha256 = std::move(digests.model);
  request.strategy_sha256 = std::move(digests.strategy);
  const ir::Graph& graph = c_.variants[0].chunked.graph;
  request.optimizer = c_.strategy.optimizer->values;
  request.optimizer.groups = {{"decay", c_.strategy.optimizer->weight_decay}};
  if (!c_.strategy.optimizer->no_decay.empty()) request.optimizer.groups.push_back({"no_decay", 0});
  for (const ir::Parameter& p : graph.parameters()) {
    const bool no_decay = std::any_of(p.names.begin(), p.names.end(), [&](const std::string& name) {
      return names_parameter(c_.strategy.optimizer->no_decay, name);
    });
    request.decay_group.push_back(no_decay ? 1 : 0);
  }
  request.feeds = token_feeds(graph, c_.strategy.model);
  for (const ModelVariant& variant : c_.variants)
    request.variants.push_back({variant.local_batch, &variant.chunked.graph, &variant.lowered});
  PIPER_ASSIGN(c_.emitted, emit::emit_bundle(request, diags_));
  return check_memory();
}

// The independent checker reads only the bundle. What it refutes here is our bug, whatever the user wrote.
Status Driver::verify() const {
  const auto report = verify::verify(c_.emitted.bundle);
  PIPER_CHECK(report.ok(), "the emitted plan was refuted: [", report.error().code, "] ", report.error().message);
  return Status();
}

Status Driver::check_memory() const {
  if (options_.memory_limit <= 0) return Status();
  for (size_t r = 0; r < c_.emitted.bundle.manifest.ranks.size(); ++r) {
    const plan::RankSummary& summary = c_.emitted.bundle.manifest.ranks[r];
    if (summary.peak_bytes <= options_.memory_limit) continue;
    auto error = diags_.error("P0520");
    error << "rank " << r << " needs " << summary.peak_bytes << " bytes, the limit is " << options_.memory_limit;
    error.note("arena " + std::to_string(summary.arena_bytes) + ", parameters, gradients and optimizer " +
               std::to_string(summary.persistent_bytes) + ", library scratch " + std::to_string(summary.scratch_bytes));
    std::vector<const plan::Buffer*> largest;
    for (const plan::Buffer& b : c_.emitted.bundle.ranks[r].buffers) largest.push_back(&b);
    std::stable_sort(largest.begin(), largest.end(), [](const auto* a, const auto* b) { return a->bytes > b->bytes; });
    for (size_t i = 0; i < largest.size() && i < 5; ++i)
      error.note(largest[i]->name + ": " + std::to_string(largest[i]->bytes) + " bytes");
    error.help("use more microbatches, more stages or more ranks");
    return error;
  }
  return Status();
}

Status Driver::write() {
  return plan::write_bundle(options_.output, c_.emitted.bundle, c_.emitted.parameters, c_.emitted.constants,
                            options_.weights, [this] { return verify(); });
}

void Driver::print_expansion() {
  if (options_.expand == Expand::kCsv) {
    if (!c_.strategy.schedule) diags_.warning("P0233") << "there is no table to print: the strategy has no schedule";
    out_ << strategy::print_csv(c_.schedule.table);
  } else if (options_.expand == Expand::kYaml) {
    const bool none = !c_.strategy.schedule && c_.strategy.directives.empty();
    out_ << (none ? "directives: []\n" : "directives:\n");
    if (c_.strategy.schedule) out_ << "  - {op: split, num_microbatches: " << c_.dag.num_microbatches << "}\n";
    for (const auto* list :
         {&c_.strategy.directives, &c_.schedule.placement, &c_.schedule.replication, &c_.schedule.orders})
      for (const strategy::Directive& directive : *list) out_ << "  - " << strategy::to_string(directive) << "\n";
  }
}

void Driver::print_state(const std::string& phase) {
  if (!options_.print_ir_after.empty()) {
    if (!std::regex_search(phase, std::regex(options_.print_ir_after))) return;
    err_ << "// after " << phase << "\n";
  }
  const bool dag_exists = !c_.dag.nodes.empty();
  if (dag_exists) {
    print_dag(c_.dag, c_.variants[0].chunked.graph, err_);
  } else if (!c_.variants.empty()) {
    err_ << ir::print(c_.variants[0].chunked.graph);
  } else if (!c_.chunked.empty()) {
    err_ << ir::print(c_.chunked.begin()->second.graph);
  }
}

Status Driver::run() {
  using Phase = std::pair<const char*, std::function<Status()>>;
  std::vector<Phase> phases = {
      {"load", [&] { return load(); }},   {"bind", [&] { return bind(); }},
      {"place", [&] { return place(); }}, {"differentiate", [&] { return differentiate(); }},
      {"build", [&] { return build(); }}, {"order", [&] { return order(); }},
      {"emit", [&] { return emit(); }},
  };
  // The proof runs beside the writing where there is one.
  if (options_.output.empty() || options_.stop_after == "verify")
    phases.push_back({"verify", [&] { return verify(); }});
  else phases.push_back({"write", [&] { return write(); }});
  for (const auto& [name, phase] : phases) {
    const auto begin = std::chrono::steady_clock::now();
    PIPER_RETURN_IF_ERROR(phase());
    if (options_.time_phases)
      err_ << std::left << std::setw(16) << name
           << std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count() << " ms\n";
    if (!options_.print_ir_after.empty()) print_state(name);
    const std::string at = name;
    if (at == "place") print_expansion();
    if (at == "differentiate" && options_.emit == Emit::kGraph) out_ << ir::print(c_.variants[0].chunked.graph);
    if (at == "order" && options_.emit == Emit::kDag) print_dag(c_.dag, c_.variants[0].chunked.graph, out_);
    if (at == "emit" && options_.emit == Emit::kPlan)
      for (const plan::RankPlan& plan : c_.emitted.bundle.ranks)
        out_ << plan::print_rank_plan(plan, c_.emitted.bundle.provenance, c_.emitted.bundle.programs);
    if (at == options_.stop_after) break;
  }
  return Status();
}

}  // namespace

const std::vector<std::string>& phase_names() {
  static const std::vector<std::string> names = {"load",  "bind", "place",  "differentiate", "build",
                                                 "order", "emit", "verify", "write"};
  return names;
}

Status compile(const CompileOptions& options, diag::Diagnostics& diags, std::ostream& out, std::ostream& err) {
  const KeptHelpers helpers(loop_threads() - 1);
  auto driver = std::make_unique<Driver>(options, diags, out, err);
  Status status = driver->run();
  if (options.process_ends_next) {
    driver->end_threads();
    static Driver* left = nullptr;  // never destroyed
    left = driver.release();
    (void)left;
  }
  return status;
}

}  // namespace piper::driver
