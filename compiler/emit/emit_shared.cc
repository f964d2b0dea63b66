#include "compiler/emit/emit_shared.h"

#include <algorithm>
#include <numeric>

#include "compiler/emit/role_emitter.h"
#include "schemas/base/check.h"
#include "schemas/plan/names.h"

namespace piper::emit {
namespace {

std::string content_key(const ir::TensorType& type, const ir::WeightSource& source) {
  std::string key = ir::to_string(type) + "|";
  if (source.data) {
    key.append(reinterpret_cast<const char*>(source.data->data()), source.data->size());
  } else {
    key += source.file + "|" + std::to_string(source.offset) + "|" + std::to_string(source.bytes);
  }
  return key;
}

constexpr size_t kNoVariant = static_cast<size_t>(-1);

size_t variant_for(const ir::Module& module, const ir::DeviceGroup& group) {
  const ir::ModelVariant* variant = module.variant_for(group.replicas());
  return variant == nullptr ? kNoVariant : static_cast<size_t>(variant - module.variants.data());
}

}  // namespace

plan::WeightTensor weight_tensor(const std::string& name, const ir::TensorType& type, const ir::WeightSource& source) {
  plan::WeightTensor w;
  w.name = name;
  w.dtype = type.dtype;
  w.shape = type.shape;
  w.file = source.file;
  w.offset = source.offset;
  w.bytes = source.file.empty() ? static_cast<int64_t>(source.data ? source.data->size() : 0) : source.bytes;
  w.data = source.data ? source.data->data() : nullptr;
  w.permutation = source.permutation;
  return w;
}

plan::Stream EmitShared::stream(std::string name, uint32_t of) const {
  plan::Stream stream;
  for (const plan::Stream& resources : module.distribution.resources)
    if (resources.name == module.distribution.streams[of]) stream = resources;
  stream.name = std::move(name);
  return stream;
}

EmitShared::EmitShared(const EmitRequest& r)
    : request(r),
      module(*r.module),
      connections(module),
      buffers(module, reports_norms()),
      sums(ir::step_sums(module.graph())),
      work_(module.variants.size() * module.chunks().size() * ir::kNumPhases) {
  for (const ir::DeviceGroup& group : module.distribution.groups) variant_of_.push_back(variant_for(module, group));
  provenance_of_.assign(module.provenance.size(), -1);
  for (const ir::Node& node : module.dag.nodes)
    if (node.prov.valid() && provenance_of_[node.prov.index] < 0)
      provenance_of_[node.prov.index] = intern_provenance(node.prov);
  std::map<std::string, uint32_t> by_content;
  constant_of_.resize(module.variants.size());
  for (size_t v = 0; v < module.variants.size(); ++v) {
    const ir::LoweredGraph& lowered = module.variants[v].lowered;
    for (const ir::LoweredProgram& program : lowered.programs)
      work(v, program.chunk, program.phase).program.lowered = &program;
    for (const ir::LoweredProgram& program : lowered.repeating)
      work(v, program.chunk, program.phase).repeating.lowered = &program;
    for (const ir::Exchange& exchange : lowered.exchanges) work(v, exchange.chunk, exchange.phase).exchange = &exchange;
    const ir::Graph& graph = module.variants[v].chunked.graph;
    for (const ir::Constant& c : graph.constants()) {
      const ir::TensorType& type = graph.type(c.value);
      const auto [content, fresh] =
          by_content.emplace(content_key(type, c.source), static_cast<uint32_t>(constants_.size()));
      if (fresh) {
        std::string name = graph.value(c.value).name;
        if (v != 0) name += ".b" + std::to_string(module.variants[v].local_batch);
        constants_.push_back({name, weight_tensor(name, type, c.source), false});
      }
      constant_of_[v].push_back(content->second);
    }
  }
}

plan::GroupUpdate EmitShared::update_of(const ir::Bucket& bucket) const {
  const uint32_t first = module.state.accumulators[bucket.accumulators[0].index].parameter;
  return plan::group_update(module.training.optimizer, module.training.group_of[first]);
}

int32_t EmitShared::intern_program(plan::Program program) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto [it, fresh] = program_names_.emplace(program.name, static_cast<int32_t>(programs_.size()));
  if (fresh) programs_.push_back(std::move(program));
  return it->second;
}

const plan::Program& EmitShared::program(int32_t index) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return programs_[index];
}

const ir::LoweredProgram* EmitShared::find(size_t variant, ir::ChunkId chunk, ir::Phase phase,
                                           int32_t microbatch) const {
  const Work& asked = work(variant, chunk, phase);
  return (module.distribution.repeats(chunk, microbatch) ? asked.repeating : asked.program).lowered;
}

const ir::Exchange& EmitShared::find_exchange(size_t variant, ir::ChunkId chunk, ir::Phase phase) const {
  const ir::Exchange* exchange = work(variant, chunk, phase).exchange;
  PIPER_CHECK(exchange != nullptr, "no exchange in ", module.chunks()[chunk.index].name);
  return *exchange;
}

int32_t EmitShared::program_index(size_t variant, ir::ChunkId chunk, ir::Phase phase, int32_t microbatch) {
  const bool repeats = module.distribution.repeats(chunk, microbatch);
  Work::Program& asked = repeats ? work(variant, chunk, phase).repeating : work(variant, chunk, phase).program;
  if (const int32_t known = asked.index; known >= 0) return known;
  plan::Program program = asked.lowered->program;
  const int64_t samples = module.variants[variant].local_batch;
  program.of = plan::ChunkPass{static_cast<int32_t>(chunk.index),
                               ir::pass_of(phase, module.distribution.backward_split(chunk)), samples, repeats};
  program.name = module.chunks()[chunk.index].name + "." + std::string(plan::pass_name(program.of->pass)) +
                 (repeats ? "-recomputing" : "") + ".b" + std::to_string(samples);
  return asked.index = intern_program(std::move(program));  // the same whoever comes first
}

const std::string& EmitShared::use_constant(uint32_t number) {
  const std::lock_guard<std::mutex> lock(mutex_);
  constants_[number].used = true;
  return constants_[number].name;
}

ir::ScalarId EmitShared::count_of(ir::ValueId step_sum) const {
  const auto& scalars = module.dag.scalars;
  const auto row = std::find_if(scalars.begin(), scalars.end(),
                                [&](const ir::StepScalar& scalar) { return scalar.value == step_sum; });
  PIPER_CHECK(row != scalars.end(), "no scalar counts value ", step_sum.index);
  return ir::ScalarId(row - scalars.begin());
}

ir::ScalarId EmitShared::scalar_read_by(ir::ScalarReader reader) const {
  const auto& scalars = module.dag.scalars;
  const auto row = std::find_if(scalars.begin(), scalars.end(),
                                [&](const ir::StepScalar& scalar) { return scalar.reader == reader; });
  PIPER_CHECK(row != scalars.end(), "nothing makes what updates read");
  return ir::ScalarId(row - scalars.begin());
}

size_t EmitShared::variant_of_group(ir::GroupId group) const {
  PIPER_CHECK(variant_of_[group.index] != kNoVariant, "no variant for a group of ", module.distribution.replicas(group),
              " replicas");
  return variant_of_[group.index];
}

bool EmitShared::sends_whole_parts(ir::ChunkId exchange) const {
  const int32_t shard = module.distribution.chunks[exchange.index].shard;
  return request.target.device == plan::DeviceKind::kCuda && shard >= 0 &&
         module.distribution.expert_groups[static_cast<size_t>(shard)].bound.has_value();
}

int32_t EmitShared::intern_provenance(ir::ProvId id) {
  const ir::Provenance& table = module.provenance;
  const ir::ProvEntry& entry = table.entry(id);
  std::string key, why;
  if (const auto* model = std::get_if<ir::ModelOrigin>(&entry)) key = model->node;
  else if (const auto* directive = std::get_if<ir::DirectiveOrigin>(&entry)) key = directive->place;
  else if (const auto* unknown = std::get_if<ir::UnknownOrigin>(&entry)) key = unknown->why;
  else {
    const auto& derived = std::get<ir::DerivedOrigin>(entry);
    key = derived.pass;
    why = derived.why;
    for (ir::ProvId parent : derived.parents)
      if (const auto* of = std::get_if<ir::DirectiveOrigin>(&table.entry(parent))) key += "@" + of->place;
  }
  auto [known, first] = provenance_keys_.emplace(key, static_cast<int32_t>(provenance_.size()));
  if (first) provenance_.push_back({key, table.describe_place(id), why});
  return known->second;
}

void EmitShared::finish(Emitted& out, std::vector<RolePlan>& roles) {
  std::vector<int32_t> order(programs_.size()), position(programs_.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return programs_[a].name < programs_[b].name; });
  for (size_t i = 0; i < order.size(); ++i) {
    position[order[i]] = static_cast<int32_t>(i);
    out.bundle.programs.push_back(std::move(programs_[order[i]]));
  }
  std::vector<int32_t> place(provenance_.size(), -1);
  for (RolePlan& role : roles)
    for (plan::Instruction& instruction : role.plan.instructions.edit()) {
      if (auto* run = std::get_if<plan::Run>(&instruction.action)) run->program = position[run->program];
      if (auto* update = std::get_if<plan::Update>(&instruction.action)) update->program = position[update->program];
      if (instruction.provenance < 0) continue;
      int32_t& at = place[instruction.provenance];
      if (at < 0) {
        at = static_cast<int32_t>(out.bundle.provenance.size());
        out.bundle.provenance.push_back(std::move(provenance_[instruction.provenance]));
      }
      instruction.provenance = at;
    }
  for (NamedConstant& constant : constants_)
    if (constant.used) out.constants.push_back(std::move(constant.tensor));
  std::sort(out.constants.begin(), out.constants.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
}

}  // namespace piper::emit
