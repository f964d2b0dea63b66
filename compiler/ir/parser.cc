// Reads .pir text. Types of results may be left out; they are inferred.
#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <map>

#include "compiler/ir/graph.h"
#include "compiler/ir/graph_text.h"
#include "compiler/ir/shapes.h"
#include "compiler/ir/text_reader.h"
#include "schemas/plan/element_order.h"

namespace piper::ir {
namespace {

constexpr int64_t kMostShards = 2048;

class GraphParser {
 public:
  explicit GraphParser(TextReader& in) : in_(in) {}

  Result<Graph> run() {
    PIPER_RETURN_IF_ERROR(in_.want_word("graph"));
    PIPER_RETURN_IF_ERROR(in_.block([&] { return entry(); }));
    return std::move(graph_);
  }

 private:
  Result<TensorType> type() {
    Token at = in_.token();
    TensorType t;
    PIPER_ASSIGN(t.dtype, in_.dtype());
    PIPER_ASSIGN(t.shape, in_.integers());
    for (const int64_t extent : t.shape)
      if (extent < 0) return in_.fail(at, "negative extent");
    if (!is_within_bounds(t.shape)) return in_.fail(at, "too many elements");
    return t;
  }
  Result<ValueId> value() {
    PIPER_ASSIGN(const bool none, in_.takes("none"));
    if (none) return ValueId();
    if (in_.token().kind != TokenKind::kValue) return in_.fail("expected a value");
    auto found = values_.find(in_.token().text);
    if (found == values_.end()) return in_.fail("no value '" + in_.token().text + "' is defined before this line");
    PIPER_RETURN_IF_ERROR(in_.advance());
    return found->second;
  }

  // ---------------------------------------------------------------- entries
  Status entry() {
    if (in_.token().kind == TokenKind::kValue) return definition();
    if (in_.is_word("prov")) {
      PIPER_RETURN_IF_ERROR(in_.advance());
      return in_.provenance_entry(graph_.provenance());
    }
    if (in_.is_word("output")) {
      PIPER_RETURN_IF_ERROR(in_.advance());
      Graph::Output output;
      PIPER_ASSIGN(output.name, in_.string());
      PIPER_RETURN_IF_ERROR(in_.want("="));
      PIPER_ASSIGN(output.value, value());
      graph_.outputs.push_back(std::move(output));
      return {};
    }
    if (in_.is_word("dropped")) {
      PIPER_RETURN_IF_ERROR(in_.advance());
      PIPER_ASSIGN(const ValueId number, value());
      graph_.dropped.push_back(number);
      return {};
    }
    if (in_.is_word("loss_term")) {
      PIPER_RETURN_IF_ERROR(in_.advance());
      PIPER_ASSIGN(const ValueId term, value());
      graph_.loss_terms.push_back(term);
      return {};
    }
    if (in_.is_word("loss")) {
      PIPER_RETURN_IF_ERROR(in_.advance());
      PIPER_ASSIGN(graph_.loss, value());
      return {};
    }
    if (in_.token().kind != TokenKind::kWord) return in_.fail("expected a value, an operator or '}'");
    return op({});
  }

  Status definition() {
    std::vector<Token> names;
    for (;;) {
      if (in_.token().kind != TokenKind::kValue) return in_.fail("expected a value");
      for (const Token& name : names)
        if (name.text == in_.token().text) return in_.fail("'" + in_.token().text + "' is defined twice");
      if (values_.count(in_.token().text)) return in_.fail("'" + in_.token().text + "' is defined twice");
      names.push_back(in_.token());
      PIPER_RETURN_IF_ERROR(in_.advance());
      if (!in_.is(",")) break;
      PIPER_RETURN_IF_ERROR(in_.advance());
    }
    PIPER_RETURN_IF_ERROR(in_.want("="));
    for (const char* leaf :
         {"input", "parameter", "buffer", "constant", "seed_step", "sample_offset", "place", "loss_scale"})
      if (in_.is_word(leaf)) {
        if (names.size() != 1) return in_.fail("one name expected");
        PIPER_ASSIGN(ValueId v, this->leaf(names[0].text));
        define(names[0].text, v);
        return {};
      }
    return op(names);
  }

  // The text's own name holds, whatever a first free name would be.
  void define(const std::string& name, ValueId v) {
    graph_.value(v).name = name;
    values_.emplace(name, v);
  }

  Result<ValueId> leaf(const std::string& name) {
    std::string kind = in_.token().text;
    Token at = in_.token();
    PIPER_RETURN_IF_ERROR(in_.advance());
    if (kind == "seed_step" || kind == "sample_offset" || kind == "place" || kind == "loss_scale") {
      size_t before = graph_.num_values();
      ValueId v = kind == "seed_step"       ? graph_.seed_step()
                  : kind == "sample_offset" ? graph_.sample_offset()
                  : kind == "place"         ? graph_.place()
                                            : graph_.loss_scale();
      if (graph_.num_values() == before) return in_.fail(at, kind + " appears twice");
      return v;
    }
    if (kind == "input") {
      PIPER_ASSIGN(std::string input, in_.string());
      if (input.empty()) return in_.fail(at, "an empty name");
      PIPER_RETURN_IF_ERROR(in_.want(":"));
      PIPER_ASSIGN(TensorType t, type());
      PIPER_ASSIGN(const bool fixed, in_.takes("static"));
      return graph_.add_input(std::move(input), std::move(t), !fixed);
    }
    std::vector<std::string> names;
    if (kind != "constant") {
      PIPER_RETURN_IF_ERROR(in_.want("["));
      while (!in_.is("]")) {
        if (!names.empty()) PIPER_RETURN_IF_ERROR(in_.want(","));
        PIPER_ASSIGN(std::string one, in_.string());
        if (one.empty()) return in_.fail(at, "an empty name");
        names.push_back(std::move(one));
      }
      if (names.empty()) return in_.fail("a name expected");
      PIPER_RETURN_IF_ERROR(in_.advance());
    }
    PIPER_RETURN_IF_ERROR(in_.want(":"));
    PIPER_ASSIGN(TensorType t, type());
    Parameter cut;
    if (kind == "parameter" && in_.is_word("shards")) {
      PIPER_RETURN_IF_ERROR(in_.advance());
      PIPER_ASSIGN(const int64_t shards, in_.integer());
      PIPER_RETURN_IF_ERROR(in_.want_word("by"));
      PIPER_ASSIGN(const int64_t shard, in_.integer());
      if (shards < 2 || shards > kMostShards || shard < 0 || shard > kMostShards || t.shape.empty())
        return in_.fail(at, "at least two parts of a first axis expected");
      cut.shards = static_cast<int32_t>(shards);
      cut.shard = static_cast<int32_t>(shard);
    }
    if (kind == "parameter" && in_.is_word("cut")) {
      PIPER_RETURN_IF_ERROR(in_.advance());
      PIPER_ASSIGN(const int64_t index, in_.integer());
      PIPER_RETURN_IF_ERROR(in_.want_word("axis"));
      PIPER_ASSIGN(const int64_t axis, in_.integer());
      PIPER_RETURN_IF_ERROR(in_.want_word("places"));
      PIPER_ASSIGN(const int64_t places, in_.integer());
      if (index < 0 || index > kMostShards || axis < 0 || axis >= static_cast<int64_t>(t.shape.size()) || places < 2 ||
          places > kMostShards)
        return in_.fail(at, "an axis in at least two parts expected");
      int64_t segments = 1;
      if (in_.is_word("segments")) {
        PIPER_RETURN_IF_ERROR(in_.advance());
        PIPER_ASSIGN(segments, in_.integer());
      }
      if (segments < 1 || segments > kMostShards) return in_.fail(at, "a number of segments expected");
      std::vector<int64_t> extents;
      if (in_.is_word("extents")) {
        PIPER_RETURN_IF_ERROR(in_.advance());
        PIPER_ASSIGN(extents, in_.integers());
        if (!plan::are_segments(extents, t.shape[static_cast<size_t>(axis)] * places, places))
          return in_.fail(at, "extents of segments that make up the whole axis expected");
        segments = static_cast<int64_t>(extents.size());
      }
      int64_t extent = 0;
      if (in_.is_word("extent")) {
        PIPER_RETURN_IF_ERROR(in_.advance());
        PIPER_ASSIGN(extent, in_.integer());
        const int64_t part = t.shape[static_cast<size_t>(axis)];
        if (segments > 1 || extent <= 0 || part != (extent + places - 1) / places)
          return in_.fail(at, "an extent of which the part is one expected");
      }
      cut.cut = ParameterCut{static_cast<int32_t>(index),
                             static_cast<int32_t>(axis),
                             static_cast<int32_t>(places),
                             static_cast<int32_t>(segments),
                             extent,
                             std::move(extents)};
    }
    if (kind == "parameter" && in_.is_word("share")) {
      PIPER_RETURN_IF_ERROR(in_.advance());
      PIPER_ASSIGN(const int64_t index, in_.integer());
      if (index < 0 || index > kMostShards) return in_.fail(at, "a cut expected");
      cut.share = static_cast<int32_t>(index);
    }
    if (kind == "parameter" && in_.is_word("master")) {
      PIPER_RETURN_IF_ERROR(in_.advance());
      PIPER_ASSIGN(cut.master, in_.dtype());
    }
    if (kind == "parameter") {
      PIPER_ASSIGN(cut.matrix, in_.takes("matrix"));
    }
    if (kind == "parameter" && in_.is_word("stored")) {
      PIPER_RETURN_IF_ERROR(in_.advance());
      PIPER_ASSIGN(cut.stored, in_.dtype());
    }
    PIPER_ASSIGN(WeightSource from, source(cut.in_source(t)));
    if (kind == "constant") return graph_.add_constant(name, std::move(t), std::move(from));
    if (kind == "buffer") return graph_.add_buffer(std::move(names), std::move(t), std::move(from));
    PIPER_ASSIGN(const bool frozen, in_.takes("frozen"));
    PIPER_ASSIGN(const bool buffer, in_.takes("buffer"));
    if (buffer) {
      PIPER_ASSIGN(const bool fixed, in_.takes("fixed"));
      if (!fixed) PIPER_RETURN_IF_ERROR(in_.want_word("read"));
      cut.buffer = fixed ? plan::ModelBuffer::kFixed : plan::ModelBuffer::kRead;
    }
    const ValueId v = graph_.add_parameter(std::move(names), std::move(t), !frozen && !buffer, std::move(from));
    graph_.parameters().back().buffer = cut.buffer;
    graph_.parameters().back().shards = cut.shards;
    graph_.parameters().back().shard = cut.shard;
    graph_.parameters().back().cut = cut.cut;
    graph_.parameters().back().share = cut.share;
    graph_.parameters().back().master = cut.master;
    graph_.parameters().back().stored = cut.stored;
    graph_.parameters().back().matrix = cut.matrix;
    return v;
  }

  Result<WeightSource> source(const TensorType& t) {
    WeightSource s;
    if (in_.is_word("file")) {
      PIPER_RETURN_IF_ERROR(in_.advance());
      PIPER_ASSIGN(s.file, in_.string());
      PIPER_RETURN_IF_ERROR(in_.want_word("offset"));
      PIPER_ASSIGN(s.offset, in_.integer());
      PIPER_RETURN_IF_ERROR(in_.want_word("bytes"));
      PIPER_ASSIGN(s.bytes, in_.integer());
    } else if (in_.is_word("data")) {
      PIPER_RETURN_IF_ERROR(in_.advance());
      PIPER_ASSIGN(std::vector<std::byte> bytes, data(t));
      s.bytes = static_cast<int64_t>(bytes.size());
      s.data = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
    }
    if (in_.is_word("permutation")) {
      PIPER_RETURN_IF_ERROR(in_.advance());
      PIPER_ASSIGN(s.permutation, in_.integers());
    }
    return s;
  }

  Result<std::vector<std::byte>> data(const TensorType& t) {
    Token at = in_.token();
    std::vector<std::byte> bytes;
    if (in_.token().kind == TokenKind::kString) {
      PIPER_ASSIGN(std::string hex, in_.string());
      auto digit = [](char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1; };
      if (hex.size() % 2) return in_.fail(at, "an odd number of hexadecimal digits");
      for (size_t i = 0; i < hex.size(); i += 2) {
        if (digit(hex[i]) < 0 || digit(hex[i + 1]) < 0) return in_.fail(at, "hexadecimal digits expected");
        bytes.push_back(static_cast<std::byte>(digit(hex[i]) * 16 + digit(hex[i + 1])));
      }
    } else {
      PIPER_RETURN_IF_ERROR(in_.list([&] { return element(t.dtype, bytes); }));
    }
    if (static_cast<int64_t>(bytes.size()) != t.bytes())
      return in_.fail(
          at, "the data are " + std::to_string(bytes.size()) + " bytes, the type has " + std::to_string(t.bytes()));
    return bytes;
  }

  Status element(DType dtype, std::vector<std::byte>& bytes) {
    auto put = [&](auto v) {
      size_t at = bytes.size();
      bytes.resize(at + sizeof v);
      std::memcpy(bytes.data() + at, &v, sizeof v);
    };
    switch (dtype) {
      case DType::kF32: {
        // strtof, not a rounded strtod: the shortest text of a float reads back only directly.
        float v = std::strtof(in_.token().text.c_str(), nullptr);
        PIPER_RETURN_IF_ERROR(in_.number().status());
        put(v);
        return {};
      }
      case DType::kF64: {
        PIPER_ASSIGN(double v, in_.number());
        put(v);
        return {};
      }
      case DType::kI64: {
        PIPER_ASSIGN(int64_t v, in_.integer());
        put(v);
        return {};
      }
      case DType::kI32: {
        PIPER_ASSIGN(int64_t v, in_.integer());
        put(static_cast<int32_t>(v));
        return {};
      }
      case DType::kBool: {
        PIPER_ASSIGN(const bool v, boolean());
        put(static_cast<uint8_t>(v));
        return {};
      }
      case DType::kBF16:
      case DType::kF16: return in_.fail("data of bf16 and f16 are written as hexadecimal bytes");
    }
    return {};
  }

  // ---------------------------------------------------------------- ops
  struct AttrReader {
    GraphParser& parser;
    const std::string& key;
    bool found = false;
    Status status;

    template <class T, class Read>
    void take(const char* name, T& member, const Read& read) {
      if (found || key != name) return;
      found = true;
      Result<T> result = read(parser);
      if (result.ok()) member = std::move(result).value();
      else status = result.take_status();
    }
    void operator()(const char* name, int64_t& v) {
      take(name, v, [](GraphParser& p) { return p.in_.integer(); });
    }
    void operator()(const char* name, double& v) {
      take(name, v, [](GraphParser& p) { return p.in_.number(); });
    }
    void operator()(const char* name, bool& v) {
      take(name, v, [](GraphParser& p) { return p.boolean(); });
    }
    void operator()(const char* name, std::string& v) {
      take(name, v, [](GraphParser& p) { return p.in_.string(); });
    }
    void operator()(const char* name, DType& v) {
      take(name, v, [](GraphParser& p) { return p.in_.dtype(); });
    }
    void operator()(const char* name, std::vector<int64_t>& v) {
      take(name, v, [](GraphParser& p) { return p.in_.integers(); });
    }
    void operator()(const char* name, ValueId& v) {
      take(name, v, [](GraphParser& p) { return p.value(); });
    }
  };
  Result<bool> boolean() {
    if (!in_.is_word("true") && !in_.is_word("false")) return in_.fail("expected true or false");
    bool v = in_.is_word("true");
    PIPER_RETURN_IF_ERROR(in_.advance());
    return v;
  }

  Status attributes(Attrs& attrs) {
    PIPER_RETURN_IF_ERROR(in_.want("{"));
    bool first = true;
    while (!in_.is("}")) {
      if (!first) PIPER_RETURN_IF_ERROR(in_.want(","));
      first = false;
      Token key = in_.token();
      PIPER_RETURN_IF_ERROR(in_.advance());
      PIPER_RETURN_IF_ERROR(in_.want("="));
      AttrReader reader{*this, key.text};
      std::visit([&](auto& a) { std::decay_t<decltype(a)>::fields(a, reader); }, attrs);
      PIPER_RETURN_IF_ERROR(std::move(reader.status));
      if (!reader.found) return in_.fail(key, "the operator has no attribute '" + key.text + "'");
    }
    return in_.advance();
  }

  Status op(const std::vector<Token>& names) {
    Token at = in_.token();
    std::optional<OpKind> kind = op_from_name(in_.token().text);
    if (in_.token().kind != TokenKind::kWord || !kind) return in_.fail("no operator '" + in_.token().text + "'");
    PIPER_RETURN_IF_ERROR(in_.advance());
    PIPER_RETURN_IF_ERROR(in_.want("("));
    std::vector<ValueId> operands;
    while (!in_.is(")")) {
      if (!operands.empty()) PIPER_RETURN_IF_ERROR(in_.want(","));
      PIPER_ASSIGN(ValueId operand, value());
      operands.push_back(operand);
    }
    PIPER_RETURN_IF_ERROR(in_.advance());
    Attrs attrs = default_attrs(*kind);
    if (in_.is("{")) PIPER_RETURN_IF_ERROR(attributes(attrs));
    PIPER_ASSIGN(std::vector<TensorType> types, result_types(at, *kind, attrs, operands));
    if (types.size() != names.size())
      return in_.fail(at, std::to_string(names.size()) + " names for " + std::to_string(types.size()) + " results");
    OpId id = graph_.append(*kind, std::move(attrs), std::move(operands), std::move(types), ScopeId(), ProvId(),
                            names.empty() ? "" : names[0].text);
    for (size_t i = 0; i < names.size(); ++i) define(names[i].text, graph_.op(id).results[i]);
    return marks(graph_.op(id));
  }

  Result<std::vector<TensorType>> result_types(const Token& at, OpKind kind, const Attrs& attrs,
                                               const std::vector<ValueId>& operands) {
    std::vector<TensorType> types;
    if (in_.is(":")) {
      do {
        PIPER_RETURN_IF_ERROR(in_.advance());
        PIPER_ASSIGN(TensorType t, type());
        types.push_back(std::move(t));
      } while (in_.is(","));
      return types;
    }
    std::vector<const TensorType*> operand_types;
    for (ValueId operand : operands) operand_types.push_back(operand.valid() ? &graph_.type(operand) : nullptr);
    Result<std::vector<TensorType>> inferred = infer_types(kind, attrs, operand_types);
    if (!inferred.ok()) return in_.fail(at, inferred.error().message);
    return inferred;
  }

  Status marks(Op& op) {
    for (;;) {
      if (in_.is_word("phase")) {
        PIPER_RETURN_IF_ERROR(in_.advance());
        if (in_.is_word("count")) op.phase = Phase::kCount;
        else if (in_.is_word("count_finish")) op.phase = Phase::kCountFinish;
        else if (in_.is_word("backward")) op.phase = Phase::kBackward;
        else if (in_.is_word("backward_weight")) op.phase = Phase::kBackwardWeight;
        else return in_.fail("expected count, count_finish, backward or backward_weight");
        PIPER_RETURN_IF_ERROR(in_.advance());
      } else if (in_.is_word("chunk")) {
        PIPER_RETURN_IF_ERROR(in_.advance());
        Token at = in_.token();
        PIPER_ASSIGN(int64_t chunk, in_.integer());
        if (chunk < 0 || chunk >= ChunkId::kNone) return in_.fail(at, "no chunk id");
        op.chunk = ChunkId(static_cast<size_t>(chunk));
      } else if (in_.is_word("scope")) {
        PIPER_RETURN_IF_ERROR(in_.advance());
        PIPER_ASSIGN(std::string scope, in_.string());
        op.scope = graph_.intern_scope(scope);
      } else if (in_.is_word("prov")) {
        PIPER_RETURN_IF_ERROR(in_.advance());
        Token at = in_.token();
        PIPER_ASSIGN(int64_t prov, in_.integer());
        if (prov < 0 || prov >= static_cast<int64_t>(graph_.provenance().size())) return in_.fail(at, "no such entry");
        op.prov = ProvId(static_cast<size_t>(prov));
      } else {
        return {};
      }
    }
  }

  TextReader& in_;
  Graph graph_;
  std::map<std::string, ValueId> values_;
};

}  // namespace

Result<Graph> parse_graph(TextReader& in) { return GraphParser(in).run(); }

Result<Graph> parse_graph(std::string_view text, std::string_view file_name) {
  TextReader in(text, file_name);
  PIPER_RETURN_IF_ERROR(in.start());
  PIPER_ASSIGN(Graph graph, parse_graph(in));
  if (!in.at_end()) return in.fail("text after the graph");
  return graph;
}

}  // namespace piper::ir
