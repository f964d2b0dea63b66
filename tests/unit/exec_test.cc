// The executor on small plans written by hand: two ranks as a pipeline, two ranks as replicas; errors
// and waiting.
#include <catch2/catch.hpp>

#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "runtime/exec/lr_schedule.h"
#include "runtime/exec/session/session.h"
#include "runtime/hal/local/local_transport.h"
#include "runtime/hal/transport_channel.h"
#include "schemas/plan/safetensors.h"
#include "tests/unit/hand_written_plans.h"

namespace piper::exec {
namespace {

namespace fs = std::filesystem;
using hand_written::instruction;
using hand_written::kT;
using hand_written::kV;
using hand_written::kW;
using hand_written::kX;
using hand_written::pipeline;
using hand_written::replicas;

// Runs a bundle on threads, with four samples of data, and keeps what it wrote.
class Fixture {
 public:
  Fixture() : folder_(fs::temp_directory_path() / ("piper-exec-test-" + std::to_string(getpid()))) {
    fs::create_directories(folder_);
    REQUIRE(hand_written::write_files(folder_.string()).ok());
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
    session.options.link_delay = link_delay;
    CpuBackendOptions cpu;
    cpu.device.huge_pages = false;
    cpu.link_delay = link_delay;
    session.options.log = log_file.empty() ? path("log.jsonl") : log_file;
    session.options.save = path("saved.safetensors");
    session.options.save_gradients = path("gradients.safetensors");
    hal::LocalWorld world(static_cast<int32_t>(bundle.ranks.size()));
    std::vector<std::thread> ranks;
    for (const plan::RankPlan& plan : bundle.ranks)
      ranks.emplace_back([&] {
        const auto transport = world.transport(plan.rank);
        hal::TransportChannel control(*transport);
        run_rank(session, plan, cpu_backend(*transport, cpu), control);
      });
    for (std::thread& rank : ranks) rank.join();
    log_failure = std::move(session.log_failure);
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
  std::optional<hal::LinkDelay> link_delay;
  std::string log_file;
  Status log_failure;

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
  return std::vector<double>(all.begin() + static_cast<int64_t>((step - 1) * 2 * width),
                             all.begin() + static_cast<int64_t>(step * 2 * width));
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
    const auto gv = product(transpose(y, 2, 2), t, 2, 2, 2),
               gw = product(transpose(x, 2, 3), product(t, transpose(v, 2, 2), 2, 2, 2), 3, 2, 2);
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

TEST_CASE("a full disk ends the log, not the training") {
  Fixture fixture;
  const plan::Bundle bundle = pipeline();
  REQUIRE(fixture.run(bundle, 3).ok());
  CHECK(fixture.log_failure.ok());
  const auto weights = fixture.saved("saved.safetensors", "w");
  fixture.log_file = "/dev/full";
  const Status status = fixture.run(bundle, 3);
  INFO((status.ok() ? "" : status.error().message));
  REQUIRE(status.ok());
  CHECK(fixture.saved("saved.safetensors", "w") == weights);
  REQUIRE_FALSE(fixture.log_failure.ok());
  CHECK(fixture.log_failure.error().code == "R0601");
  CHECK(fixture.log_failure.error().message == "cannot write the log '/dev/full': No space left on device");
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

// Both halves of a sum add in position order: sharing the update changes no bit.
TEST_CASE("replicas that share the update train as those that do not") {
  Fixture fixture;
  std::vector<float> weights[2], gradients[2];
  for (int shared = 0; shared < 2; ++shared) {
    const Status status = fixture.run(shared == 0 ? replicas() : hand_written::sharded(), 3);
    INFO((status.ok() ? "" : status.error().message));
    REQUIRE(status.ok());
    weights[shared] = fixture.saved("saved.safetensors", "w");
    gradients[shared] = fixture.saved("gradients.safetensors", "w");
  }
  CHECK(weights[0] == weights[1]);
  CHECK(gradients[0] == gradients[1]);
}

TEST_CASE("samples that change ranks give the same gradient") {
  Fixture fixture;
  const plan::Bundle bundle = hand_written::exchanged();
  const Status status = fixture.run(bundle, 1);
  INFO((status.ok() ? "" : status.error().message));
  REQUIRE(status.ok());
  const auto gw = product(transpose({kX.begin(), kX.end()}, 4, 3), {kT.begin(), kT.end()}, 3, 4, 2);
  check_close(fixture.saved("gradients.safetensors", "w"), gw);
}

TEST_CASE("row counts that do not fit are R0304, with the instruction") {
  Fixture fixture;
  plan::Bundle bundle = hand_written::exchanged();
  for (auto& rank : bundle.ranks) rank.scalars[0].values = {1, 2};
  const Status status = fixture.run(bundle, 1);
  REQUIRE_FALSE(status.ok());
  CHECK(status.error().code == "R0304");
  CHECK(status.error().message.find(
            "instr 1 all_to_all on dp_reduce:0,1 (replicate at s.yaml:4:5): 2 rows to rank 1") != std::string::npos);
}

// With one lane for a stream and a directed pair, no send waits for a receive that it does not depend on.
TEST_CASE("a send passes a receive that was issued before it on another lane") {
  Fixture fixture;
  fixture.link_delay = hal::LinkDelay{std::chrono::microseconds(3000), 0};
  const plan::Bundle bundle = hand_written::lanes();
  const Status status = fixture.run(bundle, 3);
  INFO((status.ok() ? "" : status.error().message));
  CHECK(status.ok());
}

TEST_CASE("a message that never comes is reported with rank, step, instruction and provenance") {
  Fixture fixture;
  fixture.timeout = std::chrono::seconds(3);  // also what the ranks have to find each other on a busy machine
  plan::Bundle bundle = pipeline();
  auto& instructions = bundle.ranks[1].instructions.edit();
  instructions.erase(instructions.begin() + 2);  // rank 1 does not send
  const Status status = fixture.run(bundle, 1);
  REQUIRE_FALSE(status.ok());
  CHECK(status.error().code == "R0302");
  INFO(status.error().message);
  CHECK(status.error().message.find("step 1, instr 4 recv from rank 1 (place at s.yaml:3:5): waited") !=
        std::string::npos);
}

TEST_CASE("ends of a message that differ in size are reported") {
  Fixture fixture;
  plan::Bundle bundle = pipeline();
  std::get<plan::Recv>(bundle.ranks[1].instructions.edit()[0].action).count = 3;
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
  CHECK(status.error().message.find("rank 0: instr 0 run c0.F on c0.F m0 (place at s.yaml:3:5): call 0 of c0.F, kernel "
                                    "no_such_kernel (net.layer)") == 0);
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
  using plan::LrCurve;
  schedule.kind = "phases";
  schedule.phases = {{LrCurve::kConstant, 10, 0.5},
                     {LrCurve::kOneMinusSqrt, 16, 0.5, 0.1},
                     {LrCurve::kLinear, 4, 0.1, 0.3},
                     {LrCurve::kPolynomial, 10, 0.3, 0.1, 2}};
  CHECK(lr_factor(schedule, 4) == 1);
  CHECK(lr_factor(schedule, 14) == 0.5);
  CHECK(lr_factor(schedule, 18) == Approx(0.3));
  CHECK(lr_factor(schedule, 30) == Approx(0.1));
  CHECK(lr_factor(schedule, 32) == Approx(0.2));
  CHECK(lr_factor(schedule, 39) == Approx(0.1 + 0.2 * 0.25));
  CHECK(lr_factor(schedule, 1000000) == Approx(0.1));
  schedule.phases = {{LrCurve::kInverseSqrt, 0, 1, 0, 1, 4}};
  CHECK(lr_factor(schedule, 16) == Approx(0.5));
  CHECK(lr_factor(schedule, 400) == Approx(0.1));
}

}  // namespace
}  // namespace piper::exec
