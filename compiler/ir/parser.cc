// Reads .pir text. Types of results may be left out; they are inferred.
#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <map>

#include "compiler/ir/graph.h"
#include "compiler/ir/lexer.h"

namespace piper::ir {
namespace {

// Larger shapes are refused, so that arithmetic on extents and sizes in bytes cannot overflow.
constexpr int64_t kMostExtent = int64_t{1} << 40;
constexpr int64_t kMostElements = int64_t{1} << 48;
constexpr int64_t kMostShards = 2048;

class Parser {
 public:
  Parser(std::string_view text, std::string_view file_name) : lexer_(text, file_name) {}

  Result<Graph> run() {
    PIPER_RETURN_IF_ERROR(advance());
    PIPER_RETURN_IF_ERROR(want_word("graph"));
    PIPER_RETURN_IF_ERROR(want("{"));
    while (!is("}")) PIPER_RETURN_IF_ERROR(entry());
    PIPER_RETURN_IF_ERROR(advance());
    if (token_.kind != TokenKind::kEnd) return lexer_.fail(token_, "text after the graph");
    return std::move(graph_);
  }

 private:
  // ---------------------------------------------------------------- words
  Status advance() {
    PIPER_ASSIGN(token_, lexer_.next());
    return {};
  }
  bool is(const char* punct) const { return token_.kind == TokenKind::kPunct && token_.text == punct; }
  bool is_word(const char* word) const { return token_.kind == TokenKind::kWord && token_.text == word; }
  Status want(const char* punct) {
    if (!is(punct)) return lexer_.fail(token_, std::string("expected '") + punct + "'");
    return advance();
  }
  Status want_word(const char* word) {
    if (!is_word(word)) return lexer_.fail(token_, std::string("expected '") + word + "'");
    return advance();
  }
  Result<std::string> string() {
    if (token_.kind != TokenKind::kString) return lexer_.fail(token_, "expected a string");
    std::string text = token_.text;
    PIPER_RETURN_IF_ERROR(advance());
    return text;
  }
  Result<int64_t> integer() {
    int64_t value = 0;
    const char *begin = token_.text.data(), *end = begin + token_.text.size();
    auto read = std::from_chars(begin, end, value);
    if (token_.kind != TokenKind::kWord || read.ec != std::errc() || read.ptr != end)
      return lexer_.fail(token_, "expected an integer");
    PIPER_RETURN_IF_ERROR(advance());
    return value;
  }
  Result<double> number() {
    char* end = nullptr;
    double value = std::strtod(token_.text.c_str(), &end);
    if (token_.kind != TokenKind::kWord || token_.text.empty() || *end) return lexer_.fail(token_, "expected a number");
    PIPER_RETURN_IF_ERROR(advance());
    return value;
  }
  Result<std::vector<int64_t>> integers() {
    std::vector<int64_t> list;
    PIPER_RETURN_IF_ERROR(want("["));
    while (!is("]")) {
      if (!list.empty()) PIPER_RETURN_IF_ERROR(want(","));
      PIPER_ASSIGN(int64_t value, integer());
      list.push_back(value);
    }
    PIPER_RETURN_IF_ERROR(advance());
    return list;
  }
  Result<DType> dtype() {
    std::optional<DType> type = dtype_from_name(token_.text);
    if (token_.kind != TokenKind::kWord || !type) return lexer_.fail(token_, "expected an element type");
    PIPER_RETURN_IF_ERROR(advance());
    return *type;
  }
  Result<TensorType> type() {
    Token at = token_;
    TensorType t;
    PIPER_ASSIGN(t.dtype, dtype());
    PIPER_ASSIGN(t.shape, integers());
    int64_t elements = 1;
    for (int64_t extent : t.shape) {
      if (extent < 0) return lexer_.fail(at, "negative extent");
      if (extent > kMostExtent || (extent > 0 && elements > kMostElements / extent))
        return lexer_.fail(at, "too many elements");
      elements *= std::max<int64_t>(extent, 1);
    }
    return t;
  }
  Result<ValueId> value() {
    if (is_word("none")) {
      PIPER_RETURN_IF_ERROR(advance());
      return ValueId();
    }
    if (token_.kind != TokenKind::kValue) return lexer_.fail(token_, "expected a value");
    auto found = values_.find(token_.text);
    if (found == values_.end()) return lexer_.fail(token_, "no value '" + token_.text + "' stands before this line");
    PIPER_RETURN_IF_ERROR(advance());
    return found->second;
  }

  // ---------------------------------------------------------------- entries
  Status entry() {
    if (token_.kind == TokenKind::kValue) return definition();
    if (is_word("prov")) return provenance();
    if (is_word("output")) {
      PIPER_RETURN_IF_ERROR(advance());
      Graph::Output output;
      PIPER_ASSIGN(output.name, string());
      PIPER_RETURN_IF_ERROR(want("="));
      PIPER_ASSIGN(output.value, value());
      graph_.outputs.push_back(std::move(output));
      return {};
    }
    if (is_word("dropped")) {
      PIPER_RETURN_IF_ERROR(advance());
      PIPER_ASSIGN(const ValueId number, value());
      graph_.dropped.push_back(number);
      return {};
    }
    if (is_word("loss_term")) {
      PIPER_RETURN_IF_ERROR(advance());
      PIPER_ASSIGN(const ValueId term, value());
      graph_.loss_terms.push_back(term);
      return {};
    }
    if (is_word("loss")) {
      PIPER_RETURN_IF_ERROR(advance());
      PIPER_ASSIGN(graph_.loss, value());
      return {};
    }
    if (token_.kind != TokenKind::kWord) return lexer_.fail(token_, "expected a value, an operator or '}'");
    return op({});
  }

  Status provenance() {
    PIPER_RETURN_IF_ERROR(advance());
    Token at = token_;
    PIPER_ASSIGN(int64_t index, integer());
    if (index != static_cast<int64_t>(graph_.provenance().size()))
      return lexer_.fail(at, "provenance entries are numbered in order");
    Token kind = token_;
    PIPER_RETURN_IF_ERROR(advance());
    if (kind.text == "model") {
      ModelOrigin origin;
      PIPER_ASSIGN(origin.node, string());
      PIPER_ASSIGN(origin.scope, string());
      PIPER_ASSIGN(origin.source, string());
      graph_.provenance().model(std::move(origin));
    } else if (kind.text == "directive") {
      DirectiveOrigin origin;
      PIPER_ASSIGN(origin.directive, string());
      PIPER_ASSIGN(origin.place, string());
      graph_.provenance().directive(std::move(origin));
    } else if (kind.text == "derived") {
      PIPER_ASSIGN(std::string pass, string());
      PIPER_ASSIGN(std::vector<int64_t> indices, integers());
      std::vector<ProvId> parents;
      for (int64_t parent : indices) {
        if (parent < -1 || parent >= index) return lexer_.fail(at, "a parent must stand before");
        parents.push_back(parent < 0 ? ProvId() : ProvId(static_cast<size_t>(parent)));
      }
      graph_.provenance().derived(std::move(pass), std::move(parents));
    } else if (kind.text == "unknown") {
      PIPER_ASSIGN(std::string why, string());
      graph_.provenance().unknown(std::move(why));
    } else {
      return lexer_.fail(kind, "expected model, directive, derived or unknown");
    }
    if (graph_.provenance().size() != static_cast<size_t>(index) + 1) return lexer_.fail(at, "the entry stands twice");
    return {};
  }

  Status definition() {
    std::vector<Token> names;
    for (;;) {
      if (token_.kind != TokenKind::kValue) return lexer_.fail(token_, "expected a value");
      for (const Token& name : names)
        if (name.text == token_.text) return lexer_.fail(token_, "'" + token_.text + "' is defined twice");
      if (values_.count(token_.text)) return lexer_.fail(token_, "'" + token_.text + "' is defined twice");
      names.push_back(token_);
      PIPER_RETURN_IF_ERROR(advance());
      if (!is(",")) break;
      PIPER_RETURN_IF_ERROR(advance());
    }
    PIPER_RETURN_IF_ERROR(want("="));
    for (const char* leaf : {"input", "parameter", "buffer", "constant", "seed_step", "sample_offset"})
      if (is_word(leaf)) {
        if (names.size() != 1) return lexer_.fail(token_, "one name expected");
        PIPER_ASSIGN(ValueId v, this->leaf(names[0].text));
        define(names[0].text, v);
        return {};
      }
    return op(names);
  }

  // The text's own name stands, whatever a first free name would be.
  void define(const std::string& name, ValueId v) {
    graph_.value(v).name = name;
    values_.emplace(name, v);
  }

  Result<ValueId> leaf(const std::string& name) {
    std::string kind = token_.text;
    Token at = token_;
    PIPER_RETURN_IF_ERROR(advance());
    if (kind == "seed_step" || kind == "sample_offset") {
      size_t before = graph_.num_values();
      ValueId v = kind == "seed_step" ? graph_.seed_step() : graph_.sample_offset();
      if (graph_.num_values() == before) return lexer_.fail(at, kind + " stands twice");
      return v;
    }
    if (kind == "input") {
      PIPER_ASSIGN(std::string input, string());
      PIPER_RETURN_IF_ERROR(want(":"));
      PIPER_ASSIGN(TensorType t, type());
      bool batched = !is_word("static");
      if (!batched) PIPER_RETURN_IF_ERROR(advance());
      return graph_.add_input(std::move(input), std::move(t), batched);
    }
    std::vector<std::string> names;
    if (kind != "constant") {
      PIPER_RETURN_IF_ERROR(want("["));
      while (!is("]")) {
        if (!names.empty()) PIPER_RETURN_IF_ERROR(want(","));
        PIPER_ASSIGN(std::string one, string());
        if (one.empty()) return lexer_.fail(at, "an empty name");
        names.push_back(std::move(one));
      }
      if (names.empty()) return lexer_.fail(token_, "a name expected");
      PIPER_RETURN_IF_ERROR(advance());
    }
    PIPER_RETURN_IF_ERROR(want(":"));
    PIPER_ASSIGN(TensorType t, type());
    Parameter cut;
    if (kind == "parameter" && is_word("shards")) {
      PIPER_RETURN_IF_ERROR(advance());
      PIPER_ASSIGN(const int64_t shards, integer());
      PIPER_RETURN_IF_ERROR(want_word("by"));
      PIPER_ASSIGN(const int64_t shard, integer());
      if (shards < 2 || shards > kMostShards || shard < 0 || shard > kMostShards || t.shape.empty())
        return lexer_.fail(at, "at least two parts of a first axis expected");
      cut.shards = static_cast<int32_t>(shards);
      cut.shard = static_cast<int32_t>(shard);
    }
    PIPER_ASSIGN(WeightSource from, source(cut.whole(t)));
    if (kind == "constant") return graph_.add_constant(name, std::move(t), std::move(from));
    if (kind == "buffer") return graph_.add_buffer(std::move(names), std::move(t), std::move(from));
    bool frozen = is_word("frozen");
    if (frozen) PIPER_RETURN_IF_ERROR(advance());
    const ValueId v = graph_.add_parameter(std::move(names), std::move(t), !frozen, std::move(from));
    graph_.parameters().back().shards = cut.shards;
    graph_.parameters().back().shard = cut.shard;
    return v;
  }

  Result<WeightSource> source(const TensorType& t) {
    WeightSource s;
    if (is_word("file")) {
      PIPER_RETURN_IF_ERROR(advance());
      PIPER_ASSIGN(s.file, string());
      PIPER_RETURN_IF_ERROR(want_word("offset"));
      PIPER_ASSIGN(s.offset, integer());
      PIPER_RETURN_IF_ERROR(want_word("bytes"));
      PIPER_ASSIGN(s.bytes, integer());
    } else if (is_word("data")) {
      PIPER_RETURN_IF_ERROR(advance());
      PIPER_ASSIGN(std::vector<std::byte> bytes, data(t));
      s.bytes = static_cast<int64_t>(bytes.size());
      s.data = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
    }
    if (is_word("permutation")) {
      PIPER_RETURN_IF_ERROR(advance());
      PIPER_ASSIGN(s.permutation, integers());
    }
    return s;
  }

  Result<std::vector<std::byte>> data(const TensorType& t) {
    Token at = token_;
    std::vector<std::byte> bytes;
    if (token_.kind == TokenKind::kString) {
      PIPER_ASSIGN(std::string hex, string());
      auto digit = [](char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1; };
      if (hex.size() % 2) return lexer_.fail(at, "an odd number of hexadecimal digits");
      for (size_t i = 0; i < hex.size(); i += 2) {
        if (digit(hex[i]) < 0 || digit(hex[i + 1]) < 0) return lexer_.fail(at, "hexadecimal digits expected");
        bytes.push_back(static_cast<std::byte>(digit(hex[i]) * 16 + digit(hex[i + 1])));
      }
    } else {
      PIPER_RETURN_IF_ERROR(want("["));
      bool first = true;
      while (!is("]")) {
        if (!first) PIPER_RETURN_IF_ERROR(want(","));
        first = false;
        PIPER_RETURN_IF_ERROR(element(t.dtype, bytes));
      }
      PIPER_RETURN_IF_ERROR(advance());
    }
    if (static_cast<int64_t>(bytes.size()) != t.bytes())
      return lexer_.fail(
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
        float v = std::strtof(token_.text.c_str(), nullptr);
        PIPER_RETURN_IF_ERROR(number().status());
        put(v);
        return {};
      }
      case DType::kF64: {
        PIPER_ASSIGN(double v, number());
        put(v);
        return {};
      }
      case DType::kI64: {
        PIPER_ASSIGN(int64_t v, integer());
        put(v);
        return {};
      }
      case DType::kI32: {
        PIPER_ASSIGN(int64_t v, integer());
        put(static_cast<int32_t>(v));
        return {};
      }
      case DType::kBool:
        if (!is_word("true") && !is_word("false")) return lexer_.fail(token_, "expected true or false");
        put(static_cast<uint8_t>(is_word("true")));
        return advance();
      case DType::kBF16: return lexer_.fail(token_, "bf16 data are written as hexadecimal bytes");
    }
    return {};
  }

  // ---------------------------------------------------------------- ops
  struct AttrReader {
    Parser& parser;
    const std::string& key;
    bool found = false;
    Status status;

    template <class T>
    void take(const char* name, T& member, Result<T> (Parser::*read)()) {
      if (found || key != name) return;
      found = true;
      Result<T> result = (parser.*read)();
      if (result.ok()) member = std::move(result).value();
      else status = result.take_status();
    }
    void operator()(const char* name, int64_t& v) { take(name, v, &Parser::integer); }
    void operator()(const char* name, double& v) { take(name, v, &Parser::number); }
    void operator()(const char* name, bool& v) { take(name, v, &Parser::boolean); }
    void operator()(const char* name, std::string& v) { take(name, v, &Parser::string); }
    void operator()(const char* name, DType& v) { take(name, v, &Parser::dtype); }
    void operator()(const char* name, std::vector<int64_t>& v) { take(name, v, &Parser::integers); }
    void operator()(const char* name, ValueId& v) { take(name, v, &Parser::value); }
  };
  Result<bool> boolean() {
    if (!is_word("true") && !is_word("false")) return lexer_.fail(token_, "expected true or false");
    bool v = is_word("true");
    PIPER_RETURN_IF_ERROR(advance());
    return v;
  }

  Status attributes(Attrs& attrs) {
    PIPER_RETURN_IF_ERROR(want("{"));
    bool first = true;
    while (!is("}")) {
      if (!first) PIPER_RETURN_IF_ERROR(want(","));
      first = false;
      Token key = token_;
      PIPER_RETURN_IF_ERROR(advance());
      PIPER_RETURN_IF_ERROR(want("="));
      AttrReader reader{*this, key.text};
      std::visit([&](auto& a) { std::decay_t<decltype(a)>::fields(a, reader); }, attrs);
      PIPER_RETURN_IF_ERROR(std::move(reader.status));
      if (!reader.found) return lexer_.fail(key, "the operator has no attribute '" + key.text + "'");
    }
    return advance();
  }

  Status op(const std::vector<Token>& names) {
    Token at = token_;
    std::optional<OpKind> kind = op_from_name(token_.text);
    if (token_.kind != TokenKind::kWord || !kind) return lexer_.fail(token_, "no operator '" + token_.text + "'");
    PIPER_RETURN_IF_ERROR(advance());
    PIPER_RETURN_IF_ERROR(want("("));
    std::vector<ValueId> operands;
    while (!is(")")) {
      if (!operands.empty()) PIPER_RETURN_IF_ERROR(want(","));
      PIPER_ASSIGN(ValueId operand, value());
      operands.push_back(operand);
    }
    PIPER_RETURN_IF_ERROR(advance());
    Attrs attrs = default_attrs(*kind);
    if (is("{")) PIPER_RETURN_IF_ERROR(attributes(attrs));
    PIPER_ASSIGN(std::vector<TensorType> types, result_types(at, *kind, attrs, operands));
    if (types.size() != names.size())
      return lexer_.fail(at, std::to_string(names.size()) + " names for " + std::to_string(types.size()) + " results");
    OpId id = graph_.append(*kind, std::move(attrs), std::move(operands), std::move(types), ScopeId(), ProvId(),
                            names.empty() ? "" : names[0].text);
    for (size_t i = 0; i < names.size(); ++i) define(names[i].text, graph_.op(id).results[i]);
    return marks(graph_.op(id));
  }

  Result<std::vector<TensorType>> result_types(const Token& at, OpKind kind, const Attrs& attrs,
                                               const std::vector<ValueId>& operands) {
    std::vector<TensorType> types;
    if (is(":")) {
      do {
        PIPER_RETURN_IF_ERROR(advance());
        PIPER_ASSIGN(TensorType t, type());
        types.push_back(std::move(t));
      } while (is(","));
      return types;
    }
    std::vector<const TensorType*> operand_types;
    for (ValueId operand : operands) operand_types.push_back(operand.valid() ? &graph_.type(operand) : nullptr);
    Result<std::vector<TensorType>> inferred = infer_types(kind, attrs, operand_types);
    if (!inferred.ok()) return lexer_.fail(at, inferred.error().message);
    return inferred;
  }

  Status marks(Op& op) {
    for (;;) {
      if (is_word("phase")) {
        PIPER_RETURN_IF_ERROR(advance());
        if (is_word("count")) op.phase = Phase::kCount;
        else if (is_word("count_finish")) op.phase = Phase::kCountFinish;
        else if (is_word("backward")) op.phase = Phase::kBackward;
        else if (is_word("backward_weight")) op.phase = Phase::kBackwardWeight;
        else return lexer_.fail(token_, "expected count, count_finish, backward or backward_weight");
        PIPER_RETURN_IF_ERROR(advance());
      } else if (is_word("chunk")) {
        PIPER_RETURN_IF_ERROR(advance());
        Token at = token_;
        PIPER_ASSIGN(int64_t chunk, integer());
        if (chunk < 0 || chunk >= ChunkId::kNone) return lexer_.fail(at, "no chunk id");
        op.chunk = ChunkId(static_cast<size_t>(chunk));
      } else if (is_word("scope")) {
        PIPER_RETURN_IF_ERROR(advance());
        PIPER_ASSIGN(std::string scope, string());
        op.scope = graph_.intern_scope(scope);
      } else if (is_word("prov")) {
        PIPER_RETURN_IF_ERROR(advance());
        Token at = token_;
        PIPER_ASSIGN(int64_t prov, integer());
        if (prov < 0 || prov >= static_cast<int64_t>(graph_.provenance().size()))
          return lexer_.fail(at, "no such entry");
        op.prov = ProvId(static_cast<size_t>(prov));
      } else {
        return {};
      }
    }
  }

  Lexer lexer_;
  Token token_;
  Graph graph_;
  std::map<std::string, ValueId> values_;
};

}  // namespace

Result<Graph> parse_graph(std::string_view text, std::string_view file_name) { return Parser(text, file_name).run(); }

}  // namespace piper::ir
