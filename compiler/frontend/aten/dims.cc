#include "compiler/frontend/aten/dims.h"

#include <algorithm>
#include <cctype>
#include <vector>

namespace piper::frontend::aten {
int64_t floor_div(int64_t a, int64_t b) {
  if (b == -1) return a == INT64_MIN ? INT64_MAX : -a;
  const int64_t q = a / b;
  return (a % b != 0 && (a < 0) != (b < 0)) ? q - 1 : q;
}

namespace {

// expression := term (('+' | '-') term)*; term := unary (('*' | '//' | '/' | '%') unary)*;
// unary := '-' unary | power; power := primary ('**' unary)?
class ExtentParser {
 public:
  ExtentParser(std::string_view text, const std::map<std::string, int64_t>& values) : text_(text), values_(values) {}

  Result<int64_t> whole() {
    PIPER_ASSIGN(int64_t v, sum());
    if (skip(); pos_ != text_.size()) return malformed();
    return v;
  }

 private:
  void skip() {
    while (pos_ < text_.size() && text_[pos_] == ' ') ++pos_;
  }
  bool take(std::string_view what) {
    skip();
    if (text_.substr(pos_, what.size()) != what) return false;
    pos_ += what.size();
    return true;
  }
  Status malformed() const { return Status::failure("P0302", "cannot read the extent '" + std::string(text_) + "'"); }
  Result<int64_t> sum() {
    if (++depth_ > kMaxDepth) return malformed();
    PIPER_ASSIGN(int64_t v, term());
    for (;;) {
      if (take("+")) {
        PIPER_ASSIGN(const int64_t w, term());
        if (__builtin_add_overflow(v, w, &v)) return malformed();
      } else if (take("-")) {
        PIPER_ASSIGN(const int64_t w, term());
        if (__builtin_sub_overflow(v, w, &v)) return malformed();
      } else {
        --depth_;
        return v;
      }
    }
  }
  Result<int64_t> term() {
    PIPER_ASSIGN(int64_t v, unary());
    for (;;) {
      if (take("//") || take("/")) {
        PIPER_ASSIGN(const int64_t w, unary());
        if (w == 0) return malformed();
        v = floor_div(v, w);
      } else if (take("*")) {
        PIPER_ASSIGN(const int64_t w, unary());
        if (__builtin_mul_overflow(v, w, &v)) return malformed();
      } else if (take("%")) {
        PIPER_ASSIGN(const int64_t w, unary());
        if (w == 0) return malformed();
        v -= floor_div(v, w) * w;
      } else {
        return v;
      }
    }
  }
  Result<int64_t> unary() {
    if (++depth_ > kMaxDepth) return malformed();
    if (take("-")) {
      PIPER_ASSIGN(int64_t v, unary());
      --depth_;
      if (__builtin_sub_overflow(int64_t{0}, v, &v)) return malformed();
      return v;
    }
    PIPER_ASSIGN(const int64_t base, primary());
    int64_t v = base;
    if (take("**")) {
      PIPER_ASSIGN(const int64_t exponent, unary());
      if (exponent < 0 || exponent > 62) return malformed();
      v = 1;
      for (int64_t i = 0; i < exponent; ++i)
        if (__builtin_mul_overflow(v, base, &v)) return malformed();
    }
    --depth_;
    return v;
  }
  Result<int64_t> primary() {
    skip();
    if (take("(")) {
      PIPER_ASSIGN(const int64_t v, sum());
      if (!take(")")) return malformed();
      return v;
    }
    const size_t start = pos_;
    while (pos_ < text_.size() &&
           (std::isalnum(static_cast<unsigned char>(text_[pos_])) != 0 || text_[pos_] == '_' || text_[pos_] == '.'))
      ++pos_;
    const std::string word(text_.substr(start, pos_ - start));
    if (word.empty()) return malformed();
    if (word.find_first_not_of("0123456789") == std::string::npos) {
      if (word.size() > 18) return malformed();
      return static_cast<int64_t>(std::stoll(word));
    }
    if (take("(")) return function(word);
    const auto found = values_.find(word);
    if (found == values_.end())
      return Status::failure("P0302", "the dimension '" + word + "' has no value: set it in model.dims");
    return found->second;
  }
  Result<int64_t> function(const std::string& name) {
    std::vector<int64_t> args;
    while (!take(")")) {
      PIPER_ASSIGN(const int64_t v, sum());
      args.push_back(v);
      if (!take(",") && (skip(), pos_ >= text_.size() || text_[pos_] != ')')) return malformed();
    }
    if (args.empty()) return malformed();
    if (name == "Max" || name == "max") return *std::max_element(args.begin(), args.end());
    if (name == "Min" || name == "min") return *std::min_element(args.begin(), args.end());
    if (args.size() == 1 && (name == "floor" || name == "ceiling" || name == "IntTrueDiv")) return args[0];
    if (args.size() == 2 && args[1] != 0) {
      if (name == "FloorDiv" || name == "CleanDiv" || name == "IntTrueDiv") return floor_div(args[0], args[1]);
      if (name == "CeilDiv") return -floor_div(-args[0], args[1]);
      if (name == "Mod" || name == "PythonMod") return args[0] - floor_div(args[0], args[1]) * args[1];
    }
    return malformed();
  }

  static constexpr int kMaxDepth = 64;
  std::string_view text_;
  const std::map<std::string, int64_t>& values_;
  size_t pos_ = 0;
  int depth_ = 0;
};

}  // namespace

Result<int64_t> Dims::evaluate(std::string_view expression) const { return ExtentParser(expression, values_).whole(); }

}  // namespace piper::frontend::aten
