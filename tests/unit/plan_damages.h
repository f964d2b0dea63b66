// Ways to damage a correct bundle, each with the code that the verifier must refuse it with. One file for each group of
// rules of the proof: damage_*.cc.
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

std::vector<Damage> of_matching();
std::vector<Damage> of_deadlock();
std::vector<Damage> of_bytes();
std::vector<Damage> of_programs();
std::vector<Damage> of_sums();
std::vector<Damage> of_meaning();
std::vector<Damage> of_updates();
std::vector<Damage> of_precision();
std::vector<Damage> of_types();
std::vector<Damage> of_equality();

// An entry of such a list: a function of the name, and its codes.
#define PIPER_DAMAGE(function, ...) {#function, {__VA_ARGS__}, function}

}  // namespace piper::damages
