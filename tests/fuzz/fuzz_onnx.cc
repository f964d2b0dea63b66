// Fuzzes the reader of ONNX files, the operator-by-operator importer and the folder with one input:
// whatever the bytes are, each ends with a result or a diagnostic.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "compiler/frontend/fold.h"
#include "compiler/frontend/onnx/import_nodes.h"
#include "tests/unit/onnx_binder.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace piper;
  Result<frontend::onnx::OnnxFile> file = frontend::onnx::read_onnx_bytes({reinterpret_cast<const char*>(data), size});
  if (!file.ok()) return 0;
  std::optional<frontend::BoundModel> model = test::bind_plainly(*file, 2);
  if (!model) return 0;
  diag::Diagnostics diags;
  constexpr frontend::onnx::FoldLimits kLimits{int64_t{1} << 20, int64_t{1} << 24};
  const Status status = frontend::onnx::import_nodes(*model, diags, kLimits);
  if (!status.ok()) {
    PIPER_CHECK(diags.failed(), "a failure without a diagnostic");
    (void)diags.render_text(false);
    return 0;
  }
  const ir::Graph graph = frontend::fold(model->graph);
  PIPER_CHECK(graph.outputs.size() == file->outputs.size(), "an output is lost");
  return 0;
}
