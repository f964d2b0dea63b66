#include "runtime/exec/load_rank.h"

#include <algorithm>
#include <array>

#include "runtime/exec/instruction_text.h"
#include "runtime/exec/rehearse.h"
#include "schemas/plan/collective_costs.h"
#include "schemas/plan/convert_elements.h"

namespace piper::exec {

namespace {

constexpr auto kNumClasses = static_cast<size_t>(plan::kNumBufferClasses);

int64_t aligned(const LoadedRank& rank, int64_t bytes) {
  const int64_t alignment = plan::buffer_alignment(rank.bundle->manifest.target.device);
  return (bytes + alignment - 1) / alignment * alignment;
}

using ClassBytes = std::array<int64_t, kNumClasses>;

void add_regions(const LoadedRank& rank, ClassBytes& class_bytes) {
  for (const plan::Buffer& buffer : rank.plan->buffers) {
    int64_t& bytes = class_bytes[static_cast<size_t>(buffer.cls)];
    bytes = std::max(bytes, aligned(rank, buffer.offset + buffer.bytes));
  }
  int64_t& arena = class_bytes[static_cast<size_t>(plan::BufferClass::kArena)];
  arena = std::max(arena, rank.plan->arena_bytes);
}

void find_buffers(LoadedRank& rank, const ClassBytes& class_offset) {
  for (const plan::Buffer& buffer : rank.plan->buffers) {
    const hal::Address region = buffer.cls == plan::BufferClass::kArena
                                    ? rank.arena->base()
                                    : rank.persistent->base() + class_offset[static_cast<size_t>(buffer.cls)];
    rank.buffers.push_back(region + buffer.offset);
  }
}

// One region for the arena; one for all persistent classes, class after class. An evaluation has the same ones: its
// plan has what is in both at the training's offsets, and the rest after it.
Status allocate_buffers(LoadedRank& rank) {
  ClassBytes class_bytes{};
  add_regions(rank, class_bytes);
  if (rank.evaluation != nullptr) add_regions(*rank.evaluation, class_bytes);
  const auto arena_class = static_cast<size_t>(plan::BufferClass::kArena);
  ClassBytes class_offset{};
  int64_t persistent = 0;
  for (size_t c = 0; c < kNumClasses; ++c) {
    if (c == arena_class) continue;
    class_offset[c] = persistent;
    persistent += class_bytes[c];
  }
  PIPER_ASSIGN(rank.arena, rank.device().allocate(class_bytes[arena_class]));
  PIPER_ASSIGN(rank.persistent, rank.device().allocate(persistent));
  find_buffers(rank, class_offset);
  if (rank.evaluation == nullptr) return {};
  rank.evaluation->arena = rank.arena;
  rank.evaluation->persistent = rank.persistent;
  find_buffers(*rank.evaluation, class_offset);
  return {};
}

// Elements that a file holds, in the type that this rank has them in. `converted`: kept from call to call.
Status write_as(const LoadedRank& rank, hal::Address to, DType dtype, const std::byte* data, DType stored,
                int64_t count, std::vector<std::byte>& converted) {
  const int64_t bytes = count * dtype_bytes(dtype);
  if (stored == dtype) return rank.device().write(to, data, bytes);
  converted.resize(static_cast<size_t>(bytes));
  convert_elements(stored, data, dtype, converted.data(), count);
  return rank.device().write(to, converted.data(), bytes);
}

// From a checkpoint; what it holds in another type is converted.
Status fill_state(LoadedRank& rank, const Beginning& beginning) {
  const checkpoint::WeightSource* const weights = beginning.weights;
  const checkpoint::OpenCheckpoint& resume = *beginning.resume;
  const plan::Manifest& manifest = rank.bundle->manifest;
  std::vector<checkpoint::StatePart> parts = checkpoint::state_parts(manifest, *rank.plan);
  if (beginning.evaluates_only) {
    std::erase_if(parts, [](const checkpoint::StatePart& part) {
      return part.kind != checkpoint::StateKind::kParameter && part.kind != checkpoint::StateKind::kBuffer;
    });
    PIPER_RETURN_IF_ERROR(checkpoint::check_same_model(resume.manifest(), manifest, parts));
  } else {
    PIPER_RETURN_IF_ERROR(checkpoint::check_same_training(resume.manifest(), manifest, parts));
  }
  std::vector<std::byte> converted;
  for (const checkpoint::StatePart& part : parts) {
    const checkpoint::StoredTensor* stored = checkpoint::find_tensor(resume.manifest(), part.kind, part.name);
    if (stored == nullptr) continue;
    const int64_t from_bytes = dtype_bytes(stored->dtype), to_bytes = dtype_bytes(part.dtype);
    const plan::ElementOrder order(part.shape, part.along);
    PIPER_RETURN_IF_ERROR(resume.read(
        *stored, order, part.first, part.count, [&](int64_t offset, const std::byte* data, int64_t bytes) -> Status {
          if (weights != nullptr && part.kind == checkpoint::StateKind::kParameter)
            PIPER_RETURN_IF_ERROR(
                weights->check_fixed(part.name, part.first * from_bytes + offset, data, bytes, order));
          return write_as(rank, rank.at(part.where) + offset / from_bytes * to_bytes, part.dtype, data, stored->dtype,
                          bytes / from_bytes, converted);
        }));
  }
  return {};
}

// From the weights, where it is one.
Status fill_placement(LoadedRank& rank, const checkpoint::WeightSource* weights, const plan::Placement& in_buffer,
                      const plan::PartsByName& along) {
  if (weights == nullptr || !checkpoint::is_weight(in_buffer)) return {};
  const plan::Placement placement = along.in_files(in_buffer);
  const plan::Part& part = placement.part;
  PIPER_ASSIGN(const plan::TensorView view, weights->find(placement));
  if (part.count == 0) return {};
  const plan::ElementOrder order(placement.shape, along.of(placement.name, placement.shape));
  std::vector<std::byte> converted;
  return weights
      ->read(view, order, part.first, part.count,
             [&](int64_t at, int64_t n, const std::byte* data) {
               return write_as(rank, rank.at(part.where) + at * dtype_bytes(placement.dtype), placement.dtype, data,
                               view.dtype, n, converted);
             })
      .with_context("tensor '" + placement.name + "'");
}

Status fill_buffers(LoadedRank& rank, const Beginning& beginning) {
  for (const plan::ScalarValue& scalar : rank.plan->scalars)
    PIPER_RETURN_IF_ERROR(rank.device().write(rank.at({scalar.buffer, 0}), scalar.values.data(),
                                              static_cast<int64_t>(scalar.values.size() * sizeof(int64_t))));
  if (rank.plan->loss_scale.buffer >= 0) {
    const auto scale = static_cast<float>(rank.bundle->manifest.loss_scale);
    PIPER_RETURN_IF_ERROR(rank.device().write(rank.at(rank.plan->loss_scale), &scale, sizeof scale));
  }
  const plan::PartsByName along(rank.bundle->manifest);
  for (const plan::Placement& placement : rank.plan->placements)
    if (beginning.resume == nullptr || placement.kind == plan::PlacementKind::kConstant)
      PIPER_RETURN_IF_ERROR(fill_placement(rank, beginning.weights, placement, along));
  if (rank.evaluation != nullptr)
    for (const plan::Placement& placement : rank.evaluation->plan->placements)
      if (placement.kind == plan::PlacementKind::kConstant)
        PIPER_RETURN_IF_ERROR(fill_placement(*rank.evaluation, beginning.weights, placement, along));
  return beginning.resume == nullptr ? Status() : fill_state(rank, beginning);
}

Status clear(hal::Device& device, const hal::MemoryRegion& region) {
  constexpr int64_t kBlock = int64_t{1} << 20;
  const std::vector<std::byte> zeros(static_cast<size_t>(kBlock));
  for (int64_t at = 0; at < region.bytes(); at += kBlock)
    PIPER_RETURN_IF_ERROR(device.write(region.base() + at, zeros.data(), std::min(kBlock, region.bytes() - at)));
  return {};
}

void add_scratch(const plan::RankPlan& plan, std::vector<int64_t>& bytes) {
  for (const plan::Instruction& instruction : plan.instructions) {
    int64_t& most = bytes.at(static_cast<size_t>(instruction.stream));
    most = std::max(most, plan::collective_scratch_bytes(plan, instruction.action));
  }
}

// One block per stream, as large as its largest collective needs. Where each begins.
Result<std::vector<hal::Address>> allocate_scratch(LoadedRank& rank) {
  std::vector<int64_t> bytes(rank.plan->streams.size(), 0);
  add_scratch(*rank.plan, bytes);
  if (rank.evaluation != nullptr) add_scratch(*rank.evaluation->plan, bytes);
  int64_t total = 0;
  for (int64_t stream_bytes : bytes) total += aligned(rank, stream_bytes);
  PIPER_ASSIGN(rank.scratch, rank.device().allocate(total));
  if (rank.evaluation != nullptr) rank.evaluation->scratch = rank.scratch;
  std::vector<hal::Address> scratch;
  int64_t offset = 0;
  for (int64_t stream_bytes : bytes) {
    scratch.push_back(rank.scratch->base() + offset);
    offset += aligned(rank, stream_bytes);
  }
  return scratch;
}

struct PrepareAction {
  int32_t stream;
  PrepareContext& context;
  hal::MadeCommand operator()(const plan::Run& a) const { return prepare_run(a, stream, context); }
  hal::MadeCommand operator()(const plan::Send& a) const { return prepare_send(a, stream, context); }
  hal::MadeCommand operator()(const plan::Recv& a) const { return prepare_recv(a, stream, context); }
  hal::MadeCommand operator()(const plan::AllReduce& a) const { return prepare_all_reduce(a, stream, context); }
  hal::MadeCommand operator()(const plan::ReduceScatter& a) const { return prepare_reduce_scatter(a, stream, context); }
  hal::MadeCommand operator()(const plan::AllGather& a) const { return prepare_all_gather(a, stream, context); }
  hal::MadeCommand operator()(const plan::AllToAll& a) const { return prepare_all_to_all(a, stream, context); }
  hal::MadeCommand operator()(const plan::Record& a) const { return prepare_record(a, stream, context); }
  hal::MadeCommand operator()(const plan::Wait& a) const { return prepare_wait(a, stream, context); }
  hal::MadeCommand operator()(const plan::Update& a) const { return prepare_update(a, stream, context); }
};

// An event counts submissions: a second record in a step would release a wait meant for the first.
Status check_events(const plan::RankPlan& plan) {
  std::vector<int32_t> recorded(plan.events.size(), 0);
  for (const plan::Instruction& instruction : plan.instructions)
    if (const auto* record = std::get_if<plan::Record>(&instruction.action))
      if (++recorded.at(static_cast<size_t>(record->event)) == 2)
        return Status::failure(
            "R0404", "event '" + plan.events[static_cast<size_t>(record->event)] + "' is recorded twice in a step");
  return {};
}

Status prepare_commands(LoadedRank& rank, PrepareContext& context) {
  for (size_t i = 0; i < rank.plan->instructions.size(); ++i) {
    const plan::Instruction& instruction = rank.plan->instructions[i];
    hal::MadeCommand command = std::visit(PrepareAction{instruction.stream, context}, instruction.action);
    if (!command.ok())
      return command.take_status().with_context(
          describe_instruction(*rank.bundle, *rank.plan, static_cast<int32_t>(i)));
    rank.commands.push_back(std::move(command).value());
  }
  return {};
}

// The step, with what goes before its updates.
std::vector<hal::Issue> issues_of(const LoadedRank& rank, const GradientCapture* capture) {
  std::vector<hal::Issue> issues;
  for (size_t i = 0; i < rank.commands.size(); ++i) {
    const plan::Instruction& instruction = rank.plan->instructions[i];
    const auto index = static_cast<int32_t>(i);
    if (capture != nullptr)
      for (hal::Command* copy : capture->before(index)) issues.push_back({instruction.stream, index, copy});
    issues.push_back({instruction.stream, index, rank.commands[i].get()});
  }
  return issues;
}

// The groups of an evaluation's communicators, which are some of its training's.
Result<std::vector<hal::Group*>> groups_of(const LoadedRank& training, const plan::RankPlan& plan) {
  std::vector<hal::Group*> groups;
  for (const plan::Communicator& communicator : plan.communicators) {
    const std::vector<plan::Communicator>& all = training.plan->communicators;
    const auto found = std::find_if(all.begin(), all.end(), [&](const plan::Communicator& known) {
      return known.name == communicator.name && known.ranks == communicator.ranks;
    });
    if (found == all.end())
      return Status::failure("R0404", "the training has no communicator '" + communicator.name + "'");
    groups.push_back(training.groups[static_cast<size_t>(found - all.begin())].get());
  }
  return groups;
}

// Makes the commands of a rank whose memory and groups are there, and records them.
Status record_step(LoadedRank& rank, std::vector<hal::Group*> groups, std::vector<hal::Address> scratch) {
  hal::Device& device = rank.device();
  PIPER_RETURN_IF_ERROR(check_events(*rank.plan));
  for (const std::string& name : rank.plan->events) {
    PIPER_ASSIGN(auto event, device.make_event(name));
    rank.events.push_back(std::move(event));
  }
  PrepareContext context;
  context.bundle = rank.bundle;
  context.plan = rank.plan;
  context.device = &device;
  context.kernels = rank.backend->kernels.get();
  context.collectives = rank.backend->collectives.get();
  context.groups = std::move(groups);
  context.events = &rank.events;
  context.buffers = rank.buffers;
  context.programs = &rank.programs;
  context.scratch = std::move(scratch);
  PIPER_RETURN_IF_ERROR(prepare_commands(rank, context));
  if (const kernels::FaultRecord record = context.kernels->fault_record(); !record.place.nowhere()) {
    PIPER_ASSIGN(rank.faults, device.make_download(record.place, record.bytes));
  }
  PIPER_ASSIGN(rank.step, device.record(issues_of(rank, nullptr)));
  return {};
}

// Where the bundle has an evaluation for this rank.
std::unique_ptr<LoadedRank> evaluation_of(LoadedRank& rank) {
  for (const plan::Bundle& evaluation : rank.bundle->evaluation)
    for (const plan::RankPlan& plan : evaluation.ranks)
      if (plan.rank == rank.plan->rank) {
        auto loaded = std::make_unique<LoadedRank>();
        loaded->bundle = &evaluation;
        loaded->plan = &plan;
        loaded->backend = rank.backend;
        loaded->training = &rank;
        return loaded;
      }
  return nullptr;
}

}  // namespace

void LoadedRank::close() {
  end_recordings();
  backend->collectives->close();
}

void LoadedRank::end_recordings() {
  LoadedRank& whole = training == nullptr ? *this : *training;
  for (LoadedRank* part : {&whole, whole.evaluation.get()}) {
    if (part == nullptr) continue;
    part->capturing_step.reset();
    part->step.reset();
  }
}

Status fill_again(LoadedRank& rank, const Beginning& beginning) {
  for (const auto& region : {rank.arena, rank.persistent}) PIPER_RETURN_IF_ERROR(clear(rank.device(), *region));
  return fill_buffers(rank, beginning);
}

Result<std::unique_ptr<LoadedRank>> load_rank(const plan::Bundle& bundle, const plan::RankPlan& plan,
                                              const Beginning& beginning, Backend backend, hal::ControlChannel& control,
                                              const hal::WaitControl& wait, bool save_gradients) {
  auto rank = std::make_unique<LoadedRank>();
  rank->bundle = &bundle;
  rank->plan = &plan;
  rank->backend = std::make_shared<const Backend>(std::move(backend));
  rank->evaluation = evaluation_of(*rank);
  hal::Device& device = rank->device();
  hal::Collectives& collectives = *rank->backend->collectives;
  PIPER_RETURN_IF_ERROR(allocate_buffers(*rank));
  // A rehearsal writes to all of them.
  const bool rehearses = rank->backend->kernels->wants_rehearsal();
  if (!rehearses) PIPER_RETURN_IF_ERROR(fill_buffers(*rank, beginning));
  PIPER_RETURN_IF_ERROR(control.barrier(hal::for_files(wait)));  // a rank may read its weights longer than the others
  PIPER_ASSIGN(rank->groups, collectives.open_groups(plan.communicators, control, wait));
  PIPER_ASSIGN(const std::vector<hal::Address> scratch, allocate_scratch(*rank));
  for (const auto& region : {rank->arena, rank->persistent, rank->scratch}) collectives.keep(region);
  PIPER_ASSIGN(std::vector<hal::Group*> groups, groups_of(*rank, plan));
  PIPER_RETURN_IF_ERROR(record_step(*rank, std::move(groups), scratch));
  if (save_gradients) {
    PIPER_ASSIGN(rank->gradients, GradientCapture::make(bundle, plan, rank->buffers, device));
    PIPER_ASSIGN(rank->capturing_step, device.record(issues_of(*rank, rank->gradients.get())));
  }
  if (rank->evaluation != nullptr) {
    PIPER_ASSIGN(groups, groups_of(*rank, *rank->evaluation->plan));
    PIPER_RETURN_IF_ERROR(record_step(*rank->evaluation, std::move(groups), scratch).with_context("evaluation"));
  }
  if (!rehearses) return rank;
  PIPER_RETURN_IF_ERROR(rehearse(*rank, wait));
  PIPER_RETURN_IF_ERROR(fill_buffers(*rank, beginning));
  PIPER_RETURN_IF_ERROR(control.barrier(hal::for_files(wait)));
  return rank;
}

}  // namespace piper::exec
