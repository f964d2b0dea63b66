// Which container a model file is: a zip archive (`.pt2`), else ONNX.
#include <fstream>

#include "compiler/frontend/onnx_model.h"
#include "compiler/frontend/pt2_model.h"

namespace piper::frontend {

Result<std::unique_ptr<ModelFile>> open_model(const std::string& path, const std::string& route,
                                              diag::Diagnostics& diags) {
  if (route != "auto" && route != "fx" && route != "onnx")
    return diags.error("P0300") << "unknown import route '" << route << "': auto, fx or onnx";
  char magic[2] = {0, 0};
  std::ifstream(path, std::ios::binary).read(magic, sizeof magic);
  if (magic[0] == 'P' && magic[1] == 'K') return Pt2Model::open(path, route, diags);
  return OnnxModel::open(path, route, diags);
}

}  // namespace piper::frontend
