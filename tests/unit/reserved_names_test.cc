// A value of the model that is called as the sums and numbers of the step are.
#include <catch2/catch.hpp>

#include <set>
#include <sstream>

#include "compiler/driver/compile.h"
#include "tests/unit/onnx_writer.h"
#include "tests/unit/temp_folder.h"

namespace piper::driver {

TEST_CASE("values of the model with names of the step make no second slot of that name") {
  const std::string name = GENERATE("loss", "dropped", "seed_step", "sample_offset", "place", "loss_scale", "saved");
  test::ModelWriter m;
  m.input("x", frontend::onnx::ElemCode::kFloat, {"B", "4"});
  m.output("error");
  m.weight("first.w", {4, 4});
  m.weight("last.w", {4, 4});
  m.node("MatMul", {"x", "first.w"}, {name});
  m.node("MatMul", {name, "last.w"}, {"y"});
  m.node("Mul", {"y", name}, {"squares"});
  m.node("ReduceMean", {"squares"}, {"error"}, {test::int_attribute("keepdims", 0)});
  const TempFolder folder;
  CompileOptions options;
  options.model = folder.write("model.onnx", m.bytes());
  options.strategy = folder.write("s.yaml", "piper: 1\nmodel: {batch: 8}\noptimizer: {sgd: {lr: 0.1}}\n");
  options.output = folder / "plans";
  options.weights = plan::WeightMode::kNone;
  diag::Diagnostics diags;
  std::ostringstream out, err;
  const auto done = compile(options, diags, out, err);
  INFO(diags.render_text(false));
  REQUIRE(done.ok());
  const auto bundle = plan::read_bundle(options.output);
  INFO((bundle.ok() ? std::string() : bundle.error().message));
  REQUIRE(bundle.ok());
  for (const plan::Program& program : bundle->programs) {
    std::set<std::string> names;
    for (const plan::Slot& slot : program.slots) CHECK(names.insert(slot.name).second);
  }
}

}  // namespace piper::driver
