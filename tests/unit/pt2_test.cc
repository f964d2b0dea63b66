// The reader of `.pt2` archives: the zip, the program, its symbols and weights, and what is wrong with them.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <functional>
#include <map>
#include <tuple>

#include <catch2/catch.hpp>

#include "compiler/frontend/model_file.h"
#include "compiler/frontend/pt2/read_program.h"
#include "compiler/frontend/pt2/sym_expr.h"
#include "compiler/frontend/pt2/zip_archive.h"
#include "tests/source_path.h"
#include "tests/unit/zip_writer.h"

using namespace piper;
using frontend::BindRequest;
using frontend::ModelFile;
using test::ZipItem;

namespace {

std::string model_path(const std::string& name) { return test::source_path("tests/models/" + name); }

std::unique_ptr<ModelFile> open(const std::string& path) {
  diag::Diagnostics diags;
  auto model = frontend::open_model(path, "auto", diags);
  INFO(diags.render_text(true));
  REQUIRE(model.ok());
  return std::move(model).value();
}

ir::Graph bound(const ModelFile& model, int64_t batch, std::map<std::string, int64_t> dims = {}) {
  diag::Diagnostics diags;
  BindRequest request;
  request.local_batch = batch;
  request.dims = std::move(dims);
  auto graph = model.bind(request, diags);
  INFO(diags.render_text(true));
  REQUIRE(graph.ok());
  return std::move(graph).value().graph;
}

std::map<std::string, int> op_counts(const ir::Graph& graph) {
  std::map<std::string, int> out;
  for (uint32_t i = 0; i < graph.num_ops(); ++i) ++out[std::string(ir::op_name(graph.op(ir::OpId(i)).kind))];
  return out;
}

// Tag values with the number of calls that have them: names of calls differ between the containers.
std::map<std::string, int> all_tags(const ModelFile& model) {
  std::map<std::string, int> out;
  for (const auto& [node, tags] : model.node_tags())
    for (const ir::TagValue& t : tags) ++out[t.tag + "=" + std::to_string(t.index)];
  return out;
}

// Code and text of the only error of opening (and, where that succeeds, binding) a file.
struct Failure {
  std::string code, text;
};
Failure failure(const std::string& path, const std::string& route = "auto") {
  diag::Diagnostics diags;
  auto model = frontend::open_model(path, route, diags);
  if (model.ok()) {
    BindRequest request;
    request.local_batch = 4;
    REQUIRE_FALSE((*model)->bind(request, diags).ok());
  }
  REQUIRE(diags.num_errors() == 1);
  return {diags.all()[0].code, diags.render_text(true)};
}

std::string text_of(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::vector<ZipItem> items_of(const std::string& path) {
  const auto archive = frontend::pt2::ZipArchive::open(path);
  REQUIRE(archive.ok());
  std::vector<ZipItem> out;
  for (const auto& [name, entry] : archive->entries()) out.push_back({name, text_of(archive->read(name).value())});
  return out;
}

// A copy of a model with its entries changed; removed when it goes out of scope.
class Edited {
 public:
  Edited(const std::string& name, const std::function<void(std::vector<ZipItem>&)>& edit) : path_("edited_" + name) {
    std::vector<ZipItem> items = items_of(model_path(name));
    edit(items);
    test::write_file(path_, test::zip_bytes(items));
  }
  ~Edited() { std::remove(path_.c_str()); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

ZipItem& item(std::vector<ZipItem>& items, const std::string& end) {
  for (ZipItem& x : items)
    if (x.name.size() >= end.size() && x.name.compare(x.name.size() - end.size(), end.size(), end) == 0) return x;
  FAIL("no entry " + end);
  return items[0];
}
void replace(std::string& text, const std::string& from, const std::string& to) {
  REQUIRE(text.find(from) != std::string::npos);
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}
Failure edited_program(const std::string& name, const std::string& from, const std::string& to) {
  const Edited copy(name,
                    [&](std::vector<ZipItem>& items) { replace(item(items, "models/model.json").bytes, from, to); });
  return failure(copy.path());
}

}  // namespace

// Both containers of a model give the same operators, parameters, tags and symbols.
TEST_CASE("a .pt2 archive and an ONNX file of one model") {
  for (const std::string name : {"tiny_mlp", "hazards", "tiny_gpt_dropout"}) {
    INFO(name);
    const auto onnx = open(model_path(name + ".onnx")), pt2 = open(model_path(name + ".pt2"));
    CHECK(pt2->base_name() == name + ".pt2");
    CHECK(pt2->sha256().size() == 64);
    CHECK(pt2->fixed_batch() == onnx->fixed_batch());
    CHECK(pt2->declared_min_batch() == onnx->declared_min_batch());
    CHECK(all_tags(*pt2) == all_tags(*onnx));
    REQUIRE(pt2->inputs().size() == onnx->inputs().size());
    for (size_t i = 0; i < pt2->inputs().size(); ++i) CHECK(pt2->inputs()[i].symbols == onnx->inputs()[i].symbols);
    const std::map<std::string, int64_t> dims =
        name == "tiny_gpt_dropout" ? std::map<std::string, int64_t>{{"S", 5}} : std::map<std::string, int64_t>{};
    const ir::Graph a = bound(*onnx, 4, dims), b = bound(*pt2, 4, dims);
    CHECK(op_counts(a) == op_counts(b));
    REQUIRE(a.parameters().size() == b.parameters().size());
    std::map<std::string, std::pair<bool, int64_t>> of_onnx, of_pt2;
    for (const auto& [graph, out] : {std::pair(&a, &of_onnx), std::pair(&b, &of_pt2)})
      for (const ir::Parameter& p : graph->parameters())
        for (const std::string& n : p.names) (*out)[n] = {p.trainable, p.source.bytes};
    CHECK(of_onnx == of_pt2);
    CHECK(a.buffers().size() == b.buffers().size());
  }
}

// Symbols of the file bear the user's names; other extents of them are checked.
TEST_CASE("extents of a .pt2 archive") {
  const auto model = open(model_path("tiny_gpt_dropout.pt2"));
  CHECK(model->inputs()[0].symbols == std::vector<std::string>{"B", "S"});
  for (const int64_t s : {2, 7}) CHECK(bound(*model, 3, {{"S", s}}).inputs()[0].batched);
  diag::Diagnostics of_onnx;
  BindRequest one;
  one.local_batch = 4;
  one.dims["S"] = 1;
  REQUIRE_FALSE(open(model_path("tiny_gpt_dropout.onnx"))->bind(one, of_onnx).ok());
  CHECK(of_onnx.all()[0].code == "P0302");
  const Edited limited("tiny_gpt_dropout.pt2", [](std::vector<ZipItem>& items) {
    replace(item(items, "models/model.json").bytes, "\"max_val\": null", "\"max_val\": 12");
  });
  const auto narrow = open(limited.path());
  for (const auto& [batch, length, code] :
       {std::tuple(4, 13, "P0302"), std::tuple(4, 1, "P0302"), std::tuple(13, 4, "P0303")}) {
    diag::Diagnostics diags;
    BindRequest request;
    request.local_batch = batch;
    request.dims["S"] = length;
    REQUIRE_FALSE(narrow->bind(request, diags).ok());
    CHECK(diags.all()[0].code == code);
    CHECK(diags.render_text(true).find("12") != std::string::npos);
  }
}

// Torch's own archive says nothing of one sample, whatever range it has; the exporter's word is taken as it is written.
TEST_CASE("what a .pt2 archive says of one sample") {
  CHECK_FALSE(open(model_path("tiny_mlp.pt2"))->does_the_same_with_one_sample());
  const std::vector<std::pair<std::string, bool>> texts = {
      {"same", true}, {"same\n", true}, {"", false}, {"other", false}, {"same other", false}};
  for (const auto& said : texts) {
    INFO(said.first);
    const Edited told("tiny_mlp.pt2", [&](std::vector<ZipItem>& items) {
      const std::string dims = item(items, "extra/piper.dims").name;
      items.push_back({dims.substr(0, dims.rfind('/')) + "/piper.one_sample", said.first});
    });
    CHECK(open(told.path())->does_the_same_with_one_sample() == said.second);
  }
}

TEST_CASE("sympy's expressions") {
  const std::map<std::string, std::string> names{{"s72", "B"}};
  const auto text = [&](const char* e) { return frontend::pt2::extent_expression(e, names); };
  CHECK(text("Symbol('s72', positive=True, integer=True)") == "B");
  CHECK(text("Symbol('u0', integer=True)") == "u0");
  CHECK(text("Integer(7)") == "7");
  CHECK(text("Add(Symbol('s72', positive=True, integer=True), Integer(-1))") == "(B + (-1))");
  CHECK(text("Mul(Integer(24), Symbol('s72', positive=True, integer=True))") == "((24*B))");
  CHECK(text("Mul(Rational(1, 2), Symbol('s72', positive=True))") == "((1*B)//2)");
  CHECK(text("FloorDiv(Mul(Integer(15), Symbol('s72')), Integer(2))") == "(((15*B))//2)");
  CHECK(text("torch.utils._sympy.functions.Mod(Symbol('s72'), Integer(3))") == "Mod(B, 3)");
  CHECK(text("Max(Integer(1), Symbol('s72'), Integer(4))") == "Max(Max(1, B), 4)");
  for (const char* unknown : {"", "Symbol(", "Symbol('s72'", "log(Symbol('s72'))",
                              "Add(Rational(1, 2), Mul(Rational(1, 2), Symbol('s72')))", "Integer(1) Integer(2)"})
    CHECK(text(unknown).empty());
  CHECK(text((std::string(5000, '(')).c_str()).empty());
}

// Entries may be packed: the bytes are the same.
TEST_CASE("a packed archive") {
  const Edited copy("tiny_mlp.pt2", [](std::vector<ZipItem>& items) {
    for (ZipItem& x : items) x.deflate = true;
  });
  const ir::Graph packed = bound(*open(copy.path()), 4), stored = bound(*open(model_path("tiny_mlp.pt2")), 4);
  REQUIRE(packed.parameters().size() == stored.parameters().size());
  for (size_t i = 0; i < packed.parameters().size(); ++i) {
    const ir::WeightSource &a = packed.parameters()[i].source, &b = stored.parameters()[i].source;
    REQUIRE(a.data);
    CHECK(a.data->size() == static_cast<size_t>(b.bytes));
    std::ifstream in(b.file, std::ios::binary);
    in.seekg(b.offset);
    std::string bytes(a.data->size(), '\0');
    in.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    CHECK(text_of(*a.data) == bytes);
  }
}

// A weight that is stored by columns is read by rows.
TEST_CASE("a weight with strides") {
  const Edited copy("tiny_mlp.pt2", [](std::vector<ZipItem>& items) {
    std::string& config = item(items, "_weights_config.json").bytes;
    replace(config, "\"strides\": [{\"as_int\": 6}, {\"as_int\": 1}]",
            "\"strides\": [{\"as_int\": 1}, {\"as_int\": 10}]");
    std::string& weight = item(items, "weight_0").bytes;
    REQUIRE(weight.size() == 240);
    std::string turned(240, '\0');
    for (size_t i = 0; i < 10; ++i)
      for (size_t j = 0; j < 6; ++j) weight.copy(turned.data() + 4 * (j * 10 + i), 4, 4 * (i * 6 + j));
    weight = turned;
  });
  const ir::Graph turned = bound(*open(copy.path()), 4), plain = bound(*open(model_path("tiny_mlp.pt2")), 4);
  const ir::WeightSource& a = turned.parameters()[0].source;
  REQUIRE(a.data);
  std::vector<ZipItem> items = items_of(model_path("tiny_mlp.pt2"));
  CHECK(text_of(*a.data) == item(items, "weight_0").bytes);
}

// Tensors whose bytes are gone, short, of a foreign type or pickled are named.
TEST_CASE("damaged weights") {
  const auto with = [](const std::function<void(std::vector<ZipItem>&)>& edit) {
    const Edited copy("tiny_mlp.pt2", edit);
    return failure(copy.path());
  };
  const Failure lost = with([](std::vector<ZipItem>& items) {
    items.erase(std::find_if(items.begin(), items.end(),
                             [](const ZipItem& x) { return x.name.find("weight_2") != std::string::npos; }));
  });
  CHECK(lost.code == "P0301");
  CHECK(lost.text.find("edited_tiny_mlp.pt2: tensor 'layers.1.weight'") != std::string::npos);
  const Failure nameless = with([](std::vector<ZipItem>& items) {
    replace(item(items, "_weights_config.json").bytes, "layers.1.weight", "layers.9.weight");
  });
  CHECK(nameless.code == "P0310");
  CHECK(nameless.text.find("'layers.1.weight'") != std::string::npos);
  CHECK(with([](std::vector<ZipItem>& items) {
          item(items, "weight_2").bytes.resize(100);
        }).text.find("holds 100 bytes; its extents need 400") != std::string::npos);
  CHECK(with([](std::vector<ZipItem>& items) {
          replace(item(items, "_weights_config.json").bytes, "\"dtype\": 7", "\"dtype\": 6");
        }).text.find("float16") != std::string::npos);
  CHECK(with([](std::vector<ZipItem>& items) {
          replace(item(items, "_weights_config.json").bytes, "\"use_pickle\": false", "\"use_pickle\": true");
        }).text.find("pickle") != std::string::npos);
  CHECK(with([](std::vector<ZipItem>& items) { item(items, "_weights_config.json").bytes = "{\"config\": 3"; }).code ==
        "P0301");
  CHECK(with([](std::vector<ZipItem>& items) {
          replace(item(items, "_weights_config.json").bytes, "{\"as_int\": 6}", "{\"as_int\": 99999999999999999}");
        }).code == "P0301");
  CHECK(with([](std::vector<ZipItem>& items) {
          replace(item(items, "_weights_config.json").bytes, "{\"as_int\": 6}", "{\"as_int\": 6e100}");
        }).code == "P0301");
}

// Another version of the schema, of the bytes or of the container is refused by name.
TEST_CASE("other archives") {
  CHECK(edited_program("tiny_mlp.pt2", "\"major\": 8", "\"major\": 9").code == "P0315");
  CHECK(edited_program("tiny_mlp.pt2", "\"major\": 8", "\"major\": 8.5").code == "P0301");
  CHECK(edited_program("tiny_mlp.pt2", "\"major\": 8", "\"major\": 8e100").code == "P0301");
  CHECK(failure(model_path("tiny_mlp.pt2"), "onnx").code == "P0300");
  const auto with = [](std::vector<ZipItem> items) {
    test::write_file("other.zip", test::zip_bytes(items));
    const Failure f = failure("other.zip");
    std::remove("other.zip");
    return f;
  };
  CHECK(with({{"m/byteorder", "big"}, {"m/models/model.json", "{}"}}).code == "P0315");
  CHECK(with({{"m/serialized_exported_program.json", "{}"}}).code == "P0315");
  CHECK(with({{"m/code/__torch__.py", ""}, {"m/constants.pkl", ""}, {"m/data.pkl", ""}}).text.find("TorchScript") !=
        std::string::npos);
  CHECK(with({{"m/data.pkl", ""}}).text.find("holds weights") != std::string::npos);
  CHECK(with({{"readme", ""}}).code == "P0301");
  CHECK(with({{"a/models/a.json", "{}"}, {"a/models/b.json", "{}"}}).text.find("2 programs") != std::string::npos);
  CHECK(with({{"a/models/a.json", "{}"}}).code == "P0301");
}

// Whatever is cut off or altered: a diagnostic with a code and the file's name, or a model.
TEST_CASE("a damaged archive") {
  std::ifstream in(model_path("tiny_mlp.pt2"), std::ios::binary);
  const std::string whole{std::istreambuf_iterator<char>(in), {}};
  const std::string path = "damaged.pt2";
  for (size_t n = 2; n < whole.size(); n += 97) {
    test::write_file(path, whole.substr(0, n));
    const Failure f = failure(path);
    CHECK(f.code == "P0301");
    CHECK(f.text.find("damaged.pt2") != std::string::npos);
  }
  uint32_t random = 12345;
  int refused = 0;
  for (int i = 0; i < 400; ++i) {
    std::string altered = whole;
    for (int k = 0; k < 3; ++k) {
      random = random * 1664525 + 1013904223;
      altered[random % altered.size()] = static_cast<char>(random >> 24);
    }
    altered[0] = 'P';
    altered[1] = 'K';
    test::write_file(path, altered);
    diag::Diagnostics diags;
    const auto model = frontend::open_model(path, "auto", diags);
    refused += model.ok() ? 0 : 1;
    CHECK(model.ok() == (diags.num_errors() == 0));
  }
  CHECK(refused > 200);  // the rest hit padding and sample inputs
  std::remove(path.c_str());
}

// A call that the file itself contradicts, an unknown operator, and unknown regions are refused.
TEST_CASE("an edited program") {
  CHECK(edited_program("tiny_mlp.pt2", "aten.tanh.default", "aten.tank.default").code == "P0305");
  CHECK(edited_program("tiny_mlp.pt2", "{\"name\": \"p_layers_0_weight\"}}, \"kind\"",
                       "{\"name\": \"p_layers_1_weight\"}}, \"kind\"")
            .code == "P0306");
  CHECK(edited_program("tiny_mlp.pt2", "{\"as_tensor\": {\"name\": \"tanh\"}}, \"kind\"",
                       "{\"as_tensor\": {\"name\": \"nothing\"}}, \"kind\"")
            .code == "P0304");
  CHECK(edited_program("tiny_mlp.pt2", "aten.tanh.default", "higher_order.cond").code == "P0305");
  CHECK(edited_program("tiny_mlp.pt2", "\"as_tensor\": {\"name\": \"tanh\"}}, \"kind\"",
                       "\"as_custom_obj\": {\"name\": \"tanh\"}}, \"kind\"")
            .code == "P0305");
}

namespace {

std::string tensor(const std::string& name) { return R"({"as_tensor": {"name": ")" + name + R"("}})"; }
std::string node(const std::string& target, const std::vector<std::string>& arguments, const std::string& outputs,
                 const std::string& metadata = "{}") {
  std::string inputs;
  for (const std::string& a : arguments)
    inputs += (inputs.empty() ? "" : ", ") + (R"({"name": "x", "kind": 1, "arg": )" + a + "}");
  return R"({"target": ")" + target + R"(", "inputs": [)" + inputs + R"(], "outputs": [)" + outputs +
         R"(], "metadata": )" + metadata + "}";
}
std::string graph(const std::string& inputs, const std::string& nodes, const std::string& outputs) {
  return R"({"inputs": [)" + inputs + R"(], "nodes": [)" + nodes + R"(], "outputs": [)" + outputs +
         R"(], "tensor_values": {}, "sym_int_values": {}})";
}
std::string program(const std::string& nodes, const std::string& output) {
  return R"({"schema_version": {"major": 8, "minor": 20}, "range_constraints": {}, )"
         R"("graph_module": {"signature": {"input_specs": [{"user_input": {"arg": )" +
         tensor("x") + R"(}}], "output_specs": [{"user_output": {"arg": )" + tensor(output) + R"(}}]}, "graph": )" +
         graph(tensor("x"), nodes, tensor(output)) + "}}";
}
std::string sub_graph(const std::string& text) { return R"({"as_graph": {"name": "g", "graph": )" + text + "}}"; }

}  // namespace

// Regions are inlined: names that clash are made different, grad modes nest, results get the region's names.
TEST_CASE("regions of a program") {
  const std::string inner =
      graph(tensor("y"),
            node("torch.ops.aten.exp.default", {tensor("y")}, tensor("exp"), R"({"custom": "{\"PP\": 2, \"_x\": 1}"})"),
            tensor("exp"));
  const std::string outer =
      graph(tensor("x"),
            node("torch.ops.higher_order.wrap_with_set_grad_enabled",
                 {R"({"as_bool": true})", sub_graph(inner), tensor("x")}, tensor("r")) +
                ", " + node("torch.ops.aten.add.Tensor", {tensor("r"), tensor("x")}, tensor("add")),
            tensor("add"));
  const std::string nodes = node("torch.ops.aten.exp.default", {tensor("x")}, tensor("exp")) + ", " +
                            node("torch.ops.higher_order.wrap_with_set_grad_enabled",
                                 {R"({"as_bool": false})", sub_graph(outer), tensor("exp")}, tensor("g")) +
                            ", " + node("torch.ops.aten._assert_scalar.default", {R"({"as_bool": true})"}, "") + ", " +
                            node("torch.ops.aten.neg.default", {tensor("g")}, tensor("neg"));
  const auto read = frontend::pt2::read_program(program(nodes, "neg"), {});
  REQUIRE(read.ok());
  const auto& calls = read->program.calls;
  REQUIRE(calls.size() == 4);
  CHECK(calls[0].call.name == "exp");
  CHECK(calls[1].call.name == "exp_1");
  CHECK(calls[1].call.args[0].text == "exp");
  CHECK(calls[2].call.args[0].text == "exp_1");
  CHECK(calls[3].call.args[0].text == "add");
  CHECK_FALSE(calls[0].no_grad);
  CHECK_FALSE(calls[1].no_grad);
  CHECK(calls[2].no_grad);
  CHECK_FALSE(calls[3].no_grad);
  CHECK(calls[1].tags == ir::TagSet{{"PP", 2}});
  const std::string cast = node("torch.ops.higher_order.wrap_with_autocast",
                                {R"({"as_string": "cpu"})", R"({"as_none": true})", R"({"as_bool": true})",
                                 R"({"as_none": true})", sub_graph(inner), tensor("x")},
                                tensor("c"));
  const auto autocast = frontend::pt2::read_program(program(cast, "c"), {});
  REQUIRE_FALSE(autocast.ok());
  CHECK(autocast.error().code == "P0305");
  CHECK(autocast.error().message.find("autocast") != std::string::npos);
}

// Cut texts of a program are refused, never misread.
TEST_CASE("a broken program") {
  const std::string whole = program(node("torch.ops.aten.neg.default", {tensor("x")}, tensor("neg")), "neg");
  REQUIRE(frontend::pt2::read_program(whole, {}).ok());
  for (size_t n = 0; n < whole.size(); ++n) CHECK_FALSE(frontend::pt2::read_program(whole.substr(0, n), {}).ok());
  // What comes in place of a number may be of any depth.
  const size_t levels = 200000;
  const std::string number = R"({"as_float": )" + std::string(levels, '[') + std::string(levels, ']') + "}";
  const auto no_number = frontend::pt2::read_program(
      program(node("torch.ops.aten.add.Tensor", {tensor("x"), number}, tensor("add")), "add"), {});
  REQUIRE_FALSE(no_number.ok());
  CHECK(no_number.error().message.find("a value of type array is where a number should be") != std::string::npos);
  std::string nested = graph("", "", "");
  for (int i = 0; i < 40; ++i) nested = graph("", node("torch.ops.higher_order.wrap", {sub_graph(nested)}, ""), "");
  const auto deep =
      frontend::pt2::read_program(program(node("torch.ops.higher_order.wrap", {sub_graph(nested)}, ""), "x"), {});
  REQUIRE_FALSE(deep.ok());
  CHECK(deep.error().message.find("nested") != std::string::npos);
}
