// `mesh` and `node` of a strategy: names for ranks, so that `devices: {pp: 0}` or "0..15" stands for a list of numbers.
// The loader reads them first and every device list through list_of_ranks and groups_of_ranks; nothing after the
// loader knows of a mesh. A rank's number is the sum over axes of its index times the axis' stride.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "compiler/strategy/value_reader.h"

namespace piper::strategy {

struct MeshAxis {
  std::string name;
  int32_t size = 1;
  int32_t stride = 1;  // from the rank with one index to that with the next
};
struct Mesh {
  std::vector<MeshAxis> axes;  // as written; the last one varies fastest, except what `node` keeps inside of a node
  int32_t ranks_per_node = 0;  // 0: not said
  diag::Span span;
  int32_t num_ranks() const;
  std::string coordinates(int32_t rank) const;  // "{pp: 1, dp: 3}"
};

// Reads `mesh: {pp: 8, dp: 4}` and, where it is given, `node: {ranks: 8, inside: [dp]}`. Errors: P0202, P0207 an axis
// of no size, P0248 no axis or too many ranks, `inside` does not fit into a node, P0249 `inside` names no axis.
std::optional<Mesh> read_mesh(ReadContext& context, const Value& value, const Value* node);

// What a range "0..15" or a choice of the mesh's ranks {pp: 0} stands for, with its place in the file: a list of ranks.
// Those of a choice come in the order of their indices, the last axis fastest, whatever their numbers. Errors: P0202
// neither, P0209 a value that chooses no index, P0213 a range that ends before it begins, P0249 no such axis or index,
// or no mesh.
std::optional<Value> list_of_ranks(ReadContext& context, const Value& value, const std::string& what);
// The same where groups are allowed: a choice with {dp: each} is a list of lists, one for each index of such axes.
std::optional<Value> groups_of_ranks(ReadContext& context, const Value& value, const std::string& what);
// What the name of an axis, or a list of names, stands for: the groups of ranks that differ in these axes alone.
std::optional<Value> groups_along(ReadContext& context, const Value& axes, const std::string& what);

}  // namespace piper::strategy
