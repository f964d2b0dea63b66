// A graph that ATen calls are imported into one by one: for tests of what the importer makes of a call.
#pragma once

#include <catch2/catch.hpp>

#include <string>
#include <utility>
#include <vector>

#include "compiler/frontend/aten/table.h"

namespace piper::test {

struct AtenModel {
  using Item = frontend::aten::Item;

  ir::Graph graph;
  frontend::aten::ImportState state;
  Status status;

  AtenModel() { state.graph = &graph; }
  Item input(const std::string& name, DType dtype, std::vector<int64_t> shape) {
    return Item::of_tensor(graph.add_input(name, {dtype, std::move(shape)}, true));
  }
  Item call(const std::string& target, std::vector<Item> args, std::vector<std::pair<std::string, Item>> kwargs = {}) {
    const frontend::aten::TableRow* row = frontend::aten::find_row(target);
    REQUIRE(row != nullptr);
    Result<std::vector<Item>> bound = frontend::aten::bind_arguments(row->schema, std::move(args), std::move(kwargs));
    REQUIRE(bound.ok());
    frontend::aten::Call made(state, row->schema, row->kind, std::move(bound).value(), "call", "m",
                              graph.intern_scope("m"), graph.provenance().model({"call", "m", ""}));
    Item result = made.made_by(row->handler);
    if (status.ok()) status = made.status();
    return result;
  }
  const ir::Op& producer(const Item& x) const { return graph.op(graph.value(x.tensor).producer); }
  std::vector<ir::OpKind> kinds() const {
    std::vector<ir::OpKind> out;
    for (size_t i = 0; i < graph.num_ops(); ++i) out.push_back(graph.op(ir::OpId(static_cast<uint32_t>(i))).kind);
    return out;
  }
  bool has(ir::OpKind kind) const {
    for (ir::OpKind k : kinds())
      if (k == kind) return true;
    return false;
  }
};

}  // namespace piper::test
