// The rules of the proof as data (rules.def), and what a plan that violates one is refused with.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>

#include "schemas/base/status.h"

namespace piper::verify {

enum class Rule : uint8_t {
#define PIPER_RULE(number, name, code, title) name = number,
#include "schemas/verify/rules.def"
#undef PIPER_RULE
};

// "rule 8: " and what is wrong, with the rule's code.
Status violates(Rule rule, const std::string& what);

// "rules 5, 6: no data race, contents".
std::string rules_text(std::initializer_list<Rule> rules);

}  // namespace piper::verify
