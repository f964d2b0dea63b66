// The executor on small plans written by hand: two ranks as a pipeline, two ranks as replicas; errors
// and waiting.
#include <catch2/catch.hpp>

#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "runtime/exec/lr_schedule.h"
#include "runtime/exec/session.h"
#include "runtime/hal/local/local_communicator.h"
#include "schemas/plan/safetensors.h"

namespace piper::exec {
namespace {

namespace fs = std::filesystem;
using plan::BufferClass;
using plan::Operand;
using plan::SlotRole;

Operand operand(int32_t slot, std::vector<int64_t> shape, std::vector<int64_t> strides, int64_t offset = 0) {
  Operand o;
  o.slot = slot;
  o.offset = offset;
  o.shape = std::move(shape);
  o.strides = std::move(strides);
  return o;
}

plan::KernelCall mm(Operand out, Operand a, Operand b, bool accumulate = false) {
  plan::KernelCall call;
  call.kernel = "mm";
  call.accumulate = accumulate;
  call.outputs = {std::move(out)};
  call.inputs = {std::move(a), std::move(b)};
  call.origin = "model";
  return call;
}

plan::Slot slot(const std::string& name, SlotRole role, int64_t bytes) {
  const bool writes = role == SlotRole::kOutput || role == SlotRole::kGradient;
  return {name, role, bytes, role != SlotRole::kOutput, writes};
}

int32_t add_buffer(plan::RankPlan& rank, const std::string& name, BufferClass cls, int64_t offset, std::vector<int64_t> shape) {
  plan::Buffer buffer;
  buffer.name = name;
  buffer.cls = cls;
  buffer.offset = offset;
  buffer.bytes = 4;
  for (int64_t extent : shape) buffer.bytes *= extent;
  buffer.shape = std::move(shape);
  rank.buffers.push_back(buffer);
  return static_cast<int32_t>(rank.buffers.size()) - 1;
}

plan::Placement placement(const std::string& name, int32_t buffer, int32_t gradient, std::vector<int64_t> shape, bool owner) {
  plan::Placement p;
  p.name = name;
  p.where.buffer = buffer;
  p.gradient.buffer = gradient;
  p.shape = std::move(shape);
  p.owner = owner;
  return p;
}

void add_input(plan::Bundle& bundle, const std::string& name, int64_t width) {
  plan::InputDecl declared;
  declared.name = name;
  declared.dtype = DType::kF32;
  declared.sample_shape = {width};
  bundle.manifest.inputs.push_back(declared);
}

template <class A>
plan::Instruction instruction(int32_t stream, A action) {
  plan::Instruction i;
  i.stream = stream;
  i.action = std::move(action);
  i.provenance = 0;
  return i;
}

plan::BufferRange whole(int32_t buffer) { return {buffer, 0}; }

plan::TensorInfo info(const std::string& name, std::vector<int64_t> shape) {
  plan::TensorInfo tensor;
  tensor.name = name;
  tensor.shape = std::move(shape);
  return tensor;
}

// loss = sum over samples of (x W) V . t; samples of 3 features; W [3, 2] on rank 0, V [2, 2] on rank 1.
// Two samples a step; both ranks take the whole batch.
plan::Bundle pipeline() {
  plan::Bundle bundle;
  bundle.manifest.world_size = 2;
  bundle.manifest.reporting_rank = 1;
  bundle.manifest.batch = 2;
  bundle.manifest.optimizer.lr = 0.5;
  bundle.manifest.optimizer.groups = {{"all", 0}};
  bundle.manifest.tensors = {info("w", {3, 2}), info("v", {2, 2})};
  add_input(bundle, "x", 3);
  add_input(bundle, "t", 2);
  bundle.provenance = {{"cut", "place at s.yaml:3:5"}, {"model", "net.layer"}};

  plan::Program forward{"c0.F", {slot("x", SlotRole::kInput, 24), slot("w", SlotRole::kParameter, 24), slot("y", SlotRole::kOutput, 16)}, 0, {}};
  forward.calls.push_back(mm(operand(2, {2, 2}, {2, 1}), operand(0, {2, 3}, {3, 1}), operand(1, {3, 2}, {2, 1})));
  plan::Program backward{"c0.B", {slot("x", SlotRole::kInput, 24), slot("gy", SlotRole::kInput, 16), slot("gw", SlotRole::kGradient, 24)}, 0, {}};
  backward.calls.push_back(mm(operand(2, {3, 2}, {2, 1}), operand(0, {3, 2}, {1, 3}), operand(1, {2, 2}, {2, 1}), true));
  // z = y V; loss = z t (as rows of 4); gy = t Vt; gv += yt t.
  plan::Program last{"c1.FB", {slot("y", SlotRole::kInput, 16), slot("v", SlotRole::kParameter, 16), slot("t", SlotRole::kInput, 16),
                               slot("loss", SlotRole::kOutput, 4), slot("gy", SlotRole::kOutput, 16), slot("gv", SlotRole::kGradient, 16)}, 64, {}};
  last.calls.push_back(mm(operand(Operand::kWorkspace, {2, 2}, {2, 1}), operand(0, {2, 2}, {2, 1}), operand(1, {2, 2}, {2, 1})));
  last.calls.push_back(mm(operand(3, {1, 1}, {1, 1}), operand(Operand::kWorkspace, {1, 4}, {4, 1}), operand(2, {4, 1}, {1, 1})));
  last.calls.push_back(mm(operand(4, {2, 2}, {2, 1}), operand(2, {2, 2}, {2, 1}), operand(1, {2, 2}, {1, 2})));
  last.calls.push_back(mm(operand(5, {2, 2}, {2, 1}), operand(0, {2, 2}, {1, 2}), operand(2, {2, 2}, {2, 1}), true));
  bundle.programs = {forward, backward, last};

  plan::RankPlan a;
  a.rank = 0;
  a.streams = {{"compute"}, {"pp"}};
  a.channels = {{"fwd", 3}, {"bwd", 3}};
  a.events = {"y ready", "gy here"};
  const int32_t x = add_buffer(a, "x", BufferClass::kInput, 0, {2, 3}), w = add_buffer(a, "w", BufferClass::kParameter, 0, {3, 2}),
                gw = add_buffer(a, "grad w", BufferClass::kGradient, 0, {3, 2}), y = add_buffer(a, "y", BufferClass::kArena, 0, {2, 2}),
                gy = add_buffer(a, "gy", BufferClass::kArena, 64, {2, 2});
  a.arena_bytes = 128;
  a.placements = {placement("w", w, gw, {3, 2}, true)};
  a.inputs = {{"x", 0, 2, whole(x)}};
  a.arguments = {{"c0.F m0", {whole(x), whole(w), whole(y)}}, {"c0.B m0", {whole(x), whole(gy), whole(gw)}}};
  a.instructions = {instruction(0, plan::Run{0, 0, {}}), instruction(0, plan::Record{0}), instruction(1, plan::Wait{0}),
                    instruction(1, plan::Send{whole(y), 16, 1, 0}), instruction(1, plan::Recv{whole(gy), 16, 1, 1}),
                    instruction(1, plan::Record{1}), instruction(0, plan::Wait{1}), instruction(0, plan::Run{1, 1, {}}),
                    instruction(0, plan::Update{0, whole(w), whole(gw), {}, {}, {}, 6})};

  plan::RankPlan b;
  b.rank = 1;
  b.streams = {{"compute"}};
  b.channels = {{"fwd", 3}, {"bwd", 3}};
  const int32_t t = add_buffer(b, "t", BufferClass::kInput, 0, {2, 2}), v = add_buffer(b, "v", BufferClass::kParameter, 0, {2, 2}),
                gv = add_buffer(b, "grad v", BufferClass::kGradient, 0, {2, 2}), by = add_buffer(b, "y", BufferClass::kArena, 0, {2, 2}),
                bgy = add_buffer(b, "gy", BufferClass::kArena, 64, {2, 2}), loss = add_buffer(b, "loss", BufferClass::kArena, 128, {}),
                work = add_buffer(b, "workspace", BufferClass::kArena, 192, {16});
  b.arena_bytes = 256;
  b.placements = {placement("v", v, gv, {2, 2}, true)};
  b.inputs = {{"t", 0, 2, whole(t)}};
  b.arguments = {{"c1.FB m0", {whole(by), whole(v), whole(t), whole(loss), whole(bgy), whole(gv)}}};
  b.instructions = {instruction(0, plan::Recv{whole(by), 16, 0, 0}), instruction(0, plan::Run{2, 0, whole(work)}),
                    instruction(0, plan::Send{whole(bgy), 16, 0, 1}), instruction(0, plan::Update{0, whole(v), whole(gv), {}, {}, {}, 4})};
  b.loss = whole(loss);
  bundle.ranks = {a, b};
  return bundle;
}

// Two replicas, a sample each: loss = sum of (x W) . t; gradient and loss are summed on their own stream.
plan::Bundle replicas() {
  plan::Bundle bundle;
  bundle.manifest.world_size = 2;
  bundle.manifest.batch = 2;
  bundle.manifest.optimizer.lr = 0.5;
  bundle.manifest.optimizer.groups = {{"all", 0}};
  bundle.manifest.tensors = {info("w", {3, 2})};
  add_input(bundle, "x", 3);
  add_input(bundle, "t", 2);
  bundle.provenance = {{"copy", "replicate at s.yaml:4:5"}};
  plan::Program step{"c0.FB", {slot("x", SlotRole::kInput, 12), slot("t", SlotRole::kInput, 8), slot("w", SlotRole::kParameter, 24),
                               slot("loss", SlotRole::kOutput, 4), slot("gw", SlotRole::kGradient, 24)}, 64, {}};
  step.calls.push_back(mm(operand(Operand::kWorkspace, {1, 2}, {2, 1}), operand(0, {1, 3}, {3, 1}), operand(2, {3, 2}, {2, 1})));
  step.calls.push_back(mm(operand(3, {1, 1}, {1, 1}), operand(Operand::kWorkspace, {1, 2}, {2, 1}), operand(1, {2, 1}, {1, 1})));
  step.calls.push_back(mm(operand(4, {3, 2}, {2, 1}), operand(0, {3, 1}, {1, 3}), operand(1, {1, 2}, {2, 1}), true));
  bundle.programs = {step};
  for (int32_t r = 0; r < 2; ++r) {
    plan::RankPlan rank;
    rank.rank = r;
    rank.streams = {{"compute"}, {"dp_reduce"}};
    rank.communicators = {{"dp_reduce:0,1", {0, 1}}};
    rank.events = {"grads ready", "grads summed"};
    const int32_t x = add_buffer(rank, "x", BufferClass::kInput, 0, {1, 3}), t = add_buffer(rank, "t", BufferClass::kInput, 64, {1, 2}),
                  w = add_buffer(rank, "w", BufferClass::kParameter, 0, {3, 2}), gw = add_buffer(rank, "grad w", BufferClass::kGradient, 0, {3, 2}),
                  loss = add_buffer(rank, "loss", BufferClass::kArena, 0, {}), work = add_buffer(rank, "workspace", BufferClass::kArena, 64, {16});
    rank.arena_bytes = 128;
    rank.placements = {placement("w", w, gw, {3, 2}, r == 0)};
    rank.inputs = {{"x", r, 1, whole(x)}, {"t", r, 1, whole(t)}};
    rank.arguments = {{"c0.FB m0", {whole(x), whole(t), whole(w), whole(loss), whole(gw)}}};
    rank.instructions = {instruction(0, plan::Run{0, 0, whole(work)}), instruction(0, plan::Record{0}), instruction(1, plan::Wait{0}),
                         instruction(1, plan::AllReduce{whole(gw), 6, DType::kF32, 0, plan::Reduction::kSum}),
                         instruction(1, plan::AllReduce{whole(loss), 1, DType::kF32, 0, plan::Reduction::kSum}),
                         instruction(1, plan::Record{1}), instruction(0, plan::Wait{1}),
                         instruction(0, plan::Update{0, whole(w), whole(gw), {}, {}, {}, 6})};
    if (r == 0) rank.loss = whole(loss);
    bundle.ranks.push_back(rank);
  }
  return bundle;
}

const std::vector<float> kX = {1, 2, 3, 4, 5, 6, 7, 8, 9, -1, -2, -3};
const std::vector<float> kT = {1, -1, 2, 0.5f, 3, 1, -2, 4};
const std::vector<float> kW = {0.1f, 0.2f, 0.3f, 0.4f, 0.5f, 0.6f}, kV = {1, 2, 3, 4};

plan::TensorToWrite tensor(const std::string& name, std::vector<int64_t> shape, const std::vector<float>& values) {
  plan::TensorToWrite t{name, DType::kF32, std::move(shape), {}, static_cast<int64_t>(values.size() * 4)};
  t.produce = [&values](const auto& write) { return write(values.data(), static_cast<int64_t>(values.size() * 4)); };
  return t;
}

// Runs a bundle on threads, with four samples of data, and keeps what it wrote.
class Fixture {
 public:
  Fixture() : folder_(fs::temp_directory_path() / ("piper-exec-test-" + std::to_string(getpid()))) {
    fs::create_directories(folder_);
    REQUIRE(plan::write_safetensors(path("data.safetensors"), {tensor("x", {4, 3}, kX), tensor("t", {4, 2}, kT)}).ok());
    REQUIRE(plan::write_safetensors(path("weights.safetensors"), {tensor("w", {3, 2}, kW), tensor("v", {2, 2}, kV)}).ok());
  }
  ~Fixture() { fs::remove_all(folder_); }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  Status run(const plan::Bundle& bundle, int64_t steps) {
    auto weights = checkpoint::WeightSource::open("", path("weights.safetensors"), bundle.manifest);
    data::DataOptions data_options;
    data_options.path = path("data.safetensors");
    auto data = data::DataSource::open(data_options, bundle.manifest);
    REQUIRE(weights.ok());
    REQUIRE(data.ok());
    Session session;
    session.bundle = &bundle;
    session.weights = &*weights;
    session.data = data->get();
    session.options.steps = steps;
    session.options.timeout = timeout;
    session.options.device.huge_pages = false;
    session.options.log = path("log.jsonl");
    session.options.save = path("saved.safetensors");
    session.options.save_gradients = path("gradients.safetensors");
    hal::LocalWorld world(static_cast<int32_t>(bundle.ranks.size()));
    std::vector<std::thread> ranks;
    for (const plan::RankPlan& plan : bundle.ranks)
      ranks.emplace_back([&] { run_rank(session, plan, *world.communicator(plan.rank)); });
    for (std::thread& rank : ranks) rank.join();
    return session.stop.take_failure();
  }
  std::vector<float> saved(const std::string& file, const std::string& name) const {
    auto opened = plan::SafetensorsFile::open(path(file));
    REQUIRE(opened.ok());
    const plan::TensorView* view = opened->find(name);
    REQUIRE(view != nullptr);
    std::vector<float> values(static_cast<size_t>(view->bytes / 4));
    std::memcpy(values.data(), view->data, static_cast<size_t>(view->bytes));
    return values;
  }
  std::vector<std::string> log() const {
    std::ifstream in(path("log.jsonl"));
    std::vector<std::string> lines;
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    return lines;
  }
  std::chrono::milliseconds timeout{60000};

 private:
  fs::path folder_;
};

// a [n, m] times b [m, k], row-major.
std::vector<double> product(const std::vector<double>& a, const std::vector<double>& b, size_t n, size_t m, size_t k) {
  std::vector<double> c(n * k, 0);
  for (size_t i = 0; i < n; ++i)
    for (size_t j = 0; j < k; ++j)
      for (size_t l = 0; l < m; ++l) c[i * k + j] += a[i * m + l] * b[l * k + j];
  return c;
}
std::vector<double> transpose(const std::vector<double>& a, size_t n, size_t m) {
  std::vector<double> t(n * m);
  for (size_t i = 0; i < n; ++i)
    for (size_t j = 0; j < m; ++j) t[j * n + i] = a[i * m + j];
  return t;
}
std::vector<double> rows(const std::vector<float>& all, size_t width, size_t step) {
  return std::vector<double>(all.begin() + static_cast<int64_t>((step - 1) * 2 * width), all.begin() + static_cast<int64_t>(step * 2 * width));
}
void check_close(const std::vector<float>& got, const std::vector<double>& expected) {
  REQUIRE(got.size() == expected.size());
  for (size_t i = 0; i < got.size(); ++i) CHECK(got[i] == Approx(expected[i]).epsilon(1e-5));
}

TEST_CASE("a pipeline of two ranks trains, logs and saves") {
  Fixture fixture;
  const plan::Bundle bundle = pipeline();
  Status status = fixture.run(bundle, 2);
  INFO((status.ok() ? "" : status.error().message));
  REQUIRE(status.ok());

  std::vector<double> w(kW.begin(), kW.end()), v(kV.begin(), kV.end()), losses;
  for (size_t step = 1; step <= 2; ++step) {
    const auto x = rows(kX, 3, step), t = rows(kT, 2, step);
    const auto y = product(x, w, 2, 3, 2), z = product(y, v, 2, 2, 2);
    losses.push_back(product(z, t, 1, 4, 1)[0]);
    const auto gv = product(transpose(y, 2, 2), t, 2, 2, 2), gw = product(transpose(x, 2, 3), product(t, transpose(v, 2, 2), 2, 2, 2), 3, 2, 2);
    if (step == 1) {
      check_close(fixture.saved("gradients.safetensors", "w"), gw);
      check_close(fixture.saved("gradients.safetensors", "v"), gv);
    }
    for (size_t i = 0; i < w.size(); ++i) w[i] -= 0.5 * gw[i];
    for (size_t i = 0; i < v.size(); ++i) v[i] -= 0.5 * gv[i];
  }
  check_close(fixture.saved("saved.safetensors", "w"), w);
  check_close(fixture.saved("saved.safetensors", "v"), v);
  const auto log = fixture.log();
  REQUIRE(log.size() == 3);
  for (size_t step = 1; step <= 2; ++step) {
    const std::string head = "{\"step\": " + std::to_string(step) + ", \"loss\": ";
    REQUIRE(log[step - 1].find(head) == 0);
    CHECK(std::stod(log[step - 1].substr(head.size())) == Approx(losses[step - 1]).epsilon(1e-5));
  }
  CHECK(log[2].find("{\"summary\": {\"steps\": 2, ") == 0);
}

TEST_CASE("replicas sum their gradients before the update") {
  Fixture fixture;
  const plan::Bundle bundle = replicas();
  Status status = fixture.run(bundle, 2);
  INFO((status.ok() ? "" : status.error().message));
  REQUIRE(status.ok());
  std::vector<double> w(kW.begin(), kW.end());
  for (size_t step = 1; step <= 2; ++step) {
    const auto gw = product(transpose(rows(kX, 3, step), 2, 3), rows(kT, 2, step), 3, 2, 2);
    if (step == 1) check_close(fixture.saved("gradients.safetensors", "w"), gw);
    for (size_t i = 0; i < w.size(); ++i) w[i] -= 0.5 * gw[i];
  }
  check_close(fixture.saved("saved.safetensors", "w"), w);
}

TEST_CASE("a message that never comes is reported with rank, step, instruction and provenance") {
  Fixture fixture;
  fixture.timeout = std::chrono::milliseconds(300);
  plan::Bundle bundle = pipeline();
  bundle.ranks[1].instructions.erase(bundle.ranks[1].instructions.begin() + 2);  // rank 1 does not send
  const Status status = fixture.run(bundle, 1);
  REQUIRE_FALSE(status.ok());
  CHECK(status.error().code == "R0302");
  CHECK(status.error().message.find("step 1, instr 4 recv from rank 1 (place at s.yaml:3:5): waited") != std::string::npos);
}

TEST_CASE("ends of a message that differ in size are reported") {
  Fixture fixture;
  plan::Bundle bundle = pipeline();
  std::get<plan::Recv>(bundle.ranks[1].instructions[0].action).bytes = 12;
  const Status status = fixture.run(bundle, 1);
  REQUIRE_FALSE(status.ok());
  CHECK(status.error().code == "R0301");
}

TEST_CASE("a kernel that does not fit is refused at load, with its origin") {
  Fixture fixture;
  plan::Bundle bundle = pipeline();
  bundle.programs[0].calls[0].kernel = "no_such_kernel";
  const Status status = fixture.run(bundle, 1);
  REQUIRE_FALSE(status.ok());
  CHECK(status.error().code == "R0401");
  CHECK(status.error().message.find("rank 0: instr 0 run c0.F on c0.F m0 (place at s.yaml:3:5): call 0 of c0.F, kernel no_such_kernel (net.layer)") == 0);
}

TEST_CASE("an event recorded twice is refused, R0404") {
  Fixture fixture;
  plan::Bundle bundle = pipeline();
  bundle.ranks[0].instructions.push_back(instruction(0, plan::Record{0}));
  CHECK(fixture.run(bundle, 1).error().code == "R0404");
}

TEST_CASE("a weight of another shape is R0502") {
  Fixture fixture;
  plan::Bundle bundle = pipeline();
  bundle.ranks[1].placements[0].shape = {4};
  CHECK(fixture.run(bundle, 1).error().code == "R0502");
}

TEST_CASE("the learning rate follows its schedule") {
  plan::LrSchedule schedule;
  CHECK(lr_factor(schedule, 1) == 1);
  schedule.warmup = 4;
  CHECK(lr_factor(schedule, 1) == 0.25);
  CHECK(lr_factor(schedule, 4) == 1);
  schedule.kind = "cosine";
  schedule.until = 14;
  schedule.to = 0.1;
  CHECK(lr_factor(schedule, 9) == Approx(0.55));
  CHECK(lr_factor(schedule, 14) == Approx(0.1));
  CHECK(lr_factor(schedule, 100) == Approx(0.1));
  schedule.kind = "linear";
  CHECK(lr_factor(schedule, 9) == Approx(0.55));
  CHECK(lr_factor(schedule, 5) == Approx(0.91));
}

}  // namespace
}  // namespace piper::exec
