#include "schemas/verify/rules.h"

#include <iterator>

namespace piper::verify {
namespace {

struct RuleInfo {
  int number = 0;
  const char *code = "", *title = "";
};
constexpr RuleInfo kRules[] = {
#define PIPER_RULE(number, name, code, title) {number, code, title},
#include "schemas/verify/rules.def"
#undef PIPER_RULE
};
constexpr bool in_order() {
  for (size_t i = 0; i < std::size(kRules); ++i)
    if (kRules[i].number != static_cast<int>(i) + 1) return false;
  return true;
}
static_assert(in_order(), "rules are numbered from 1 on");

const RuleInfo& info(Rule rule) { return kRules[static_cast<size_t>(rule) - 1]; }

}  // namespace

Status violates(Rule rule, const std::string& what) {
  return Status::failure(info(rule).code, "rule " + std::to_string(info(rule).number) + ": " + what);
}

std::string rules_text(std::initializer_list<Rule> rules) {
  std::string numbers = rules.size() == 1 ? "rule " : "rules ", titles;
  for (const Rule& rule : rules) {
    const char* const comma = &rule == rules.begin() ? "" : ", ";
    numbers += comma + std::to_string(info(rule).number);
    titles += std::string(comma) + info(rule).title;
  }
  return numbers + ": " + titles;
}

}  // namespace piper::verify
