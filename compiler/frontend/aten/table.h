// The table of ATen calls: target -> schema and the function that turns the call into ops of the
// op set. Rows are in call_table.def, functions in one file per family. Used by import_calls, for the
// calls of `.pt2` archives and for those whose text ONNX nodes carry.
#pragma once

#include <string>
#include <vector>

#include "compiler/frontend/aten/call.h"
#include "schemas/base/status.h"

namespace piper::frontend::aten {

// What a call becomes: a tensor, a number (sizes), or a list of results.
using Handler = Item (*)(Call& call);

struct TableRow {
  Schema schema;
  OpKind kind;  // for functions that serve several rows
  Handler handler;
};

// A handler's result that is one tensor.
inline Item made(ValueId v) { return Item::of_tensor(v); }

// The row of a target ("aten.linear.default"), or null.
const TableRow* find_row(const std::string& target);
// That row, or one of another overload of the same operator; null where the table has neither.
const TableRow* find_operator(const std::string& target);
// Targets of the table that resemble `target`: the overloads of the same operator, else the nearest names.
std::vector<std::string> resembling_targets(const std::string& target);

// One item per parameter of the schema from positional and keyword arguments; defaults fill the
// rest. Placement arguments (device, layout, memory_format, ...) are dropped. Error P0305: an
// argument that the schema lacks, or one that is missing.
Result<std::vector<Item>> bind_arguments(const Schema& schema, std::vector<Item> args,
                                         std::vector<std::pair<std::string, Item>> kwargs);

#define PIPER_ATEN(handler, kind, schema) Item handler(Call& call);
#include "compiler/frontend/aten/call_table.def"
#undef PIPER_ATEN

}  // namespace piper::frontend::aten
