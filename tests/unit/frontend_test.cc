// The model file interface: texts of calls, extents, the ATen route, damage and what ONNX forgets.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <map>

#include <catch2/catch.hpp>

#include "compiler/frontend/aten/dims.h"
#include "compiler/frontend/aten/fx_text.h"
#include "compiler/frontend/aten/table.h"
#include "compiler/frontend/model_file.h"
#include "tests/source_path.h"
#include "tests/unit/onnx_writer.h"
#include "tests/unit/temp_folder.h"

using namespace piper;
using frontend::BindRequest;
using frontend::ModelFile;
using frontend::aten::Item;
using frontend::onnx::ElemCode;

namespace {

std::string model_path(const std::string& name) { return test::source_path("tests/models/" + name + ".onnx"); }

std::unique_ptr<ModelFile> open(const std::string& name, const std::string& route = "auto") {
  diag::Diagnostics diags;
  auto model = frontend::open_model(model_path(name), route, diags);
  INFO(diags.render_text(true));
  REQUIRE(model.ok());
  return std::move(model).value();
}

ir::Graph bound(const ModelFile& model, const BindRequest& request) {
  diag::Diagnostics diags;
  auto graph = model.bind(request, diags);
  INFO(diags.render_text(true));
  REQUIRE(graph.ok());
  return std::move(graph).value().graph;
}

BindRequest batch_of(int64_t n) {
  BindRequest request;
  request.local_batch = n;
  return request;
}

std::map<std::string, int> op_counts(const ir::Graph& graph) {
  std::map<std::string, int> out;
  for (uint32_t i = 0; i < graph.num_ops(); ++i) ++out[std::string(ir::op_name(graph.op(ir::OpId(i)).kind))];
  return out;
}

const ir::Op* first_op(const ir::Graph& graph, ir::OpKind kind) {
  for (uint32_t i = 0; i < graph.num_ops(); ++i)
    if (graph.op(ir::OpId(i)).kind == kind) return &graph.op(ir::OpId(i));
  return nullptr;
}

const ir::Parameter* parameter(const ir::Graph& graph, const std::string& name) {
  for (const ir::Parameter& p : graph.parameters())
    if (std::find(p.names.begin(), p.names.end(), name) != p.names.end()) return &p;
  return nullptr;
}

// The code and text of the only error of an action.
struct Failure {
  std::string code, text;
};
template <class Action>
Failure failure(Action&& action) {
  diag::Diagnostics diags;
  REQUIRE_FALSE(action(diags).ok());
  REQUIRE(diags.num_errors() == 1);
  return {diags.all()[0].code, diags.render_text(true)};
}

}  // namespace

// A call's text is read with nested lists, numbers, words and references.
TEST_CASE("text of a call") {
  const auto call = frontend::aten::parse_fx_text(
      "%sdpa : [num_users=1] = call_function[target=torch.ops.aten.scaled_dot_product_attention.default](args = "
      "(%q, [%k, -1, 1e-05], None, True, 9223372036854775807, -inf), kwargs = {scale: 0.25, device: cpu, dtype: "
      "torch.int64})");
  REQUIRE(call.ok());
  CHECK(call->name == "sdpa");
  CHECK(call->target == "aten.scaled_dot_product_attention.default");
  REQUIRE(call->args.size() == 6);
  CHECK(call->args[0].kind == Item::Kind::kRef);
  CHECK(call->args[0].text == "q");
  REQUIRE(call->args[1].list.size() == 3);
  CHECK(call->args[1].list[1].integer == -1);
  CHECK(call->args[1].list[2].real == 1e-05);
  CHECK(call->args[2].is_none());
  CHECK(call->args[3].flag);
  CHECK(call->args[4].integer == INT64_MAX);
  CHECK(call->args[5].real < -1e308);
  REQUIRE(call->kwargs.size() == 3);
  CHECK(call->kwargs[2].second.text == "torch.int64");
}

// The equation of an einsum is written unquoted, with commas and possibly spaces.
TEST_CASE("text of an einsum") {
  const auto call = frontend::aten::parse_fx_text(
      "%einsum : [num_users=1] = call_function[target=torch.ops.aten.einsum.default](args = (b s d, t d -> b t, [%x, "
      "%w]), kwargs = {})");
  REQUIRE(call.ok());
  CHECK(call->args[0].text == "b s d, t d -> b t");
  CHECK(call->args[1].list.size() == 2);
}

// Cut or foreign texts are refused, never misread.
TEST_CASE("broken texts of calls") {
  const std::string whole =
      "%a : [num_users=1] = call_function[target=torch.ops.aten.add.Tensor](args = (%x, [1, 2]), kwargs = {k: (1,)})";
  REQUIRE(frontend::aten::parse_fx_text(whole).ok());
  for (size_t n = 0; n < whole.size() - 2; ++n) {
    const auto cut = frontend::aten::parse_fx_text(whole.substr(0, n));
    REQUIRE_FALSE(cut.ok());
    CHECK(cut.error().code == "P0304");
  }
  CHECK_FALSE(frontend::aten::parse_fx_text(std::string(5000, '[')).ok());
  CHECK_FALSE(frontend::aten::parse_fx_literal(std::string(5000, '(')).ok());
}

// Extents are Python expressions of symbols: division rounds down.
TEST_CASE("symbolic extents") {
  frontend::aten::Dims dims;
  dims.bind("B", 3);
  dims.bind("s72", 10);
  const auto value = [&](const char* text) { return dims.evaluate(text).value(); };
  CHECK(value("24*B") == 72);
  CHECK(value("((15*B)//2)") == 22);
  CHECK(value("-7//2") == -4);
  CHECK(value("s72 - B - 1") == 6);
  CHECK(value("Max(1, s72 - 20)") == 1);
  CHECK(value("Mod(s72, B)") == 1);
  CHECK(value("2**B") == 8);
  const auto unbound = dims.evaluate("B*S");
  REQUIRE_FALSE(unbound.ok());
  CHECK(unbound.error().code == "P0302");
  CHECK(unbound.error().message.find("'S'") != std::string::npos);
  for (const char* broken : {"", "B +", "1//0", "B B", "((B)", "f(B)"}) CHECK_FALSE(dims.evaluate(broken).ok());
}

// Every row of the table is a schema that parses, and defaults fill what a call leaves out.
TEST_CASE("table of calls") {
  std::vector<std::string> schemas;
#define PIPER_ATEN(handler, kind, schema) schemas.push_back(schema);
#include "compiler/frontend/aten/call_table.def"
#undef PIPER_ATEN
  for (const std::string& schema : schemas)
    CHECK(frontend::aten::find_row(schema.substr(0, schema.find('(')))->schema.target ==
          schema.substr(0, schema.find('(')));
  const frontend::aten::TableRow* row = frontend::aten::find_row("aten.layer_norm.default");
  REQUIRE(row != nullptr);
  const auto bound_args =
      frontend::aten::bind_arguments(row->schema, {Item::of_ref("x"), Item::of_list({Item::of_int(8)})},
                                     {{"eps", Item::of_float(1e-6)}, {"device", Item::of_text("cpu")}});
  REQUIRE(bound_args.ok());
  CHECK((*bound_args)[2].is_none());
  CHECK((*bound_args)[4].real == 1e-6);
  const auto unknown = frontend::aten::bind_arguments(row->schema, {}, {{"colour", Item::of_int(1)}});
  REQUIRE_FALSE(unknown.ok());
  CHECK(unknown.error().message.find("colour") != std::string::npos);
  CHECK(frontend::aten::find_row("aten.linalg_eig.default") == nullptr);
  CHECK(frontend::aten::resembling_targets("aten.add.Other").size() == 2);
}

// The whole of a small model: parameters by name, the loss, attention whole and causal.
TEST_CASE("tiny gpt by its ATen calls") {
  const auto model = open("tiny_gpt");
  CHECK(model->fixed_batch() == -1);
  CHECK(model->declared_min_batch() == 2);
  CHECK(model->sha256().size() == 64);
  CHECK(model->outputs() == std::vector<std::string>{"cross_entropy_loss"});
  REQUIRE(model->inputs().size() == 2);
  CHECK(model->inputs()[0].symbols[0] == "B");
  for (int64_t n : {4, 2, 1}) {
    const ir::Graph graph = bound(*model, batch_of(n));
    CHECK(graph.parameters().size() == 28);
    auto counts = op_counts(graph);
    CHECK(counts["linear"] == 9);
    CHECK(counts["scaled_dot_product_attention"] == 2);
    CHECK(counts["layer_norm"] == 5);
    CHECK(std::get<ir::SdpaAttrs>(first_op(graph, ir::OpKind::kSdpa)->attrs).is_causal);
    const ir::Op* loss = first_op(graph, ir::OpKind::kCrossEntropyLoss);
    CHECK(std::get<ir::CrossEntropyLossAttrs>(loss->attrs).ignore_index == -1);
    CHECK(graph.type(loss->operands[0]).shape == std::vector<int64_t>{6 * n, 19});
    REQUIRE(graph.outputs.size() == 1);
    CHECK(graph.outputs[0].value == loss->results[0]);
    CHECK(graph.inputs()[0].batched);
  }
}

// A tied weight is one parameter that knows its names; modules become scopes.
TEST_CASE("tied weights and scopes") {
  const ir::Graph graph = bound(*open("tiny_gpt"), batch_of(4));
  const ir::Parameter* head = parameter(graph, "wte.weight");
  REQUIRE(head != nullptr);
  CHECK(head == parameter(graph, "lm_head.weight"));
  bool found = false;
  for (uint32_t i = 0; i < graph.num_ops(); ++i) found = found || graph.scope(graph.op(ir::OpId(i)).scope) == "h.1.qkv";
  CHECK(found);
}

// Dropouts are keyed by module and ordinal; dropout inside attention is written out.
TEST_CASE("dropout and open extents") {
  const auto model = open("tiny_gpt_dropout");
  BindRequest request = batch_of(4);
  request.dims["S"] = 5;
  const ir::Graph graph = bound(*model, request);
  auto counts = op_counts(graph);
  CHECK(counts["dropout"] == 3);
  CHECK(counts["scaled_dot_product_attention"] == 0);
  std::vector<int64_t> keys;
  for (uint32_t i = 0; i < graph.num_ops(); ++i)
    if (const auto* d = std::get_if<ir::DropoutAttrs>(&graph.op(ir::OpId(i)).attrs)) keys.push_back(d->key);
  std::sort(keys.begin(), keys.end());
  CHECK(std::unique(keys.begin(), keys.end()) == keys.end());
  const Failure unbound = failure([&](diag::Diagnostics& d) { return model->bind(batch_of(4), d); });
  CHECK(unbound.code == "P0302");
  CHECK(unbound.text.find("'S'") != std::string::npos);
  request.dims["T"] = 3;
  CHECK(failure([&](diag::Diagnostics& d) { return model->bind(request, d); }).code == "P0302");
}

// What ONNX operators lose is kept by the ATen route and by the export helper's notes.
TEST_CASE("hazards are kept") {
  const auto model = open("hazards");
  const ir::Graph graph = bound(*model, batch_of(4));
  auto counts = op_counts(graph);
  CHECK(counts["batch_norm"] == 1);
  CHECK(counts["rms_norm"] == 1);
  CHECK(counts["detach"] == 3);  // one detach of the model, two results under no_grad
  CHECK(std::get<ir::EmbeddingAttrs>(first_op(graph, ir::OpKind::kEmbedding)->attrs).padding_idx == 0);
  CHECK(std::get<ir::CrossEntropyLossAttrs>(first_op(graph, ir::OpKind::kCrossEntropyLoss)->attrs).label_smoothing ==
        0.1);
  REQUIRE(graph.buffers().size() == 2);
  CHECK(graph.buffers()[0].names[0].find("norm.running_") == 0);
  CHECK_FALSE(parameter(graph, "frozen.weight")->trainable);
  CHECK(parameter(graph, "frozen.bias")->trainable);
  const auto tags = model->node_tags();
  REQUIRE(tags.count("linear") == 1);
  CHECK(tags.at("linear") == ir::TagSet{{"PP", 0}});
}

// Freezing goes by glob over parameters or modules; a pattern without a match is an error.
TEST_CASE("freeze") {
  const auto model = open("tiny_gpt");
  BindRequest request = batch_of(4);
  request.freeze = {"*.wte", "h.1"};
  const ir::Graph graph = bound(*model, request);
  CHECK_FALSE(parameter(graph, "lm_head.weight")->trainable);
  CHECK_FALSE(parameter(graph, "h.1.qkv.weight")->trainable);
  CHECK(parameter(graph, "h.0.qkv.weight")->trainable);
  request.freeze = {"h.2"};
  CHECK(failure([&](diag::Diagnostics& d) { return model->bind(request, d); }).code == "P0309");
}

// A fixed batch can only be bound as it is.
TEST_CASE("fixed batch") {
  const auto model = open("fixed_batch");
  CHECK(model->fixed_batch() == 4);
  CHECK(bound(*model, batch_of(4)).inputs()[0].batched);
  CHECK(failure([&](diag::Diagnostics& d) { return model->bind(batch_of(2), d); }).code == "P0303");
}

// An export that lost parameters is refused with their names.
TEST_CASE("damaged export") {
  const Failure lost =
      failure([](diag::Diagnostics& d) { return frontend::open_model(model_path("optimized"), "auto", d); });
  CHECK(lost.code == "P0310");
  CHECK(lost.text.find("wpe.weight") != std::string::npos);
  CHECK(lost.text.find("optimize=False") != std::string::npos);
}

// Running statistics that the step changes, but that no call reads and no tensor holds, went away with their operator.
TEST_CASE("an export that lost running statistics") {
  test::ModelWriter m;
  m.input("x", ElemCode::kFloat, {"B", "4"});
  m.output("y");
  m.node("Relu", {"x"}, {"y"});
  m.metadata("pkg.torch.export.ExportedProgram.graph_signature",
             "# inputs\nx: USER_INPUT\nb_mean: BUFFER target='norm.running_mean' persistent=True\n"
             "# outputs\nadd: BUFFER_MUTATION target='norm.running_mean'\ny: USER_OUTPUT\n");
  const TempFolder folder;
  const std::string path = folder.write("fused.onnx", m.bytes());
  const Failure lost = failure([&](diag::Diagnostics& d) { return frontend::open_model(path, "auto", d); });
  CHECK(lost.code == "P0311");
  CHECK(lost.text.find("'norm.running_mean'") != std::string::npos);
}

// A buffer that a step changes is a running statistic where a batch norm in training mode makes its value, and else
// refused: by the ATen calls, by the ONNX operators, and where nothing reads the old value.
TEST_CASE("a buffer that forward changes") {
  const auto opened = [](const std::string& call, const std::string& target, const std::string& made, bool texts) {
    const bool norm = call.find("norm") != std::string::npos;
    test::ModelWriter m;
    m.input("x", ElemCode::kFloat, {"B", "4"});
    m.output("y");
    m.weight("kept", {4});
    std::vector<std::pair<std::string, std::string>> text;
    if (texts)
      text = {{"pkg.torch.onnx.fx_node",
               "%y : [num_users=1] = call_function[target=torch.ops.aten." + call + ", kwargs = {})"}};
    if (norm) m.node("BatchNormalization", {"x", "kept", "kept", "kept", "kept"}, {"y"}, {}, text);
    else m.node("Add", {"x", "kept"}, {"y"}, {}, text);
    m.metadata("pkg.torch.export.ExportedProgram.graph_signature",
               "# inputs\nx: USER_INPUT\nb_kept: BUFFER target='kept' persistent=True\n# outputs\n" + made +
                   ": BUFFER_MUTATION target='" + target + "'\ny: USER_OUTPUT\n");
    const TempFolder folder;
    const std::string path = folder.write("changing.onnx", m.bytes());
    diag::Diagnostics diags;
    const auto model = frontend::open_model(path, texts ? "fx" : "onnx", diags);
    return model.ok() ? std::string("read") : model.error().code;
  };
  const std::string add = "add.Tensor](args = (%x, %b_kept)";
  const std::string norm =
      "_native_batch_norm_legit_functional.default](args = (%x, None, None, %b_kept, %b_kept, True, 0.1, 1e-05)";
  CHECK(opened(norm, "kept", "getitem_3", true) == "read");
  CHECK(opened(norm, "kept", "y", true) == "read");
  CHECK(opened(norm, "kept", "mul", true) == "P0314");
  CHECK(opened(add, "kept", "y", true) == "P0314");
  CHECK(opened(add, "seen", "y", true) == "P0314");
  CHECK(opened(add, "n.num_batches_tracked", "add_1", true) == "read");
  CHECK(opened(norm, "kept", "getitem_3", false) == "read");
  CHECK(opened(add, "kept", "y", false) == "P0314");
}

// The nodes of a call's results are in any order, and those that nothing reads are in no file: the exporter says
// which ones the others are. Where it does not, all must be there.
TEST_CASE("results of a call are known by their names") {
  const auto opened = [](const std::vector<std::string>& names, const std::string& note) {
    test::ModelWriter m;
    m.input("x", ElemCode::kFloat, {"B", "3"});
    m.output("y");
    const auto text = [](const std::string& call) {
      return std::vector<std::pair<std::string, std::string>>{
          {"pkg.torch.onnx.fx_node", "%" + call + ", kwargs = {})"}};
    };
    for (const std::string& name : names)
      m.node("Gather", {"x"}, {name}, {},
             text("unbind : [num_users=2] = call_function[target=torch.ops.aten.unbind.int](args = (%x, 1)"));
    m.node("Sub", {names[0], names[1]}, {"d"}, {},
           text("d : [num_users=1] = call_function[target=torch.ops.aten.sub.Tensor](args = (%getitem_1, %getitem_2)"));
    m.node("ReduceSum", {"d"}, {"y"}, {},
           text("y : [num_users=1] = call_function[target=torch.ops.aten.sum.default](args = (%d,)"));
    if (!note.empty()) m.metadata("piper.results", note);
    const TempFolder folder;
    diag::Diagnostics diags;
    const auto model = frontend::open_model(folder.write("unbound.onnx", m.bytes()), "fx", diags);
    REQUIRE(model.ok());
    const auto bound = (*model)->bind(batch_of(4), diags);
    if (!bound.ok()) return bound.error().code;
    const ir::Graph& graph = bound.value().graph;
    std::string starts;
    for (size_t i = 0; i < graph.num_ops(); ++i)
      if (const auto* slice = std::get_if<ir::SliceAttrs>(&graph.op(ir::OpId(i)).attrs))
        starts += std::to_string(slice->start);
    return starts;
  };
  CHECK(opened({"getitem_2", "getitem_1"}, "unbind - getitem_1 getitem_2\n") == "12");
  CHECK(opened({"getitem_2", "getitem_1", "getitem"}, "") == "12");
  CHECK(opened({"getitem_2", "getitem_1"}, "") == "P0304");
}

// Text cannot be fed: the message names the input.
TEST_CASE("an input of a type that is no number") {
  constexpr auto kString = static_cast<ElemCode>(8);
  test::ModelWriter m;
  m.input("prompt", kString, {"B"});
  m.output("y");
  m.node("Relu", {"prompt"}, {"y"});
  const TempFolder folder;
  const std::string path = folder.write("text.onnx", m.bytes());
  const Failure text = failure([&](diag::Diagnostics& d) { return frontend::open_model(path, "onnx", d); });
  CHECK(text.code == "P0307");
  CHECK(text.text.find("'prompt'") != std::string::npos);
}

// The operator route makes the same ops where nothing is lost, and refuses where something is.
TEST_CASE("two routes") {
  for (const char* name : {"tiny_mlp", "tiny_gpt"}) {
    const ir::Graph fx = bound(*open(name, "fx"), batch_of(4)), onnx = bound(*open(name, "onnx"), batch_of(4));
    CHECK(op_counts(fx) == op_counts(onnx));
    REQUIRE(fx.parameters().size() == onnx.parameters().size());
    for (size_t i = 0; i < fx.parameters().size(); ++i) CHECK(fx.parameters()[i].names == onnx.parameters()[i].names);
  }
  CHECK(failure([](diag::Diagnostics& d) { return frontend::open_model(model_path("hazards"), "onnx", d); }).code ==
        "P0312");
  CHECK(failure([](diag::Diagnostics& d) { return frontend::open_model(model_path("tiny_mlp"), "tflite", d); }).code ==
        "P0300");
  CHECK(failure([](diag::Diagnostics& d) { return frontend::open_model(model_path("absent"), "auto", d); }).code ==
        "P0301");
}

// The error of opening and binding a copy of a model in which a text is replaced, at most `times` times.
Failure edited(const std::string& name, const std::string& from, const std::string& to, const BindRequest& request,
               int times = 1000) {
  REQUIRE(from.size() == to.size());
  std::ifstream in(model_path(name), std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(in), {}};
  REQUIRE(bytes.find(from) != std::string::npos);
  for (size_t at = bytes.find(from); at != std::string::npos && times-- > 0; at = bytes.find(from))
    bytes.replace(at, from.size(), to);
  const std::string path = "edited_" + name + ".onnx";
  std::ofstream(path, std::ios::binary) << bytes;
  const Failure f = failure([&](diag::Diagnostics& d) -> Status {
    auto model = frontend::open_model(path, "fx", d);
    if (!model.ok()) return model.take_status();
    return (*model)->bind(request, d).take_status();
  });
  std::remove(path.c_str());
  return f;
}

// An edited text that disagrees with the file's own types is found out.
TEST_CASE("a text that lies") {
  const auto mlp = [](const char* from, const char* to) { return edited("tiny_mlp", from, to, batch_of(4)); };
  CHECK(
      mlp("aten.linear.default](args = (%x, %p_layers_0_weight", "aten.linear.default](args = (%x, %p_layers_1_weight")
          .code == "P0306");
  CHECK(mlp("args = (%x, %p_layers_0_weight", "args = (%y, %p_layers_0_weight").code == "P0304");
}

// An operator that nobody knows is named with its place in the user's program and its neighbours.
TEST_CASE("unknown operator") {
  const Failure unknown = edited("tiny_mlp", "torch.ops.aten.tanh.default", "torch.ops.aten.tnah.default", batch_of(4));
  CHECK(unknown.code == "P0305");
  CHECK(unknown.text.find("make_models.py:") != std::string::npos);
  CHECK(unknown.text.find("aten.tanh.default") != std::string::npos);
}

// Calls for complex numbers refuse real ones by name.
TEST_CASE("complex numbers") {
  const Failure real = edited("tiny_mlp", "torch.ops.aten.tanh.default", "torch.ops.aten.imag.default", batch_of(4));
  CHECK(real.code == "P0306");
  CHECK(real.text.find("imag of a real tensor") != std::string::npos);
}

// Randomness without a key, and a probability that is none, are refused.
TEST_CASE("random numbers") {
  CHECK(edited("tiny_mlp", "torch.ops.aten.tanh.default", "torch.ops.aten.rand.default", batch_of(4)).code == "P0321");
  BindRequest request = batch_of(4);
  request.dims["S"] = 5;
  CHECK(edited("tiny_gpt_dropout", "%linear_1, 0.1, True)", "%linear_1, 1.1, True)", request).code == "P0325");
  CHECK(edited("tiny_gpt_dropout", "None, 0.1, True)", "None, 1.1, True)", request, 1).code ==
        "P0304");  // one text of many
}
