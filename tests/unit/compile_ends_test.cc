// What a compilation leaves to the end of its process.
#include <catch2/catch.hpp>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <thread>

#include "compiler/driver/compile.h"
#include "tests/source_path.h"
#include "tests/unit/temp_folder.h"

namespace piper::driver {
namespace {

size_t threads() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return static_cast<size_t>(std::distance(begin(tasks), end(tasks)));
}

// tiny_mlp.onnx with a long doc_string (field 6 of ModelProto), so that its digest takes long.
std::string long_model() {
  std::ifstream in(test::source_path("tests/models/tiny_mlp.onnx"), std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(in)), {});
  constexpr size_t kLength = size_t{64} << 20;
  bytes += '\x32';
  for (size_t rest = kLength; rest > 0; rest >>= 7)
    bytes += static_cast<char>((rest & 0x7f) | (rest > 0x7f ? 0x80 : 0));
  return bytes + std::string(kLength, ' ');
}

constexpr const char* kStrategy = R"(piper: 1
model: {batch: 8}
optimizer: {sgd: {lr: 0.1}}
directives:
  - {op: split, num_microbatches: 2}
)";
// The backward of a microbatch before its forward.
constexpr const char* kAgainstData = "  - {op: order, filters: [[{MB: 0, PASS: B}], [{MB: 0, PASS: F}]]}\n";

}  // namespace

TEST_CASE("a process that ends after its compilation has no other thread then") {
  const TempFolder folder;
  CompileOptions options;
  options.process_ends_next = true;
  options.model = folder.write("long.onnx", long_model());
  const bool refused = GENERATE(false, true);
  options.strategy = folder.write("s.yaml", std::string(kStrategy) + (refused ? kAgainstData : ""));
  if (!refused) options.stop_after = "order";
  std::thread([] {}).join();  // ThreadSanitizer begins its own thread with the first
  const size_t before = threads();
  diag::Diagnostics diags;
  std::ostringstream out, err;
  const auto done = compile(options, diags, out, err);
  INFO(diags.render_text(false));
  CHECK(done.ok() != refused);
  if (refused) CHECK(diags.render_text(false).find("P0221") != std::string::npos);
  CHECK(threads() == before);
}

}  // namespace piper::driver
