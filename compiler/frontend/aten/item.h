// An argument or a result of an ATen call: None, a number, a word, a reference to another call, a
// tensor of the graph, or a list of those. Made by the text parser (references by name) and by the
// importer (tensors in their place). It owns no data.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "compiler/ir/ids.h"

namespace piper::frontend::aten {

struct Item {
  enum class Kind : uint8_t { kNone, kBool, kInt, kFloat, kText, kRef, kTensor, kList };
  Kind kind = Kind::kNone;
  bool flag = false;    // kBool
  int64_t integer = 0;  // kInt
  double real = 0;      // kFloat
  // A number made of the batch's extent: integer, real and flag say it of a piece, `whole` of the step's batch.
  bool varies = false;
  double whole = 0;
  bool of_batch = false;   // made of the batch's extent, be it the same in a piece
  std::string text;        // kText: a bare word; kRef: the name without '%'
  ir::ValueId tensor;      // kTensor
  std::vector<Item> list;  // kList: lists and tuples

  static Item none() { return {}; }
  static Item of_bool(bool v) {
    Item x;
    x.kind = Kind::kBool;
    x.flag = v;
    return x;
  }
  static Item of_int(int64_t v) {
    Item x;
    x.kind = Kind::kInt;
    x.integer = v;
    return x;
  }
  static Item of_float(double v) {
    Item x;
    x.kind = Kind::kFloat;
    x.real = v;
    return x;
  }
  static Item of_text(std::string v) {
    Item x;
    x.kind = Kind::kText;
    x.text = std::move(v);
    return x;
  }
  static Item of_ref(std::string v) {
    Item x;
    x.kind = Kind::kRef;
    x.text = std::move(v);
    return x;
  }
  static Item of_tensor(ir::ValueId v) {
    Item x;
    x.kind = Kind::kTensor;
    x.tensor = v;
    return x;
  }
  static Item of_list(std::vector<Item> v) {
    Item x;
    x.kind = Kind::kList;
    x.list = std::move(v);
    return x;
  }

  bool is_none() const { return kind == Kind::kNone; }
  bool is_tensor() const { return kind == Kind::kTensor; }
  bool is_list() const { return kind == Kind::kList; }
  bool is_number() const { return kind == Kind::kBool || kind == Kind::kInt || kind == Kind::kFloat; }
  // The number as a value of the model's arithmetic: of the step's batch.
  double of_step() const { return varies ? whole : number(); }
  // The number as a double, of a piece; 0 where it is none.
  double number() const {
    switch (kind) {
      case Kind::kBool: return flag ? 1 : 0;
      case Kind::kInt: return static_cast<double>(integer);
      case Kind::kFloat: return real;
      case Kind::kNone:
      case Kind::kText:
      case Kind::kRef:
      case Kind::kTensor:
      case Kind::kList: return 0;
    }
    return 0;
  }
};

}  // namespace piper::frontend::aten
