// Files of machines: those of the project, and wrong ones.
#include <catch2/catch.hpp>
#include <filesystem>

#include "compiler/machine/load_machine.h"
#include "tests/source_path.h"
#include "tests/unit/temp_folder.h"

namespace piper::machine {
namespace {

constexpr const char* kRight = R"(name: m
device: cpu
ranks_per_node: 2
flops: {f32: 1.0e9}
memory_bytes: 1.0e9
memory_bytes_per_second: 1.0e9
efficiency: {product: 1, grouped_product: 1, attention: 0.5, memory: 1}
kernel_us: 0
host_us: 0
inside_node: {latency_us: 0, bytes_per_second: 1.0e9}
between_nodes: {latency_us: 7, bytes_per_second: 1.0e9, ports_per_node: 1}
)";

std::string replaced(const std::string& from, const std::string& to) {
  std::string text = kRight;
  const size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}
std::string said_of(const std::string& text) {
  const TempFolder folder;
  diag::Diagnostics diags;
  const auto machine = load_machine(folder.write("m.yaml", text), diags);
  CHECK(machine.ok() == !diags.failed());
  return diags.render_text(false);
}
bool holds(const std::string& all, const std::string& part) { return all.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("every machine of the project can be read") {
  size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(test::source_path("strategies/targets"))) {
    INFO(entry.path());
    diag::Diagnostics diags;
    const auto machine = load_machine(entry.path().string(), diags);
    INFO(diags.render_text(false));
    REQUIRE(machine.ok());
    CHECK(machine->flops[static_cast<size_t>(DType::kF32)] > 0);
    ++files;
  }
  CHECK(files >= 4);
}

TEST_CASE("a machine is of one device") {
  CHECK(holds(said_of(replaced("device: cpu\n", "")), "error[P0206]: the machine needs 'device'"));
  CHECK(holds(said_of(replaced("device: cpu", "device: gpu")), "error[P0207]: 'device' is 'cpu' or 'cuda', not 'gpu'"));
  const TempFolder folder;
  for (const auto wanted : {plan::DeviceKind::kCpu, plan::DeviceKind::kCuda}) {
    diag::Diagnostics diags;
    const auto machine = load_machine(folder.write("m.yaml", replaced("device: cpu", "device: cuda")), diags, wanted);
    REQUIRE(machine.ok() == (wanted == plan::DeviceKind::kCuda));
    if (machine.ok()) CHECK(machine->device == plan::DeviceKind::kCuda);
    else
      CHECK(
          holds(diags.render_text(false), "m.yaml:2:9: error[P0250]: the target is of cuda, and the plans are of cpu"));
  }
}

TEST_CASE("a machine is what its file says") {
  const TempFolder folder;
  diag::Diagnostics diags;
  const auto machine = load_machine(folder.write("m.yaml", kRight), diags);
  REQUIRE(machine.ok());
  CHECK(machine->attention_efficiency == 0.5);
  CHECK(machine->inside.ports == 2);
  CHECK(machine->between.ports == 1);
  CHECK(machine->between.latency_us == 7);
  CHECK(machine->cores == 0);
  CHECK(machine->collectives == timeline::Collectives::kRings);
  const auto direct = load_machine(folder.write("d.yaml", std::string(kRight) + "collectives: direct\n"), diags);
  REQUIRE(direct.ok());
  CHECK(direct->collectives == timeline::Collectives::kDirect);
  const auto listed = load_machine(folder.write("l.yaml", std::string(kRight) + R"(collectives:
  - {shape: ring, start_us: 8, inside_us: 3, between_us: 14, bandwidth: 1}
  - {shape: tree, start_us: 0, inside_us: 4, between_us: 15, bandwidth: 0.5}
multiprocessors: {of_device: 132, of_a_transfer: 20}
nine_of_ten: [0.9, 1.25]
)"),
                                   diags);
  REQUIRE(listed.ok());
  REQUIRE(listed->algorithms.size() == 2);
  CHECK(listed->algorithms[0].between_us == 14);
  CHECK(listed->algorithms[1].shape == timeline::Algorithm::Shape::kTree);
  CHECK(listed->algorithms[1].bandwidth == 0.5);
  CHECK((listed->multiprocessors == 132 && listed->of_a_transfer == 20));
  CHECK(listed->nine_of_ten == std::pair(0.9, 1.25));
  CHECK(!machine->nine_of_ten);
}

TEST_CASE("a wrong machine is told with its place") {
  CHECK(said_of(kRight).empty());
  CHECK(holds(said_of(replaced("host_us: 0\n", "")), "P0206"));
  CHECK(holds(said_of(replaced("host_us", "host")), "m.yaml:9:1: error[P0201]: unknown key 'host' in the machine"));
  CHECK(holds(said_of(replaced("memory: 1}", "memory: 1.5}")), "'memory' is a part of the peak, at most 1"));
  CHECK(holds(said_of(replaced("memory_bytes: 1.0e9", "memory_bytes: 0")),
              "error[P0207]: 'memory_bytes' must be above 0"));
  CHECK(holds(said_of(replaced("ports_per_node: 1", "ports_per_node: 3")),
              "a node of 2 ranks uses at most as many ports"));
  CHECK(holds(said_of(replaced("f32: 1.0e9", "bf16: 1.0e9")), "'flops' needs 'f32'"));
  CHECK(holds(said_of(std::string(kRight) + "collectives: trees\n"),
              "'collectives' are 'rings', 'direct' or a list of algorithms, not 'trees'"));
  const auto by = [](const char* algorithm) {
    return said_of(std::string(kRight) + "collectives:\n  - {" + algorithm + "}\n");
  };
  CHECK(holds(by("shape: star, start_us: 1, inside_us: 1, between_us: 1, bandwidth: 1"),
              "m.yaml:13:13: error[P0207]: 'shape' is 'ring' or 'tree', not 'star'"));
  CHECK(holds(by("shape: ring, start_us: 1, inside_us: 1, between_us: 1, bandwidth: 2"), "a part of the links'"));
  CHECK(holds(by("shape: ring, start_us: 1, inside_us: 1, between_us: 1"), "P0206"));
  CHECK(holds(by("shape: tree, start_us: 1, inside_us: 1, between_us: 1, bandwidth: 1"),
              "'collectives' needs a ring, by which gathers go"));
  CHECK(holds(said_of(std::string(kRight) + "multiprocessors: {of_device: 4, of_a_transfer: 4}\n"),
              "a transfer leaves its device at least one multiprocessor"));
  for (const char* range : {"[1.2, 0.9]", "[0, 1]", "[1]", "1"})
    CHECK(holds(said_of(std::string(kRight) + "nine_of_ten: " + range + "\n"), "'nine_of_ten' is [least, most]"));
  const std::string of_a_core = "'core_bytes_per_second' is what one of 'cores' has";
  CHECK(holds(said_of(replaced("kernel_us", "core_bytes_per_second: 0.5e9\nkernel_us")), of_a_core));
  CHECK(holds(said_of(replaced("kernel_us", "cores: 2\ncore_bytes_per_second: 2.0e9\nkernel_us")), of_a_core));
  CHECK(said_of(replaced("kernel_us", "cores: 2\ncore_bytes_per_second: 0.5e9\nkernel_us")).empty());
  diag::Diagnostics diags;
  CHECK(!load_machine("none.yaml", diags).ok());
  CHECK(holds(diags.render_text(false), "P0101"));
}

}  // namespace piper::machine
