#include "compiler/frontend/pt2/sym_expr.h"

#include <vector>

namespace piper::frontend::pt2 {
namespace {

constexpr int kMostNesting = 64;

class SreprParser {
 public:
  SreprParser(std::string_view text, const std::map<std::string, std::string>& names) : text_(text), names_(names) {}

  std::string whole() {
    std::string out = expression();
    // A sum of fractions is whole as a sum only; rounding each of them would be wrong.
    return failed_ || pos_ != text_.size() || (has_fraction_ && has_sum_) ? "" : out;
  }

 private:
  std::string fail() {
    failed_ = true;
    return "";
  }
  bool take(char c) {
    while (pos_ < text_.size() && text_[pos_] == ' ') ++pos_;
    if (pos_ >= text_.size() || text_[pos_] != c) return false;
    ++pos_;
    return true;
  }
  std::string word() {
    while (pos_ < text_.size() && text_[pos_] == ' ') ++pos_;
    const size_t start = pos_;
    while (pos_ < text_.size() && std::string_view("(), =").find(text_[pos_]) == std::string_view::npos) ++pos_;
    return std::string(text_.substr(start, pos_ - start));
  }

  // The function's name without its package, and its arguments; assumptions such as positive=True are dropped.
  std::string expression() {
    if (failed_ || ++depth_ > kMostNesting) return fail();
    std::string name = word();
    if (!take('(')) {
      --depth_;
      return name.empty() ? fail() : name;
    }
    name = name.substr(name.rfind('.') + 1);
    std::vector<std::string> args;
    while (!take(')')) {
      std::string arg = expression();
      if (failed_) return "";
      if (take('=')) (void)word();
      else args.push_back(std::move(arg));
      if (!take(',') && (pos_ >= text_.size() || text_[pos_] != ')')) return fail();
    }
    --depth_;
    return made(name, args);
  }

  std::string made(const std::string& name, const std::vector<std::string>& args) {
    const auto joined = [&](const char* sign) {
      std::string out = "(";
      for (size_t i = 0; i < args.size(); ++i) out += (i > 0 ? sign : "") + args[i];
      return out + ")";
    };
    if (args.empty()) return fail();
    if (name == "Symbol" && args[0].size() > 2 && (args[0][0] == '\'' || args[0][0] == '"')) {
      const std::string symbol = args[0].substr(1, args[0].size() - 2);
      const auto known = names_.find(symbol);
      return known == names_.end() ? symbol : known->second;
    }
    if (name == "Integer" && args.size() == 1) return args[0][0] == '-' ? "(" + args[0] + ")" : args[0];
    if (name == "Add") {
      has_sum_ = true;
      return joined(" + ");
    }
    if (name == "Mul") return product(args);
    if (args.size() == 2) {
      if (name == "Rational") {
        has_fraction_ = true;
        return args[0] + "//" + args[1];
      }
      if (name == "Pow") return joined("**");
      if (name == "FloorDiv" || name == "CleanDiv") return joined("//");
      if (name == "CeilDiv") return "(-((-" + args[0] + ")//" + args[1] + "))";
      if (name == "Mod" || name == "PythonMod") return "Mod(" + args[0] + ", " + args[1] + ")";
    }
    if (name == "Max" || name == "Min") {
      std::string out = args[0];
      for (size_t i = 1; i < args.size(); ++i) out = name + "(" + out + ", " + args[i] + ")";
      return out;
    }
    return fail();
  }

  // A rational factor divides last, so that nothing is rounded on the way.
  static std::string product(const std::vector<std::string>& args) {
    std::string whole, divided;
    for (const std::string& a : args) {
      const size_t slash = a.find("//");
      if (a[0] != '(' && slash != std::string::npos) {
        divided += "//" + a.substr(slash + 2);
        whole += (whole.empty() ? "" : "*") + a.substr(0, slash);
      } else {
        whole += (whole.empty() ? "" : "*") + a;
      }
    }
    return "((" + whole + ")" + divided + ")";
  }

  std::string_view text_;
  const std::map<std::string, std::string>& names_;
  size_t pos_ = 0;
  int depth_ = 0;
  bool failed_ = false, has_fraction_ = false, has_sum_ = false;
};

}  // namespace

std::string extent_expression(std::string_view srepr, const std::map<std::string, std::string>& names) {
  return SreprParser(srepr, names).whole();
}

}  // namespace piper::frontend::pt2
