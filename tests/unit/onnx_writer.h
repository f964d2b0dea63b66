// Writes small ONNX files for tests, message by message, so that damaged ones can be made too.
// Used by tests of the reader and of the operator-by-operator importer; knows no operator.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <protozero/pbf_builder.hpp>

#include "compiler/frontend/onnx/onnx_fields.h"

namespace piper::test {

using namespace piper::frontend::onnx;  // the field numbers; this header is for tests only

template <class Field>
using Builder = protozero::pbf_builder<Field>;

struct Attribute {
  std::string bytes;
};

inline Attribute int_attribute(std::string_view name, int64_t v) {
  Attribute out;
  Builder<AttributeField> a(out.bytes);
  a.add_string(AttributeField::kName, std::string(name));
  a.add_int64(AttributeField::kI, v);
  a.add_enum(AttributeField::kType, static_cast<int32_t>(AttributeTypeCode::kInt));
  return out;
}
inline Attribute float_attribute(std::string_view name, float v) {
  Attribute out;
  Builder<AttributeField> a(out.bytes);
  a.add_string(AttributeField::kName, std::string(name));
  a.add_float(AttributeField::kF, v);
  a.add_enum(AttributeField::kType, static_cast<int32_t>(AttributeTypeCode::kFloat));
  return out;
}
inline Attribute string_attribute(std::string_view name, std::string_view v) {
  Attribute out;
  Builder<AttributeField> a(out.bytes);
  a.add_string(AttributeField::kName, std::string(name));
  a.add_bytes(AttributeField::kS, std::string(v));
  a.add_enum(AttributeField::kType, static_cast<int32_t>(AttributeTypeCode::kString));
  return out;
}
inline Attribute ints_attribute(std::string_view name, const std::vector<int64_t>& v) {
  Attribute out;
  Builder<AttributeField> a(out.bytes);
  a.add_string(AttributeField::kName, std::string(name));
  for (const int64_t i : v) a.add_int64(AttributeField::kInts, i);
  a.add_enum(AttributeField::kType, static_cast<int32_t>(AttributeTypeCode::kInts));
  return out;
}

inline void add_entry(std::string& bytes, std::string_view key, std::string_view value) {
  Builder<EntryField> e(bytes);
  e.add_string(EntryField::kKey, std::string(key));
  e.add_string(EntryField::kValue, std::string(value));
}

// A tensor with raw_data of `bytes` bytes.
inline std::string tensor_bytes(std::string_view name, ElemCode elem, const std::vector<int64_t>& dims,
                                std::string_view raw) {
  std::string out;
  Builder<TensorField> t(out);
  for (const int64_t d : dims) t.add_int64(TensorField::kDims, d);
  t.add_int32(TensorField::kDataType, static_cast<int32_t>(elem));
  t.add_string(TensorField::kName, std::string(name));
  t.add_bytes(TensorField::kRawData, std::string(raw));
  return out;
}
template <class T>
std::string raw_of(const std::vector<T>& v) {
  return {reinterpret_cast<const char*>(v.data()), v.size() * sizeof(T)};
}

class ModelWriter {
 public:
  explicit ModelWriter(int64_t opset = 20) : opset_(opset) {}

  // An axis is a number, or a name for a symbolic extent.
  void input(std::string_view name, ElemCode elem, const std::vector<std::string>& dims) {
    value(GraphField::kInput, name, elem, dims);
  }
  void output(std::string_view name) { value(GraphField::kOutput, name, ElemCode::kFloat, {}); }
  void initializer(const std::string& tensor) {
    Builder<GraphField>(graph_).add_message(GraphField::kInitializer, tensor);
  }
  // A parameter of zeros.
  void weight(std::string_view name, const std::vector<int64_t>& dims) {
    int64_t n = 1;
    for (const int64_t d : dims) n *= d;
    initializer(tensor_bytes(name, ElemCode::kFloat, dims, std::string(static_cast<size_t>(n) * 4, '\0')));
  }
  // A Constant node with `value_ints`.
  void ints(std::string_view name, const std::vector<int64_t>& v) {
    node("Constant", {}, {std::string(name)}, {ints_attribute("value_ints", v)});
  }
  void number(std::string_view name, float v) {
    node("Constant", {}, {std::string(name)}, {float_attribute("value_float", v)});
  }

  void node(std::string_view op_type, const std::vector<std::string>& inputs, const std::vector<std::string>& outputs,
            const std::vector<Attribute>& attributes = {},
            const std::vector<std::pair<std::string, std::string>>& metadata = {}, std::string_view name = "",
            std::string_view domain = "") {
    std::string bytes;
    Builder<NodeField> n(bytes);
    for (const std::string& i : inputs) n.add_string(NodeField::kInput, i);
    for (const std::string& o : outputs) n.add_string(NodeField::kOutput, o);
    n.add_string(NodeField::kName, std::string(name));
    n.add_string(NodeField::kOpType, std::string(op_type));
    if (!domain.empty()) n.add_string(NodeField::kDomain, std::string(domain));
    for (const Attribute& a : attributes) n.add_message(NodeField::kAttribute, a.bytes);
    for (const auto& [key, v] : metadata) {
      std::string entry;
      add_entry(entry, key, v);
      n.add_message(NodeField::kMetadataProps, entry);
    }
    Builder<GraphField>(graph_).add_message(GraphField::kNode, bytes);
  }

  // What torch's exporter notes of the whole graph, such as its signature.
  void metadata(std::string_view key, std::string_view value) {
    std::string entry;
    add_entry(entry, key, value);
    Builder<GraphField>(graph_).add_message(GraphField::kMetadataProps, entry);
  }

  std::string bytes() const {
    std::string opset, out;
    Builder<OpsetField>(opset).add_int64(OpsetField::kVersion, opset_);
    Builder<ModelField> m(out);
    m.add_int64(ModelField::kIrVersion, 10);
    m.add_message(ModelField::kOpsetImport, opset);
    m.add_message(ModelField::kGraph, graph_);
    return out;
  }

 private:
  void value(GraphField field, std::string_view name, ElemCode elem, const std::vector<std::string>& dims) {
    std::string shape, tensor, type, info;
    for (const std::string& d : dims) {
      std::string dim;
      if (d.find_first_not_of("0123456789") == std::string::npos)
        Builder<DimField>(dim).add_int64(DimField::kDimValue, std::stoll(d));
      else Builder<DimField>(dim).add_string(DimField::kDimParam, d);
      Builder<ShapeField>(shape).add_message(ShapeField::kDim, dim);
    }
    Builder<TensorTypeField> t(tensor);
    t.add_int32(TensorTypeField::kElemType, static_cast<int32_t>(elem));
    t.add_message(TensorTypeField::kShape, shape);
    Builder<TypeField>(type).add_message(TypeField::kTensorType, tensor);
    Builder<ValueInfoField> v(info);
    v.add_string(ValueInfoField::kName, std::string(name));
    v.add_message(ValueInfoField::kType, type);
    Builder<GraphField>(graph_).add_message(field, info);
  }

  int64_t opset_;
  std::string graph_;
};

}  // namespace piper::test
