// The ATen calls of an ONNX file: nodes that carry the same FX text are one call. Grouped once when
// a file is opened, imported as often as it is bound. It reads texts only, no shapes.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "compiler/frontend/aten/fx_text.h"
#include "compiler/frontend/onnx/onnx_file.h"
#include "schemas/base/status.h"

namespace piper::frontend::aten {

struct CallGroup {
  FxCall call;
  std::vector<size_t> nodes;   // indices of the file's nodes, ascending
  std::vector<std::string> refs;
};

struct CallGroups {
  std::vector<CallGroup> groups;               // by the position of their last node
  std::map<std::string, size_t> producer;      // FX name or ONNX output name -> group
};

// True where every node carries an FX text: the ATen route can read the file.
bool every_node_has_text(const onnx::OnnxFile& file);

// Error P0304: a text is not understood (the node is named), or two texts claim one name.
Result<CallGroups> group_calls(const onnx::OnnxFile& file);

// Groups that the graph's outputs depend on, dependencies first, else in file order.
std::vector<size_t> live_order(const CallGroups& groups, const std::vector<std::string>& outputs);

}  // namespace piper::frontend::aten
