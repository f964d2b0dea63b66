// A stage of a schedule in which nothing is to be computed: it could own no work, no parameter and no message.
#include <catch2/catch.hpp>

#include <sstream>

#include "compiler/driver/compile.h"
#include "tests/unit/onnx_writer.h"
#include "tests/unit/temp_folder.h"

namespace piper::driver {
namespace {

using test::ModelWriter;

// first -> turned -> last, where `turned` depends on weights alone: such operators are copied to whoever reads them.
std::string model() {
  const auto in = [](const char* module) {
    return std::vector<std::pair<std::string, std::string>>{
        {"pkg.torch.onnx.name_scopes", std::string("['', '") + module + "', 'op']"}};
  };
  ModelWriter m;
  m.input("x", frontend::onnx::ElemCode::kFloat, {"B", "4"});
  m.input("target", frontend::onnx::ElemCode::kFloat, {"B", "4"});
  m.output("loss");
  m.weight("first.w", {4, 4});
  m.weight("last.w", {4, 4});
  m.node("MatMul", {"x", "first.w"}, {"a"}, {}, in("first"));
  m.node("Neg", {"last.w"}, {"turned"}, {}, in("turned"));
  m.node("MatMul", {"a", "turned"}, {"c"}, {}, in("last"));
  m.node("Sub", {"c", "target"}, {"d"}, {}, in("last"));
  m.node("Mul", {"d", "d"}, {"s"}, {}, in("last"));
  m.node("ReduceMean", {"s"}, {"loss"}, {test::int_attribute("keepdims", 0)}, in("last"));
  return m.bytes();
}

constexpr const char* kStrategy = R"(piper: 1
model: {batch: 8, loss: loss}
annotate:
  - {tag: PP, starts: ["first", "turned", "last"]}
optimizer: {sgd: {lr: 0.1}}
schedule: {family: 1f1b, microbatches: 2}
)";

}  // namespace

TEST_CASE("a schedule names the stage that has no work") {
  const TempFolder folder;
  CompileOptions options;
  options.model = folder.write("model.onnx", model());
  options.strategy = folder.write("s.yaml", kStrategy);
  options.stop_after = "order";
  diag::Diagnostics diags;
  std::ostringstream out, err;
  CHECK_FALSE(compile(options, diags, out, err).ok());
  const std::string text = diags.render_text(false);
  INFO(text);
  CHECK(text.find("error[P0240]: no node has PP 1, but PP 2 exists") != std::string::npos);
}

}  // namespace piper::driver
