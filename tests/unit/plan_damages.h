// Ways to damage a correct bundle, each with the code that the verifier must refuse it with.
#pragma once

#include <string>
#include <vector>

#include "schemas/plan/plan.h"

namespace piper::damages {

struct Damage {
  std::string name;
  std::vector<std::string> codes;       // one of these
  bool (*apply)(plan::Bundle& bundle);  // false: the bundle has nothing to damage so
};
const std::vector<Damage>& all();

}  // namespace piper::damages
