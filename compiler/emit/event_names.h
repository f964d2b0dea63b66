// The names of a rank's events, made from the instruction that an event follows.
#pragma once

#include <string>
#include <unordered_map>

#include "schemas/plan/plan.h"

namespace piper::emit {

// Names events of one rank; the second and later of a name get " #2", " #3".
class EventNames {
 public:
  explicit EventNames(const plan::RankPlan& plan) : plan_(plan) {}
  // For the event recorded after `action`, which is no Record and no Wait.
  std::string name(const plan::Action& action);

 private:
  const plan::RankPlan& plan_;
  std::unordered_map<std::string, int> used_;
};

}  // namespace piper::emit
