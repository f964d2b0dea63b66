// The adapter to yaml-cpp: its events become a Value tree. Events and not its node tree: marks of
// block collections, quoting and duplicate keys are all there, and it is several times faster.
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <map>
#include <sstream>
#include <unordered_map>

#include "compiler/strategy/unclosed.h"
#include "compiler/strategy/value.h"

namespace piper::strategy {
namespace {

constexpr size_t kMaxDepth = 64;
constexpr size_t kMaxValues = 1000000;

// Leaves the parser from inside an event; the diagnostic is already reported.
struct Abandon {};

class TreeBuilder : public YAML::EventHandler {
 public:
  TreeBuilder(uint32_t file, uint32_t column_shift, diag::Diagnostics& diags)
      : file_(file), column_shift_(column_shift), diags_(diags) {}

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    Value value;
    value.span = span(mark, 1);
    // An empty value carries the mark of the next token: the key is the better place.
    if (!open_.empty() && open_.back().has_key) value.span = open_.back().value.keys.back().span;
    add(std::move(value), anchor);
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto found = anchors_.find(anchor);
    if (found == anchors_.end()) {
      diags_.error("P0105", span(mark, 1)) << "an alias inside its own anchor";
      throw Abandon{};
    }
    Value copy = found->second;
    num_values_ += count(copy);
    add(std::move(copy), YAML::NullAnchor);
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& text) override {
    check_tag(mark, tag);
    Value value;
    value.quoted = tag == "!";
    value.text = text;
    const bool one_line = text.find('\n') == std::string::npos;
    value.span = span(mark, one_line ? static_cast<uint32_t>(text.size() + (value.quoted ? 2 : 0)) : 1);
    resolve_scalar(value);
    add(std::move(value), anchor);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, Value::Kind::kList);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, Value::Kind::kMap);
  }
  void OnMapEnd() override { close(); }

  bool done = false;
  bool duplicate = false;
  Value root;

 private:
  struct Open {
    Value value;
    YAML::anchor_t anchor = YAML::NullAnchor;
    bool has_key = false;  // a map whose last key waits for its value
    std::unordered_map<std::string, size_t> seen;
  };

  diag::Span span(const YAML::Mark& mark, uint32_t length) const {
    const uint32_t line = mark.line < 0 ? 1 : static_cast<uint32_t>(mark.line) + 1;
    uint32_t column = mark.column < 0 ? 1 : static_cast<uint32_t>(mark.column) + 1;
    if (line == 1) column += column_shift_;
    return {file_, line, column, length == 0 ? 1 : length};
  }
  void check_tag(const YAML::Mark& mark, const std::string& tag) {
    if (tag.empty() || tag == "?" || tag == "!") return;
    diags_.error("P0105", span(mark, 1)).help("write the value without the tag") << "a YAML tag (" << tag << ")";
    throw Abandon{};
  }
  static size_t count(const Value& value) {
    size_t n = 1;
    for (const Value& item : value.items) n += count(item);
    return n;
  }
  void open(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, Value::Kind kind) {
    check_tag(mark, tag);
    if (open_.size() >= kMaxDepth) {
      diags_.error("P0105", span(mark, 1)) << "nested deeper than " << kMaxDepth << " levels";
      throw Abandon{};
    }
    Open level;
    level.value.kind = kind;
    level.value.span = span(mark, 1);
    level.anchor = anchor;
    open_.push_back(std::move(level));
  }
  void close() {
    Open level = std::move(open_.back());
    open_.pop_back();
    add(std::move(level.value), level.anchor);
  }
  void add_key(Open& level, Value value) {
    if (value.kind == Value::Kind::kList || value.kind == Value::Kind::kMap) {
      diags_.error("P0202", value.span) << "a key must be a word, not " << describe(value);
      throw Abandon{};
    }
    const auto [first, is_new] = level.seen.emplace(value.text, level.value.keys.size());
    if (!is_new) {
      duplicate = true;
      diags_.error("P0104", value.span)
              .note("the first '" + value.text + "' is here", level.value.keys[first->second].span)
              .help("delete one of the two")
          << "the key '" << value.text << "' appears twice";
    }
    level.value.keys.push_back({std::move(value.text), value.span});
    level.has_key = true;
  }
  void add(Value value, YAML::anchor_t anchor) {
    if (++num_values_ > kMaxValues) {
      diags_.error("P0105", value.span) << "more than " << kMaxValues << " values";
      throw Abandon{};
    }
    if (anchor != YAML::NullAnchor) {
      num_values_ += count(value);  // the kept copy counts: anchors within anchors grow
      anchors_[anchor] = value;
    }
    if (open_.empty()) {
      root = std::move(value);
      done = true;
      return;
    }
    Open& level = open_.back();
    if (level.value.kind == Value::Kind::kMap && !level.has_key) {
      add_key(level, std::move(value));
      return;
    }
    level.has_key = false;
    level.value.items.push_back(std::move(value));
  }

  uint32_t file_;
  uint32_t column_shift_;
  diag::Diagnostics& diags_;
  std::vector<Open> open_;
  std::map<YAML::anchor_t, Value> anchors_;
  size_t num_values_ = 0;
};

}  // namespace

Result<Value> read_yaml(uint32_t file, const std::string& text, uint32_t column_shift, diag::Diagnostics& diags) {
  TreeBuilder builder(file, column_shift, diags);
  try {
    std::istringstream stream(text);
    YAML::Parser parser(stream);
    parser.HandleNextDocument(builder);
    if (!builder.done) return diags.error("P0102", {file, 1, 1, 1}) << "the file is empty";
    Value root = std::move(builder.root);
    builder.done = false;
    if (parser.HandleNextDocument(builder) && builder.done) {
      return diags.error("P0102", builder.root.span).help("keep one of the documents")
             << "a second YAML document; a strategy must be one document";
    }
    if (builder.duplicate) return Status::reported("P0104");
    return root;
  } catch (const Abandon&) {
    return Status::reported("P0105");
  } catch (const YAML::Exception& e) {
    diag::Span at{file, 1, 1, 1};
    if (e.mark.line >= 0) at.line = static_cast<uint32_t>(e.mark.line) + 1;
    if (e.mark.column >= 0) at.column = static_cast<uint32_t>(e.mark.column) + 1 + (at.line == 1 ? column_shift : 0);
    if (auto unclosed = find_unclosed(file, text)) {
      if (unclosed->span.line == 1) unclosed->span.column += column_shift;
      auto error = diags.error("P0102", unclosed->span);
      error << "not valid YAML or JSON: this '" << unclosed->bracket << "' is not closed";
      error.help(std::string("write '") + (unclosed->bracket == '{' ? '}' : ']') + "' where its value ends");
      return error;
    }
    auto error = diags.error("P0102", at);
    error << "not valid YAML or JSON: " << e.msg;
    if (e.msg.find("alias") != std::string::npos) error.help("a value that is or begins with * needs quotes: \"*\"");
    return error;
  } catch (const std::exception& e) {
    return diags.error("P0102", {file, 1, 1, 1}) << "not valid YAML or JSON: " << e.what();
  }
}

}  // namespace piper::strategy
