// A tensor that a plan counts part by part, in files: whatever reads or writes one has the tensor in row-major order,
// so that a run with parts, along any axis, and one without read each other's files and write the same ones.
#include <catch2/catch.hpp>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "runtime/exec/session/session.h"
#include "runtime/hal/local/local_transport.h"
#include "runtime/hal/transport_channel.h"
#include "runtime/program/draw_weights.h"
#include "schemas/checkpoint/find_checkpoint.h"
#include "schemas/plan/bundle_io.h"
#include "schemas/plan/convert_elements.h"
#include "schemas/plan/safetensors.h"
#include "tests/unit/hand_written_plans.h"
#include "tests/unit/temp_folder.h"
#include "tools/piper_plan/commands.h"

namespace piper::exec {
namespace {

namespace fs = std::filesystem;
using hand_written::cut_tensor;
using hand_written::CutTensor;

std::string contents(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  REQUIRE(in.good());
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

std::string name_of(const CutTensor& of) {
  return std::to_string(of.shape.size()) + "-" + std::to_string(of.axis) + "-" + std::to_string(of.parts) + "x" +
         std::to_string(of.replicas);
}

// Runs over one tensor of this shape, of 24 elements.
class Trainings {
 public:
  explicit Trainings(std::vector<int64_t> shape) : shape_(std::move(shape)) {
    for (int i = 0; i < 24; ++i) weights_.push_back(0.25f * static_cast<float>(i) - 1);
    for (int i = 0; i < 8 * 24; ++i) samples_.push_back(static_cast<float>((i * 37) % 101) * 0.125f - 5);
    write("weights", "w", shape_, weights_);
    write("data", "x", {8, 24}, samples_);
  }
  void write(const std::string& file, const std::string& name, const std::vector<int64_t>& shape,
             const std::vector<float>& values) const {
    const auto bytes = static_cast<int64_t>(values.size() * 4);
    const auto produce = [&](const auto& write) { return write(values.data(), bytes); };
    REQUIRE(plan::write_safetensors(folder_ / file, {{name, DType::kF32, shape, produce, bytes}}).ok());
  }
  // With a checkpoint after the last step, in the folder `name`. `resume`: the folder of a checkpoint.
  Status run(const CutTensor& of, const std::string& name, int64_t steps, const std::string& resume = "") const {
    return run(of, cut_tensor(of), name, steps, resume);
  }
  Status run(const CutTensor& of, const plan::Bundle& bundle, const std::string& name, int64_t steps,
             const std::string& resume = "") const {
    PIPER_ASSIGN(auto weights, checkpoint::WeightSource::open("", folder_ / "weights", bundle.manifest));
    if (drawn) weights.replace(program::draw_weights(bundle.manifest, 0.02, 5));
    data::DataOptions options;
    options.path = folder_ / "data";
    PIPER_ASSIGN(const auto data, data::DataSource::open(options, bundle.manifest));
    PIPER_ASSIGN(const auto storage, checkpoint::open_storage(folder_ / name, true));
    std::optional<checkpoint::OpenCheckpoint> from;
    if (!resume.empty()) {
      PIPER_ASSIGN(from, checkpoint::OpenCheckpoint::open(folder_ / resume));
    }
    Session session;
    session.bundle = &bundle;
    session.bundle_digest = name_of(of);
    session.weights = &weights;
    session.data = data.get();
    session.storage = storage.get();
    session.identity = {name_of(of), 0, {"data", 8, "sequential"}};
    session.writer.run = "run";
    if (from) session.writer.from = from->manifest().step;
    session.resume = from ? &*from : nullptr;
    session.options.steps = steps;
    session.options.save = file(name, "saved");
    session.options.save_gradients = file(name, "gradients");
    hal::LocalWorld world(bundle.manifest.world_size);
    CpuBackendOptions cpu;
    cpu.device.huge_pages = false;
    std::vector<std::thread> ranks;
    for (const plan::RankPlan& plan : bundle.ranks)
      ranks.emplace_back([&] {
        const auto transport = world.transport(plan.rank);
        hal::TransportChannel control(*transport), checkpoints(*transport, hal::kCheckpointChannel);
        run_rank(session, plan, cpu_backend(*transport, cpu), control, &checkpoints);
      });
    for (std::thread& rank : ranks) rank.join();
    return session.stop.take_failure();
  }
  std::string file(const std::string& name, const std::string& what) const { return folder_ / (name + "." + what); }
  std::string step(const std::string& name, int64_t number) const {
    return name + "/" + checkpoint::step_folder(number);
  }
  std::string path(const std::string& name) const { return folder_ / name; }
  std::vector<float> values(const std::string& path) const {
    const auto opened = plan::SafetensorsFile::open(path);
    REQUIRE(opened.ok());
    const plan::TensorView* view = opened->find("w");
    REQUIRE(view != nullptr);
    REQUIRE(view->shape == shape_);
    std::vector<float> values(24);
    std::memcpy(values.data(), view->data, 96);
    return values;
  }
  const std::vector<float>& weights() const { return weights_; }
  const std::vector<float>& samples() const { return samples_; }

  bool drawn = false;

 private:
  TempFolder folder_;
  std::vector<int64_t> shape_;
  std::vector<float> weights_, samples_;
};

void check_run(const Status& status) {
  INFO((status.ok() ? "" : status.error().message));
  REQUIRE(status.ok());
}

// A tensor of the checkpoint in row-major order.
std::vector<float> state(const std::string& folder, checkpoint::StateKind kind) {
  const auto opened = checkpoint::OpenCheckpoint::open(folder);
  REQUIRE(opened.ok());
  const checkpoint::StoredTensor* const stored = checkpoint::find_tensor(opened->manifest(), kind, "w");
  REQUIRE(stored != nullptr);
  std::vector<float> values(24);
  const Status read = opened->read(*stored, {}, 0, 24, [&](int64_t offset, const std::byte* data, int64_t bytes) {
    std::memcpy(reinterpret_cast<std::byte*>(values.data()) + offset, data, static_cast<size_t>(bytes));
    return Status();
  });
  REQUIRE(read.ok());
  return values;
}

void check_same_state(const std::string& a, const std::string& b) {
  using checkpoint::StateKind;
  for (const StateKind kind : {StateKind::kParameter, StateKind::kFirstMoment, StateKind::kSecondMoment}) {
    INFO(checkpoint::state_kind_name(kind) << " of " << a << " and " << b);
    CHECK(state(a, kind) == state(b, kind));
  }
}

// Along the first axis, the second of two, the middle one of three; of two segments of the first axis.
const std::vector<CutTensor> kTensors = {
    {{8, 3}, 0, 1, 1}, {{3, 8}, 1, 1, 1}, {{3, 4, 2}, 1, 1, 1}, {{8, 3}, 0, 1, 1, 2}};

CutTensor in_parts(CutTensor of, int32_t parts, int32_t replicas) {
  of.parts = parts;
  of.replicas = replicas;
  return of;
}

TEST_CASE("a tensor in parts trains, and is saved with its gradients and moments, as the whole one") {
  for (const CutTensor& whole : kTensors)
    for (const bool drawn : {false, true}) {
      Trainings runs(whole.shape);
      runs.drawn = drawn;
      check_run(runs.run(whole, "whole", 2));
      std::vector<float> gradient(24);
      for (size_t i = 0; i < 24; ++i) gradient[i] = runs.samples()[i] + runs.samples()[24 + i];
      REQUIRE(runs.values(runs.file("whole", "gradients")) == gradient);
      for (const auto& [parts, replicas] : {std::pair{2, 1}, {4, 2}, {2, 2}}) {
        if (drawn && replicas == 1) continue;
        const CutTensor of = in_parts(whole, parts, replicas);
        const std::string name = name_of(of);
        INFO(name << (drawn ? ", drawn" : ""));
        check_run(runs.run(of, name, 2));
        for (const char* what : {"saved", "gradients"})
          CHECK(contents(runs.file(name, what)) == contents(runs.file("whole", what)));
        check_same_state(runs.path(runs.step(name, 2)), runs.path(runs.step("whole", 2)));
      }
    }
}

TEST_CASE("weights are drawn for elements, whatever the parts are") {
  const plan::Bundle whole = cut_tensor({{3, 8}, 1, 1, 1}), parts = cut_tensor({{3, 8}, 1, 4, 2});
  CHECK(program::draw_weights(whole.manifest, 0.02, 5) == program::draw_weights(parts.manifest, 0.02, 5));
}

TEST_CASE("a run goes on from a checkpoint in other parts") {
  for (const CutTensor& whole : kTensors) {
    const Trainings runs(whole.shape);
    check_run(runs.run(whole, "whole", 4));
    for (const auto& [before, after] : {std::pair{4, 1}, {4, 2}, {4, 4}, {2, 4}, {1, 4}}) {
      const CutTensor from = in_parts(whole, before, 2), to = in_parts(whole, after, after == 4 ? 2 : 1);
      const std::string first = "first-" + std::to_string(before) + std::to_string(after), second = first + "-on";
      INFO(name_of(from) << " and then " << name_of(to));
      check_run(runs.run(from, first, 2));
      check_run(runs.run(to, second, 4, runs.step(first, 2)));
      CHECK(contents(runs.file(second, "saved")) == contents(runs.file("whole", "saved")));
      check_same_state(runs.path(runs.step(second, 4)), runs.path(runs.step("whole", 4)));
    }
  }
}

std::string shards(const std::string& folder) {
  std::string all;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().extension() == ".safetensors") all += contents(entry.path());
  return all;
}

TEST_CASE("a checkpoint in four parts is written anew in one, in two, and as it was") {
  for (const CutTensor& whole : kTensors) {
    const Trainings runs(whole.shape);
    const auto again = [&](int32_t parts, const std::string& from, const std::string& to) {
      const CutTensor of = in_parts(whole, parts, parts == 4 ? 2 : 1);
      check_run(runs.run(of, to, 2, from.empty() ? "" : runs.step(from, 2)));
    };
    again(4, "", "four");
    again(1, "", "one");
    again(1, "four", "four to one");
    again(2, "four to one", "one to two");
    again(4, "one to two", "two to four");
    const auto bytes = [&](const std::string& name) { return shards(runs.path(runs.step(name, 2))); };
    CHECK(bytes("four to one") == bytes("one"));
    CHECK(bytes("two to four") == bytes("four"));
    CHECK(bytes("four").size() > bytes("one").size());
  }
}

TEST_CASE("what a shard calls the elements of a part says how they are counted") {
  const Trainings runs({3, 8});
  const CutTensor of = {{3, 8}, 1, 4, 2};
  check_run(runs.run(of, "parts", 1));
  const std::string folder = runs.path(runs.step("parts", 1));
  const auto shard = plan::SafetensorsFile::open(folder + "/" + checkpoint::shard_file(5, 8));
  REQUIRE(shard.ok());
  const plan::TensorView* const view = shard->find("param/w[9:12 in 4 parts along axis 1]");
  REQUIRE(view != nullptr);
  CHECK(view->shape == std::vector<int64_t>{3});
  CHECK(contents(folder + "/MANIFEST.json").find("\"shape\":[3,8],\"cut\":{\"axis\":1,\"parts\":4},") !=
        std::string::npos);
  // Its elements of columns 2 and 3: the last one of row 1, and row 2.
  const std::vector<float> all = state(folder, checkpoint::StateKind::kParameter);
  std::vector<float> own(3);
  std::memcpy(own.data(), view->data, 12);
  CHECK(own == std::vector<float>{all[11], all[18], all[19]});
  const plan::Bundle bundle = cut_tensor(of);
  CHECK(static_cast<int64_t>(fs::file_size(folder + "/" + checkpoint::shard_file(0, 8))) ==
        checkpoint::snapshot_bytes(bundle.manifest, bundle.ranks[0]));
}

TEST_CASE("a checkpoint in parts is exported and compared in row-major order") {
  for (const CutTensor& whole : kTensors) {
    const Trainings runs(whole.shape);
    const CutTensor of = in_parts(whole, 4, 2);
    check_run(runs.run(whole, "whole", 2));
    check_run(runs.run(of, "parts", 2));
    for (const std::string dtype : {"", "bf16"}) {
      tools::ExportOptions options;
      options.dtype = dtype;
      options.out = runs.file("whole", "exported");
      REQUIRE(tools::export_checkpoint(runs.path("whole"), options).ok());
      options.out = runs.file("parts", "exported");
      REQUIRE(tools::export_checkpoint(runs.path("parts"), options).ok());
      CHECK(contents(runs.file("parts", "exported")) == contents(runs.file("whole", "exported")));
    }
    const auto difference = tools::diff_checkpoints(runs.path("whole"), runs.path("parts"), false);
    REQUIRE(difference.ok());
    CHECK(difference->text == "no difference\n");
    CHECK(tools::verify_checkpoints(runs.path("parts")).ok());
  }
}

// For a plan with masters: a range of a part in f32, which begins and ends inside of rows, and the whole part in bf16.
plan::Bundle with_masters(const CutTensor& of) {
  plan::Bundle bundle = cut_tensor(of);
  bundle.programs.clear();
  for (plan::RankPlan& rank : bundle.ranks) {
    rank = plan::RankPlan{};
    rank.streams = {{"compute"}};
  }
  bundle.ranks.resize(1);
  plan::RankPlan& rank = bundle.ranks[0];
  const auto place = [&](plan::PlacementKind kind, DType dtype, int64_t first, int64_t count) {
    const auto buffer = static_cast<int32_t>(rank.buffers.size());
    const int64_t bytes = count * dtype_bytes(dtype);
    rank.buffers.push_back(
        {"b" + std::to_string(buffer), plan::BufferClass::kParameter, bytes, 256 * buffer, dtype, {count}});
    rank.placements.push_back({"w", kind, dtype, of.shape, {{buffer, 0}, first, count, true}});
  };
  place(plan::PlacementKind::kMaster, DType::kF32, 7, 4);
  place(plan::PlacementKind::kWorking, DType::kBF16, 6, 6);
  place(plan::PlacementKind::kFirstMoment, DType::kF32, 5, 9);
  return bundle;
}

// For each element as the plan counts it, where it lies in row-major order.
std::vector<size_t> by_parts(const CutTensor& of) {
  std::vector<size_t> places;
  const size_t axis = static_cast<size_t>(of.axis);
  const int64_t segment = of.shape[axis] / of.segments, each = segment / of.parts;
  for (int64_t part = 0; part < of.parts; ++part)
    for (size_t place = 0; place < 24; ++place) {
      auto rest = static_cast<int64_t>(place);
      for (size_t k = of.shape.size() - 1; k > axis; --k) rest /= of.shape[k];
      if (rest % of.shape[axis] % segment / each == part) places.push_back(place);
    }
  return places;
}

TEST_CASE("masters, working copies and moments are filled from files, whatever range of a part they are") {
  for (const CutTensor& whole : kTensors) {
    const Trainings runs(whole.shape);
    check_run(runs.run(whole, "whole", 2));
    check_run(runs.run(in_parts(whole, 2, 2), "halves", 2));
    const CutTensor of = in_parts(whole, 4, 1);
    const plan::Bundle bundle = with_masters(of);
    const auto weights = checkpoint::WeightSource::open("", runs.path("weights"), bundle.manifest);
    REQUIRE(weights.ok());
    const std::vector<size_t> places = by_parts(of);
    for (const std::string from : {"", "whole", "halves"}) {
      INFO(name_of(of) << " from " << from);
      std::optional<checkpoint::OpenCheckpoint> resume;
      if (!from.empty()) {
        auto opened = checkpoint::OpenCheckpoint::open(runs.path(runs.step(from, 2)));
        REQUIRE(opened.ok());
        resume.emplace(std::move(opened).value());
      }
      hal::LocalWorld world(1);
      const auto transport = world.transport(0);
      hal::TransportChannel control(*transport);
      auto backend = cpu_backend(*transport, {})(bundle.ranks[0]);
      REQUIRE(backend.ok());
      const auto loaded = load_rank(bundle, bundle.ranks[0], {&*weights, resume ? &*resume : nullptr},
                                    std::move(backend).value(), control, {}, false);
      INFO((loaded.ok() ? "" : loaded.status().error().message));
      REQUIRE(loaded.ok());
      for (const plan::Placement& placement : bundle.ranks[0].placements) {
        const bool moment = placement.kind == plan::PlacementKind::kFirstMoment;
        const std::vector<float> all = resume   ? state(resume->path(), moment ? checkpoint::StateKind::kFirstMoment
                                                                               : checkpoint::StateKind::kParameter)
                                       : moment ? std::vector<float>(24)
                                                : runs.weights();
        std::vector<float> expected;
        for (int64_t i = 0; i < placement.part.count; ++i)
          expected.push_back(all[places[static_cast<size_t>(placement.part.first + i)]]);
        std::vector<std::byte> bytes(expected.size() * static_cast<size_t>(dtype_bytes(placement.dtype)));
        convert_elements(DType::kF32, expected.data(), placement.dtype, bytes.data(), placement.part.count);
        std::vector<std::byte> found(bytes.size());
        REQUIRE((*loaded)
                    ->device()
                    .read(found.data(), (*loaded)->at(placement.part.where), static_cast<int64_t>(found.size()))
                    .ok());
        CHECK(found == bytes);
      }
      (*loaded)->close();
    }
  }
}

TEST_CASE("an element that no rank owns is named as files count") {
  using checkpoint::Piece;
  std::vector<plan::TensorInfo> tensors(1);
  tensors[0].name = "w";
  tensors[0].shape = {3, 8};
  const std::vector<std::vector<Piece>> pieces = {{{0, 0, 28, true, {}}}};
  const auto message = [&](const std::vector<plan::ElementOrder>& orders) {
    const auto chosen = checkpoint::choose_pieces(pieces, tensors, orders);
    REQUIRE_FALSE(chosen.ok());
    CHECK(chosen.error().code == "R0503");
    return chosen.error().message;
  };
  CHECK(message({}) == "tensor 'w' cannot be saved: no rank owns its element 7");
  // The second element of row 0 of the columns 2 and 3.
  CHECK(message({{{3, 8}, {1, 4}}}) == "tensor 'w' cannot be saved: no rank owns its element 3");

  const CutTensor of{{3, 8}, 1, 4, 1};
  const Trainings runs(of.shape);
  plan::Bundle bundle = cut_tensor(of);
  plan::Placement& second = bundle.ranks[2].placements.back();
  REQUIRE(second.kind == plan::PlacementKind::kSecondMoment);
  second.part.owner = false;
  const Status saved = runs.run(of, bundle, "hole", 1);
  REQUIRE_FALSE(saved.ok());
  CHECK(saved.error().code == "R0503");
  CHECK(saved.error().message.find("tensor 'w' cannot be saved: no rank owns its element 4") != std::string::npos);
}

TEST_CASE("a fixed buffer that is cut is held to the bundle's value") {
  const TempFolder folder;
  plan::Bundle bundle = cut_tensor({{3, 8}, 1, 4, 1});
  bundle.manifest.tensors[0].trained = false;
  bundle.manifest.tensors[0].buffer = plan::ModelBuffer::kFixed;
  std::vector<float> values(24);
  for (size_t i = 0; i < 24; ++i) values[i] = static_cast<float>(i);
  const plan::WeightTensor tensor{
      "w", DType::kF32, {3, 8}, "", 0, 96, reinterpret_cast<const std::byte*>(values.data()), {}, true};
  REQUIRE(plan::write_bundle(folder / "p", bundle, {tensor}, {}, plan::WeightMode::kCopy).ok());
  const auto opened = plan::open_bundle(folder / "p");
  REQUIRE(opened.ok());
  const auto weights = checkpoint::WeightSource::open(opened->directory, "", opened->manifest);
  REQUIRE(weights.ok());
  const plan::ElementOrder order({3, 8}, {1, 4});
  const auto check = [&](std::vector<float> part, const plan::ElementOrder& as) {
    const Status status = weights->check_fixed("w", 9 * 4, reinterpret_cast<const std::byte*>(part.data()), 12, as);
    return status.ok() ? std::string() : status.error().code;
  };
  CHECK(check({11, 18, 19}, order).empty());
  CHECK(check({11, 18, 20}, order) == "R0504");
  CHECK(check({11, 18, 19}, {}) == "R0504");
  CHECK(check({9, 10, 11}, {}).empty());
}

TEST_CASE("a checkpoint whose parts do not fit its tensor is damaged") {
  const Trainings runs({3, 8});
  check_run(runs.run({{3, 8}, 1, 4, 1}, "parts", 1));
  const auto opened = checkpoint::OpenCheckpoint::open(runs.path(runs.step("parts", 1)));
  REQUIRE(opened.ok());
  const auto parsed = [&](plan::PartsAlong cut) {
    checkpoint::Manifest manifest = opened->manifest();
    manifest.tensors[0].cut = cut;
    return checkpoint::parse_manifest(checkpoint::print_manifest(manifest), "MANIFEST.json");
  };
  CHECK(parsed({1, 4}).ok());
  CHECK(parsed({1, 8}).ok());
  CHECK(parsed({1, 2, 4}).ok());
  CHECK(parsed({1, 2, 1, {4, 2, 2}}).ok());
  const int64_t huge = int64_t{1} << 32;
  for (const plan::PartsAlong& wrong : {plan::PartsAlong{1, 3},
                                        {2, 4},
                                        {0, 2},
                                        {1, 1},
                                        {-1, 4},
                                        {1, 0},
                                        {1, 4, 4},
                                        {1, 2, 3},
                                        {1, 4, -1},
                                        {1, 4, 0},
                                        {1, 2, 1, {4, 2}},
                                        {1, 2, 1, {8}},
                                        {1, 2, 1, {5, 3}},
                                        {1, 2, 2, {4, 4}},
                                        {1, 2, 1, {8, 0}},
                                        {1, 2, 1, {10, -2}},
                                        {1, huge, huge}}) {
    const auto found = parsed(wrong);
    INFO(wrong.axis << " " << wrong.parts);
    REQUIRE_FALSE(found.ok());
    CHECK(found.status().error().code == "R0705");
  }
  CHECK(parsed({1, 3}).status().error().message.find("tensor 'w' has no axis 1 of 3 equal parts") != std::string::npos);
}

}  // namespace
}  // namespace piper::exec
