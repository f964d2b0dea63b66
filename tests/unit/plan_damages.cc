#include "tests/unit/plan_damages.h"

namespace piper::damages {

const std::vector<Damage>& all() {
  static const std::vector<Damage> table = [] {
    std::vector<Damage> joined;
    for (auto* const part : {of_matching, of_deadlock, of_bytes, of_programs, of_sums, of_meaning, of_updates,
                             of_precision, of_types, of_equality})
      for (auto& damage : part()) joined.push_back(std::move(damage));
    return joined;
  }();
  return table;
}

}  // namespace piper::damages
