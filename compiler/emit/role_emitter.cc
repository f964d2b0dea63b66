#include "compiler/emit/role_emitter.h"

#include <algorithm>

#include "compiler/emit/divide_workspaces.h"
#include "compiler/emit/sort_declarations.h"
#include "compiler/emit/step_programs.h"
#include "schemas/base/check.h"

namespace piper::emit {

using plan::BufferClass;
using plan::BufferRange;

// ------------------------------------------------------------------ instructions
int32_t RoleEmitter::stream(const std::string& name, uint32_t dag_stream) {
  auto [it, fresh] = streams_.emplace(name, static_cast<int32_t>(plan_.streams.size()));
  if (fresh) plan_.streams.push_back(s_.stream(name, dag_stream));
  return it->second;
}

int32_t RoleEmitter::stream_of(uint32_t dag_stream) {
  if (dag_stream >= stream_of_.size()) stream_of_.resize(module_.distribution.streams.size(), -1);
  int32_t& known = stream_of_[dag_stream];
  if (known < 0) known = stream(module_.distribution.streams[dag_stream], dag_stream);
  return known;
}

RoleEmitter::Lane RoleEmitter::channel(uint32_t number, uint32_t dag_stream) {
  const auto [lane, fresh] = lanes_.try_emplace(number);
  if (fresh) {
    const std::string& name = s_.connections.name(number);
    lane->second = {static_cast<int32_t>(plan_.channels.size()), stream(name, dag_stream)};
    plan_.channels.push_back({name, -1, static_cast<int32_t>(dag_stream)});
  }
  return lane->second;
}

RoleEmitter::Lane RoleEmitter::communicator(uint32_t number, uint32_t dag_stream) {
  const auto [lane, fresh] = lanes_.try_emplace(number);
  if (fresh) {
    const std::string& name = s_.connections.name(number);
    lane->second = {static_cast<int32_t>(plan_.communicators.size()), stream(name, dag_stream)};
    plan_.communicators.push_back({name, {}, plan_.streams[lane->second.stream].max_ctas});
  }
  return lane->second;
}

void RoleEmitter::add(int32_t stream_index, plan::Action action, std::initializer_list<Access> accesses,
                      int32_t provenance) {
  trace_.instructions.push_back({{stream_index, action, provenance}, static_cast<uint32_t>(trace_.accesses.size())});
  trace_.accesses.insert(trace_.accesses.end(), accesses);
}

template <class Launch>
void RoleEmitter::launch(Launch instruction, std::string arguments_name, std::vector<BufferRange> arguments,
                         int32_t provenance, int32_t stream_index) {
  const plan::Program& p = s_.program(instruction.program);
  instruction.arguments = static_cast<int32_t>(plan_.arguments.size());
  instruction.workspace = workspace(p.workspace_bytes, stream_index);
  add(stream_index, instruction, {}, provenance);
  trace_.instructions.back().workspace_bytes = p.workspace_bytes;
  for (size_t slot = 0; slot < p.slots.size(); ++slot)
    touch({arguments[slot].buffer, p.slots[slot].reads, p.slots[slot].writes});
  if (instruction.workspace.buffer >= 0) touch({instruction.workspace.buffer, true, true});
  plan_.arguments.push_back({std::move(arguments_name), std::move(arguments)});
}
template void RoleEmitter::launch(plan::Update, std::string, std::vector<BufferRange>, int32_t, int32_t);

void RoleEmitter::run(int32_t program, std::string arguments_name, std::vector<BufferRange> arguments,
                      int32_t provenance, int32_t stream_index) {
  launch(plan::Run{program}, std::move(arguments_name), std::move(arguments), provenance, stream_index);
}

// ------------------------------------------------------------------ nodes
// Whether a buffer of the class is the same for every microbatch of a chunk.
static bool outlives_microbatches(BufferClass cls) {
  return cls == BufferClass::kParameter || cls == BufferClass::kGradient || cls == BufferClass::kState ||
         cls == BufferClass::kConstant;
}

void RoleEmitter::emit(const Visit& at, const ir::ComputeNode& n) {
  const size_t variant = s_.variant_of_group(at.node.group);
  const ir::LoweredProgram* lowered = s_.find(variant, n.chunk, n.phase, n.microbatch);
  PIPER_CHECK(lowered != nullptr, "no program for ", module_.chunks()[n.chunk.index].name);
  const int32_t index = s_.program_index(variant, n.chunk, n.phase, n.microbatch);
  const int32_t on = stream_of(at.node.stream);
  if (const auto clears = module_.state.clears.find(at.id); clears != module_.state.clears.end())
    for (const ir::Clear& clear : clears->second) clear_gradients(clear.bucket, clear.microbatch, at.provenance, on);
  std::vector<BufferRange>& fixed = fixed_arguments_[lowered];
  fixed.resize(lowered->holds.size());
  std::vector<BufferRange> arguments = fixed;
  for (size_t slot = 0; slot < arguments.size(); ++slot) {
    if (arguments[slot].buffer >= 0) continue;
    arguments[slot] = bind(lowered->holds[slot], lowered->program.slots[slot], variant, n, at);
    if (outlives_microbatches(plan_.buffers[arguments[slot].buffer].cls)) fixed[slot] = arguments[slot];
  }
  run(index, pass_name(module_, n), std::move(arguments), at.provenance, on);
  trace_.instructions.back().pass = true;
  if (module_.step.split) plan_.arguments.edit().back().microbatch = n.microbatch;
}

void RoleEmitter::clear_gradients(ir::BucketId id, int32_t microbatch, int32_t provenance, int32_t stream_index) {
  const BufferRange whole = start_of(s_.buffers.gradients(id, microbatch));
  run(s_.intern_program(clear_program(bucket(id).bytes, bucket(id).dtype)), "clear " + plan_.buffers[whole.buffer].name,
      {whole}, provenance, stream_index);
}

Status RoleEmitter::visit(const Visit& at) {
  if (const auto* message = std::get_if<ir::TransferNode>(&at.node.payload)) return transfer(at, *message);
  struct Visitor {
    RoleEmitter& e;
    const Visit& at;
    void operator()(const ir::ComputeNode& n) { e.emit(at, n); }
    void operator()(const ir::CollectiveNode& n) { e.emit(at, n); }
    void operator()(const ir::TransferNode&) {}
    void operator()(const ir::StepNode& n) {
      std::visit([&](const auto& work) { e.emit(at, work); }, n.work);
    }
    void operator()(const ir::UpdateNode& n) { e.emit(at, n); }
  };
  std::visit(Visitor{*this, at}, at.node.payload);
  return Status();
}

Result<RolePlan> RoleEmitter::emit() {
  stream_of(0);
  buffers_.reserve(2 * role_.nodes.size());  // about as many
  // Streams of one device keep an order that the strategy asks for by an event.
  std::unordered_map<uint32_t, std::vector<ir::NodeId>> ordered_after;
  const bool several_streams = module_.distribution.has_several_compute_streams();
  if (several_streams)
    for (const ir::Edge& edge : module_.dag.edges)
      if (edge.kind == ir::EdgeKind::kOrder &&
          module_.dag.nodes[edge.from.index].stream != module_.dag.nodes[edge.to.index].stream)
        ordered_after[edge.to.index].push_back(edge.from);
  std::unordered_map<uint32_t, uint32_t> last;  // node -> its last instruction here
  for (size_t place = 0; place < role_.nodes.size(); ++place) {
    const ir::NodeId id = role_.nodes[place];
    const ir::Node& node = module_.dag.nodes[id.index];
    const auto first = static_cast<uint32_t>(trace_.size());
    PIPER_RETURN_IF_ERROR(visit({id, node, role_.communicators[place], role_.messages_of(place),
                                 role_.updates_of(place), s_.provenance(node.prov)}));
    if (!several_streams || trace_.size() == first) continue;
    for (ir::NodeId from : ordered_after[id.index])
      if (const auto it = last.find(from.index); it != last.end()) trace_.ordered.emplace_back(first, it->second);
    last[id.index] = static_cast<uint32_t>(trace_.size() - 1);
  }
  place_model();
  const int64_t alignment = plan::buffer_alignment(s_.request.target.device);
  divide_workspaces(plan_, trace_);
  place_buffers(plan_, trace_, alignment, s_.request.packs);
  const SortedDeclarations sorted = sort_declarations(plan_);
  for (SampleOrigin& origin : out_.samples) origin.buffer = sorted.buffers[origin.buffer];
  for (PartArgument& part : out_.parts) part.list = sorted.arguments[part.list];
  std::stable_sort(out_.parts.begin(), out_.parts.end(),
                   [](const PartArgument& a, const PartArgument& b) { return a.list < b.list; });
  place_persistent(plan_, alignment);
  return std::move(out_);
}

}  // namespace piper::emit
