#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "schemas/base/parallel.h"
#include "schemas/plan/bundle_files.h"
#include "schemas/plan/bundle_io.h"
#include "schemas/plan/file_bytes.h"
#include "schemas/plan/names.h"
#include "schemas/plan/parse_rank_plan.h"
#include "schemas/plan/provenance_text.h"
#include "schemas/plan/safetensors.h"

namespace piper::plan {
namespace {

class BundleReader {
 public:
  explicit BundleReader(const OpenBundle& opened) : directory_(opened.directory) {
    bundle_.manifest = opened.manifest;
    for (const auto& file : bundle_.manifest.files) files_.emplace(file.path, &file);
  }

  Result<Bundle> read(std::vector<int32_t> ranks) {
    PIPER_ASSIGN(const auto provenance, checked_file(std::string(kProvenanceFile)));
    PIPER_ASSIGN(bundle_.provenance, parse_provenance(provenance.text(), path_of(kProvenanceFile)));
    PIPER_RETURN_IF_ERROR(programs());
    PIPER_RETURN_IF_ERROR(choose(ranks));
    auto names = index_names(bundle_.provenance, bundle_.programs);
    names.world_size = bundle_.manifest.world_size;
    bundle_.ranks.resize(ranks.size());
    std::vector<Status> statuses(ranks.size());
    parallel_for(ranks.size(), [&](size_t i) { statuses[i] = rank_plan(ranks[i], names, bundle_.ranks[i]); });
    for (Status& status : statuses) PIPER_RETURN_IF_ERROR(std::move(status));
    PIPER_RETURN_IF_ERROR(weights(false));
    if (files_.count(std::string(kReferenceFile)) != 0) PIPER_RETURN_IF_ERROR(reference());
    if (bundle_.manifest.eval) PIPER_RETURN_IF_ERROR(evaluation(ranks));
    return std::move(bundle_);
  }
  // As large as the manifest says; with `digest`, the same bytes.
  Status weights(bool digest) {
    for (const auto path : {kModelWeights, kConstantWeights})
      if (files_.count(std::string(path)) != 0)
        if (auto file = checked_file(std::string(path), digest); !file.ok()) return file.take_status();
    return {};
  }

 private:
  std::string path_of(std::string_view file) const { return directory_ + "/" + std::string(file); }

  // A file of the manifest, as long as it says, and with its digest.
  Result<MappedFile> checked_file(const std::string& name, bool digest = true) {
    const auto entry = files_.find(name);
    if (entry == files_.end())
      return Status::failure("P0603", path_of(kManifestFile) + ": the bundle has no file " + name);
    PIPER_ASSIGN(auto file, map_file(path_of(name)));
    const auto& expected = *entry->second;
    if (file.bytes != expected.bytes)
      return Status::failure("P0604", path_of(name) + ": damaged or changed by hand: " + std::to_string(file.bytes) +
                                          " bytes, the manifest says " + std::to_string(expected.bytes));
    if (digest && sha256(file.text()) != expected.sha256)
      return Status::failure("P0604",
                             path_of(name) + ": damaged or changed by hand: its SHA-256 differs from the manifest");
    return file;
  }

  Status evaluation(const std::vector<int32_t>& ranks) {
    const std::string name(kEvaluationManifest);
    PIPER_ASSIGN(const auto file, checked_file(name));
    PIPER_ASSIGN(auto manifest, parse_manifest(file.text(), path_of(name)));
    if (!manifest.evaluates || manifest.world_size != bundle_.manifest.world_size)
      return Status::failure(
          "P0611", path_of(name) + ": not an evaluation for " + std::to_string(bundle_.manifest.world_size) + " ranks");
    const OpenBundle opened{path_of(kEvaluationFolder.substr(0, kEvaluationFolder.size() - 1)), std::move(manifest),
                            sha256(file.text())};
    PIPER_ASSIGN(auto read, BundleReader(opened).read(ranks));
    bundle_.evaluation.push_back(std::move(read));
    return {};
  }

  Status reference() {
    PIPER_ASSIGN(const auto file, checked_file(std::string(kReferenceFile)));
    PIPER_ASSIGN(auto read, parse_reference(file.text(), path_of(kReferenceFile)));
    bundle_.reference.push_back(std::move(read));
    if (files_.count(std::string(kUncastFile)) != 0) {
      PIPER_ASSIGN(const auto text, checked_file(std::string(kUncastFile)));
      PIPER_ASSIGN(auto uncast, parse_reference(text.text(), path_of(kUncastFile)));
      bundle_.reference.push_back(std::move(uncast));
    }
    PIPER_ASSIGN(bundle_.constants, constants());
    return {};
  }

  // Those of an evaluation are its training's, in the folder around it.
  Result<std::vector<ConstantContent>> constants() {
    std::vector<ConstantContent> contents;
    if (bundle_.manifest.evaluates) {
      PIPER_ASSIGN(const OpenBundle training, open_bundle(path_of("..")));
      return BundleReader(training).constants();
    }
    if (files_.count(std::string(kConstantWeights)) == 0) return contents;
    PIPER_ASSIGN(const auto bytes, checked_file(std::string(kConstantWeights)));
    const auto checked = [](const std::byte*, int64_t) { return Status(); };
    PIPER_ASSIGN(const auto file, SafetensorsFile::open(bytes, path_of(kConstantWeights), checked));
    for (const auto& [name, tensor] : file.tensors()) {
      const auto text = text_of(tensor.data, tensor.bytes);
      contents.push_back({name, sha256(text), tensor.dtype, tensor.shape, one_element(tensor.dtype, text)});
    }
    return contents;
  }

  Status programs() {
    std::vector<std::string> paths;
    for (const auto& file : bundle_.manifest.files)
      if (file.path.compare(0, kProgramFolder.size(), kProgramFolder) == 0) paths.push_back(file.path);
    std::unordered_set<std::string> names;
    for (const auto& path : paths) {
      PIPER_ASSIGN(const auto file, checked_file(path));
      PIPER_ASSIGN(auto program, parse_program(file.text(), path_of(path), bundle_.manifest.chunks));
      if (!names.insert(program.name).second)
        return Status::failure("P0606", path_of(path) + ":2: two programs are called \"" + program.name + "\"");
      bundle_.programs.push_back(std::move(program));
    }
    return {};
  }

  Status choose(std::vector<int32_t>& ranks) const {
    const int32_t world = bundle_.manifest.world_size;
    if (ranks.empty())
      for (int32_t rank = 0; rank < world; ++rank) ranks.push_back(rank);
    std::sort(ranks.begin(), ranks.end());
    ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
    for (const int32_t rank : ranks)
      if (rank < 0 || rank >= world)
        return Status::failure(
            "P0611", "the plan is for " + std::to_string(world) + " ranks; there is no rank " + std::to_string(rank));
    return {};
  }

  Status rank_plan(int32_t rank, const SharedNames& names, RankPlan& plan) {
    ReadPlan& read = plan_at(rank, names, [&](int32_t first) { return whole_plan(first, names); });
    if (!read.plan->ok()) return Status(read.plan->error());
    if (read.refers) plan = std::move(*read.plan).value();  // to which nothing refers
    else plan = read.plan->value();
    return check_against_manifest(plan).with_context(path_of(rank_file(rank)));
  }
  // What another rank's plan refers to, which must itself be spelt out.
  Result<OtherPlan> whole_plan(int32_t rank, const SharedNames& names) {
    ReadPlan& read = plan_at(rank, names, {});
    if (read.refers) return plan_file(rank, names, {}).take_status();
    if (!read.plan->ok()) return Status(read.plan->error());
    const RankPlan& plan = read.plan->value();
    std::call_once(read.indexed, [&] { read.buffers = index_buffers(plan); });
    return OtherPlan{&plan, &read.buffers};
  }
  // A rank's plan is read once, by whoever asks first.
  struct ReadPlan {
    std::once_flag once, indexed;
    std::optional<Result<RankPlan>> plan;
    NameIndex buffers;    // of one that others refer to
    bool refers = false;  // to another one
  };
  ReadPlan& plan_at(int32_t rank, const SharedNames& names, const PlanOfRank& like) {
    ReadPlan* read = nullptr;
    {
      const std::lock_guard<std::mutex> lock(plans_mutex_);
      read = &plans_[rank];
    }
    std::call_once(read->once, [&] {
      const PlanOfRank referred = [&](int32_t first) {
        read->refers = true;
        return like(first);
      };
      read->plan.emplace(plan_file(rank, names, like ? referred : PlanOfRank()));
    });
    return *read;
  }
  Result<RankPlan> plan_file(int32_t rank, const SharedNames& names, const PlanOfRank& like) {
    const std::string path = rank_file(rank);
    PIPER_ASSIGN(const auto file, checked_file(path));
    PIPER_ASSIGN(auto plan, parse_rank_plan(file.text(), path_of(path), names, like));
    if (plan.rank != rank)
      return Status::failure("P0611", path_of(path) + ":2: this is the plan of rank " + std::to_string(plan.rank));
    return plan;
  }

  // What a rank plan says about things that the manifest declares.
  Status check_against_manifest(const RankPlan& plan) const {
    const auto& manifest = bundle_.manifest;
    const auto bad = [](const std::string& why) { return Status::failure("P0611", why); };
    if (plan.arena_bytes != manifest.ranks[static_cast<size_t>(plan.rank)].arena_bytes)
      return bad("arena_bytes is not what the manifest says");
    const int64_t alignment = buffer_alignment(manifest.target.device);
    for (const auto& buffer : plan.buffers)
      if (buffer.offset % alignment != 0)
        return bad("the offset of buffer \"" + buffer.name + "\" is no multiple of the device's " +
                   std::to_string(alignment) + " bytes");
    for (const auto& communicator : plan.communicators)
      for (const int32_t member : communicator.ranks)
        if (member >= manifest.world_size)
          return bad("communicator \"" + communicator.name + "\" holds rank " + std::to_string(member) + " of " +
                     std::to_string(manifest.world_size));
    for (const auto& channel : plan.channels)
      if (channel.peer >= manifest.world_size)
        return bad("channel \"" + channel.name + "\" leads to rank " + std::to_string(channel.peer) + " of " +
                   std::to_string(manifest.world_size));
    for (size_t i = 0; i < plan.instructions.size(); ++i)
      if (Status status = check_instruction(plan.instructions[i]); !status.ok())
        return std::move(status).with_context("instruction " + std::to_string(i));
    for (const auto& slice : plan.inputs) PIPER_RETURN_IF_ERROR(check_input(plan, slice));
    const auto squares = static_cast<int64_t>(num_grad_squares(manifest)) * dtype_bytes(DType::kF32);
    if (plan.grad_squares.buffer >= 0 &&
        !range_inside(plan.grad_squares.offset, squares,
                      plan.buffers[static_cast<size_t>(plan.grad_squares.buffer)].bytes))
      return Status::failure("P0607", "grad_squares: the squares of " + std::to_string(num_grad_squares(manifest)) +
                                          " tensors do not fit their buffer");
    return {};
  }

  Status check_instruction(const Instruction& instruction) const {
    const auto* update = std::get_if<Update>(&instruction.action);
    if (update != nullptr && static_cast<size_t>(update->group) >= bundle_.manifest.optimizer.groups.size())
      return Status::failure("P0611", "the manifest has no optimizer group " + std::to_string(update->group));
    return {};
  }

  Status check_input(const RankPlan& plan, const InputSlice& slice) const {
    const auto bad = [&slice](const std::string& why) {
      return Status::failure("P0611", "input \"" + slice.input + "\": " + why);
    };
    const auto& inputs = bundle_.manifest.inputs;
    const auto input = std::find_if(inputs.begin(), inputs.end(), [&](const auto& i) { return i.name == slice.input; });
    if (input == inputs.end()) return bad("the manifest does not declare it");
    if (input->batched && !range_inside(slice.first, slice.count, bundle_.manifest.batch))
      return bad("samples beyond the batch of " + std::to_string(bundle_.manifest.batch));
    int64_t bytes = 0;
    const auto elements = element_count(input->sample_shape);
    const int64_t samples = input->batched ? slice.count : 1;
    if (!elements || __builtin_mul_overflow(*elements, samples, &bytes) ||
        __builtin_mul_overflow(bytes, dtype_bytes(input->dtype), &bytes) ||
        !range_inside(slice.where.offset, bytes, plan.buffers[static_cast<size_t>(slice.where.buffer)].bytes))
      return bad("its samples do not fit their buffer");
    if (slice.where.offset % dtype_bytes(input->dtype) != 0)
      return Status::failure("P0607", "input \"" + slice.input + "\": " +
                                          no_multiple(slice.where.offset, dtype_bytes(input->dtype),
                                                      plan.buffers[static_cast<size_t>(slice.where.buffer)].name));
    return {};
  }

  std::string directory_;
  Bundle bundle_;
  std::unordered_map<std::string, const FileEntry*> files_;
  std::mutex plans_mutex_;
  std::map<int32_t, ReadPlan> plans_;  // by rank
};

}  // namespace

Result<OpenBundle> open_bundle(const std::string& directory) {
  const std::string path = directory + "/" + std::string(kManifestFile);
  const auto file = map_file(path);
  if (!file.ok()) return Status::failure("P0603", directory + " is not a plan bundle: " + file.error().message);
  const std::string text(file->text());  // a copy: a file that changes meanwhile is read once anyway
  PIPER_ASSIGN(auto manifest, parse_manifest(text, path));
  return OpenBundle{directory, std::move(manifest), sha256(text)};
}

Result<Bundle> read_bundle(const OpenBundle& opened, const std::vector<int32_t>& ranks) {
  return BundleReader(opened).read(ranks);
}

Result<Bundle> read_bundle(const std::string& directory, const std::vector<int32_t>& ranks) {
  PIPER_ASSIGN(const auto opened, open_bundle(directory));
  return read_bundle(opened, ranks);
}

Status check_weights(const OpenBundle& opened) { return BundleReader(opened).weights(true); }

}  // namespace piper::plan
