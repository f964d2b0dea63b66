// Whole models as torch's exporter writes them, imported operator by operator. The models are too
// large for the tree: PIPER_TEST_MODELS names a folder of <model>/model.onnx and
// <model>/variants/*.onnx, the acceptance kit's exports.
#include <catch2/catch.hpp>

#include <cstdlib>
#include <filesystem>
#include <iostream>

#include "compiler/frontend/fold.h"
#include "compiler/frontend/onnx/import_nodes.h"
#include "tests/unit/onnx_binder.h"

using namespace piper;

namespace {

std::vector<std::filesystem::path> models() {
  std::vector<std::filesystem::path> out;
  const char* folder = std::getenv("PIPER_TEST_MODELS");
  if (folder == nullptr) return out;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
    if (entry.path().extension() == ".onnx") out.push_back(entry.path());
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace

// The file's own value_info says what shape each value of the PyTorch program has.
TEST_CASE("exported models import with the shapes of their value_info") {
  const std::vector<std::filesystem::path> paths = models();
  if (paths.empty()) {
    std::cout << "[SKIP] PIPER_TEST_MODELS names no folder with models\n";
    return;
  }
  for (const std::filesystem::path& path : paths)
    for (const int64_t batch : {8, 2}) {
      INFO(path.string() << " at batch " << batch);
      Result<frontend::onnx::OnnxFile> file = frontend::onnx::read_onnx(path.string());
      REQUIRE(file.ok());
      std::optional<frontend::BoundModel> model = test::bind_plainly(*file, batch);
      REQUIRE(model);
      diag::Diagnostics diags;
      const Status status = frontend::onnx::import_nodes(*model, diags);
      INFO(diags.render_text(false));
      REQUIRE(status.ok());
      frontend::aten::Dims dims;
      dims.bind("B", batch);
      size_t compared = 0;
      for (const frontend::onnx::OnnxValueInfo& v : file->value_info) {
        const auto found = model->values.find(v.name);
        // Shapes of one-element shape pieces are left out by the exporter: it writes [] for [1].
        if (found == model->values.end() || !v.has_shape || v.dims.empty()) continue;
        std::vector<int64_t> shape;
        for (const frontend::onnx::OnnxDim& d : v.dims) {
          const Result<int64_t> extent = d.value >= 0 ? Result<int64_t>(d.value) : dims.evaluate(d.symbol);
          REQUIRE(extent.ok());
          shape.push_back(*extent);
        }
        INFO(v.name);
        CHECK(model->graph.type(found->second).shape == shape);
        ++compared;
      }
      CHECK(compared > 5);
      const ir::Graph graph = frontend::fold(model->graph);
      REQUIRE(graph.outputs.size() == 1);
      CHECK(graph.type(graph.outputs[0].value) == ir::TensorType{DType::kF32, {}});
    }
}
