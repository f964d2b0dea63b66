// The reader of ONNX files: payload variants, metadata, and damage of every kind.
#include <catch2/catch.hpp>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "compiler/frontend/onnx/onnx_file.h"
#include "tests/unit/onnx_writer.h"
#include "tests/unit/temp_folder.h"

using namespace piper;
using namespace piper::test;

namespace {

OnnxFile read(const std::string& bytes) {
  Result<OnnxFile> file = read_onnx_bytes(bytes);
  INFO((file.ok() ? "" : file.error().message));
  REQUIRE(file.ok());
  return std::move(file).value();
}

std::string why(const std::string& bytes) {
  const Result<OnnxFile> file = read_onnx_bytes(bytes);
  REQUIRE(!file.ok());
  CHECK(file.error().code == "P0301");
  return file.error().message;
}

ModelWriter small() {
  ModelWriter m;
  m.input("x", ElemCode::kFloat, {"B", "4"});
  m.output("y");
  return m;
}

template <class T>
std::vector<T> elements(const OnnxFile& file, const OnnxTensor& tensor) {
  const Result<frontend::ConstantTensor> t = tensor_value(file, tensor);
  REQUIRE(t.ok());
  std::vector<T> out(t->data()->size() / sizeof(T));
  std::memcpy(out.data(), t->data()->data(), t->data()->size());
  return out;
}

// An external tensor of four floats at `location`.
std::string external(const std::string& location, const std::string& offset = "0", const std::string& length = "16") {
  std::string out;
  Builder<TensorField> t(out);
  t.add_int64(TensorField::kDims, 4);
  t.add_int32(TensorField::kDataType, 1);
  t.add_string(TensorField::kName, "w");
  for (const auto& [key, value] : std::vector<std::pair<std::string, std::string>>{
           {"location", location}, {"offset", offset}, {"length", length}}) {
    std::string entry;
    add_entry(entry, key, value);
    t.add_message(TensorField::kExternalData, entry);
  }
  t.add_enum(TensorField::kDataLocation, 1);
  return out;
}

}  // namespace

// Every way in which a tensor's elements are stored gives the same bytes.
TEST_CASE("tensors are read from raw and typed data") {
  ModelWriter m = small();
  m.initializer(tensor_bytes("raw", ElemCode::kFloat, {2}, raw_of<float>({1.5f, -2})));
  std::string packed, loose, ints, bools, doubles;
  {
    Builder<TensorField> t(packed);
    t.add_int64(TensorField::kDims, 2);
    t.add_int32(TensorField::kDataType, 1);
    t.add_string(TensorField::kName, "packed");
    const std::vector<float> v = {1.5f, -2};
    t.add_packed_float(TensorField::kFloatData, v.begin(), v.end());
  }
  {
    Builder<TensorField> t(loose);
    const std::vector<int64_t> dims = {2};
    t.add_packed_int64(TensorField::kDims, dims.begin(), dims.end());
    t.add_int32(TensorField::kDataType, 1);
    t.add_string(TensorField::kName, "loose");
    t.add_float(TensorField::kFloatData, 1.5f);
    t.add_float(TensorField::kFloatData, -2);
  }
  {
    Builder<TensorField> t(ints);
    t.add_int64(TensorField::kDims, 2);
    t.add_int32(TensorField::kDataType, 7);
    t.add_string(TensorField::kName, "ints");
    t.add_int64(TensorField::kInt64Data, -1);
    t.add_int64(TensorField::kInt64Data, int64_t{1} << 40);
  }
  {
    Builder<TensorField> t(bools);
    t.add_int64(TensorField::kDims, 2);
    t.add_int32(TensorField::kDataType, 9);
    t.add_string(TensorField::kName, "bools");
    t.add_int32(TensorField::kInt32Data, 0);
    t.add_int32(TensorField::kInt32Data, 1);
  }
  {
    Builder<TensorField> t(doubles);
    t.add_int32(TensorField::kDataType, 11);
    t.add_string(TensorField::kName, "doubles");
    t.add_double(TensorField::kDoubleData, 0.1);
  }
  for (const std::string& t : {packed, loose, ints, bools, doubles}) m.initializer(t);
  const OnnxFile file = read(m.bytes());
  REQUIRE(file.initializers.size() == 6);
  for (const size_t i : {0, 1, 2}) CHECK(elements<float>(file, file.initializers[i]) == std::vector<float>{1.5f, -2});
  CHECK(elements<int64_t>(file, file.initializers[3]) == std::vector<int64_t>{-1, int64_t{1} << 40});
  CHECK(elements<uint8_t>(file, file.initializers[4]) == std::vector<uint8_t>{0, 1});
  CHECK(elements<double>(file, file.initializers[5]) == std::vector<double>{0.1});
  CHECK(file.initializers[5].dims.empty());
}

TEST_CASE("nodes keep names, attributes and metadata") {
  ModelWriter m = small();
  m.node(
      "Foo", {"x", ""}, {"y"},
      {int_attribute("i", -3), float_attribute("f", 0.5f), string_attribute("s", "abc"), ints_attribute("v", {1, 2})},
      {{"key", "value"}}, "n", "ai.onnx");
  const OnnxFile file = read(m.bytes());
  REQUIRE(file.nodes.size() == 1);
  const OnnxNode& n = file.nodes[0];
  CHECK(n.op_type == "Foo");
  CHECK(n.domain.empty());
  CHECK(n.inputs == std::vector<std::string>{"x", ""});
  CHECK(n.find("i")->i == -3);
  CHECK(n.find("f")->f == 0.5f);
  CHECK(n.find("s")->s == "abc");
  CHECK(n.find("v")->ints == std::vector<int64_t>{1, 2});
  CHECK(*n.metadata.find("key") == "value");
  CHECK(n.find("missing") == nullptr);
  CHECK(file.inputs[0].dims[0].symbol == "B");
  CHECK(file.inputs[0].dims[1].value == 4);
  CHECK(file.opset_version() == 20);
}

// Inputs that are initializers as well are no inputs (files of IR versions below 4).
TEST_CASE("an initializer listed as an input is no input") {
  ModelWriter m = small();
  m.input("w", ElemCode::kFloat, {"4"});
  m.weight("w", {4});
  const OnnxFile file = read(m.bytes());
  REQUIRE(file.inputs.size() == 1);
  CHECK(file.inputs[0].name == "x");
}

TEST_CASE("damaged models are refused with what is wrong") {
  CHECK(why("").find("no graph") != std::string::npos);
  CHECK(why("not a model at all").find("not a readable ONNX model") != std::string::npos);
  {
    ModelWriter m;
    m.input("x", ElemCode::kFloat, {"4"});
    CHECK(why(m.bytes()).find("no output") != std::string::npos);
  }
  const std::pair<std::string, const char*> tensors[] = {
      {tensor_bytes("w", ElemCode::kFloat, {3}, std::string(8, 'a')),
       "'w' has 8 bytes of data where its shape needs 12"},
      {tensor_bytes("w", ElemCode::kFloat, {-1}, ""), "negative extent"},
      {tensor_bytes("w", ElemCode::kFloat, {0, -1}, ""), "negative extent"},
      {tensor_bytes("w", ElemCode::kFloat, {int64_t{1} << 40, int64_t{1} << 40}, ""), "overflows"},
      {tensor_bytes("w", ElemCode::kFloat, std::vector<int64_t>(100, 1), std::string(4, 'a')), "100 axes"},
      {tensor_bytes("", ElemCode::kFloat, {1}, std::string(4, 'a')), "no name"},
  };
  for (const auto& [tensor, expected] : tensors) {
    ModelWriter m = small();
    m.initializer(tensor);
    INFO(expected);
    CHECK(why(m.bytes()).find(expected) != std::string::npos);
  }
  {
    std::string strings;
    Builder<TensorField> t(strings);
    t.add_int64(TensorField::kDims, 1);
    t.add_int32(TensorField::kDataType, 1);
    t.add_string(TensorField::kName, "w");
    t.add_bytes(TensorField::kStringData, "a");
    ModelWriter m = small();
    m.initializer(strings);
    CHECK(why(m.bytes()).find("another element type") != std::string::npos);
  }
  {
    ModelWriter m = small();
    m.weight("w", {1});
    m.weight("w", {1});
    CHECK(why(m.bytes()).find("two initializers are named 'w'") != std::string::npos);
  }
  {
    ModelWriter m = small();
    m.initializer(external("w.bin"));
    CHECK(why(m.bytes()).find("outside the model") != std::string::npos);
  }
}

// Whatever is cut off or changed, reading ends with a model or with P0301.
TEST_CASE("truncated and altered models never crash the reader") {
  ModelWriter m = small();
  m.weight("w", {2, 3});
  m.ints("shape", {2, -1});
  m.node("Reshape", {"x", "shape"}, {"y"}, {int_attribute("allowzero", 1)}, {{"k", "v"}}, "node");
  const std::string whole = m.bytes();
  for (size_t n = 0; n < whole.size(); ++n) {
    const Result<OnnxFile> file = read_onnx_bytes(std::string_view(whole).substr(0, n));
    if (!file.ok()) CHECK(file.error().code == "P0301");
  }
  for (size_t i = 0; i < whole.size(); ++i)
    for (const int value : {0x00, 0x7f, 0x80, 0xff}) {
      std::string altered = whole;
      altered[i] = static_cast<char>(value);
      const Result<OnnxFile> file = read_onnx_bytes(altered);
      if (!file.ok()) CHECK(file.error().code == "P0301");
    }
  // A length far beyond the end of the file.
  const std::string wild = whole + std::string("\x3a\xff\xff\xff\xff\x0f", 6);
  CHECK(!read_onnx_bytes(wild).ok());
}

TEST_CASE("external data is read from the model's folder only") {
  const TempFolder folder;
  const auto model = [&](const std::string& tensor) {
    ModelWriter m = small();
    m.initializer(tensor);
    return folder.write("sub/model.onnx", m.bytes());
  };
  folder.write("sub/w.bin", "xxxx" + raw_of<float>({1, 2, 3, 4}));
  folder.write("outside.bin", std::string(64, 'a'));
  {
    const Result<OnnxFile> file = read_onnx(model(external("w.bin", "4")));
    REQUIRE(file.ok());
    CHECK(elements<float>(*file, file->initializers[0]) == std::vector<float>{1, 2, 3, 4});
    const Result<ir::WeightSource> source = weight_source(*file, file->initializers[0]);
    REQUIRE(source.ok());
    CHECK(source->offset == 4);
    CHECK(source->bytes == 16);
  }
  std::filesystem::create_symlink("../outside.bin", folder.path() / "sub/link.bin");
  const std::pair<std::string, const char*> cases[] = {
      {external("../outside.bin"), "outside the model's folder"},
      {external("a/../../outside.bin"), "outside the model's folder"},
      {external((folder.path() / "outside.bin").string()), "outside the model's folder"},
      {external("link.bin"), "outside the model's folder"},
      {external(""), "outside the model's folder"},
      {external("missing.bin"), "is not there"},
      {external("w.bin", "8"), "too short"},
      {external("w.bin", "-1"), "broken offset or length"},
      {external("w.bin", "99999999999999999999"), "broken offset or length"},
      {external("w.bin", "0", "12"), "where its shape needs 16"},
  };
  for (const auto& [tensor, expected] : cases) {
    const Result<OnnxFile> file = read_onnx(model(tensor));
    INFO(expected);
    REQUIRE(!file.ok());
    CHECK(file.error().code == "P0301");
    CHECK(file.error().message.find(expected) != std::string::npos);
  }
  CHECK(!read_onnx((folder.path() / "none.onnx").string()).ok());
  CHECK(!read_onnx(folder.path().string()).ok());
}

TEST_CASE("element types without a place in the op set are named") {
  ModelWriter m = small();
  m.initializer(tensor_bytes("h", static_cast<ElemCode>(10), {2}, std::string(4, 'a')));
  const OnnxFile file = read(m.bytes());
  const Result<ir::WeightSource> source = weight_source(file, file.initializers[0]);
  REQUIRE(!source.ok());
  CHECK(source.error().message.find("FLOAT16") != std::string::npos);
}
