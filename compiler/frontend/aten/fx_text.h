// Parser of the text of one FX node, as torch's ONNX exporter writes it into each node's metadata:
//   %add : [num_users=1] = call_function[target=torch.ops.aten.add.Tensor](args = (%x, 1), kwargs = {})
// Strings are written unquoted and keyword names bare. Used by the ATen importer; it resolves no
// names and knows no operators, but that the first argument of einsum is an equation.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/frontend/aten/item.h"
#include "schemas/base/status.h"

namespace piper::frontend::aten {

// Made of the metadata of a node in an ONNX file, which has its FX node's text.
inline constexpr std::string_view kFxNodeKey = "pkg.torch.onnx.fx_node";

struct FxCall {
  std::string name;    // "add", without '%'
  std::string target;  // "aten.add.Tensor", "operator.getitem", "prims.convert_element_type.default"
  std::vector<Item> args;
  std::vector<std::pair<std::string, Item>> kwargs;
};

// A target as the table names it: "torch.ops.aten.add.Tensor" -> "aten.add.Tensor",
// "_operator.mul" -> "operator.mul".
std::string plain_target(std::string target);

// Error P0304: the text is not of this form; the message quotes where it stops.
Result<FxCall> parse_fx_text(std::string_view text);

// One literal: "1e-05", "[0, 1]", "None", "%x", "torch.int64".
Result<Item> parse_fx_literal(std::string_view text);

// The names that `item` refers to, nested ones included, appended in order.
void collect_refs(const Item& item, std::vector<std::string>& names);

}  // namespace piper::frontend::aten
