// Bundles as piperc makes them, for tests that read, damage or compare plans: compiled in this process from
// the models in tests/models. And what the proof says of one that was changed.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "schemas/plan/plan.h"

namespace piper::compiled {

// Throws with the diagnostics where it does not compile. `model`: a file name in tests/models.
plan::Bundle bundle(const std::string& model, const std::string& strategy);
// The bundles of tests/mutation/compositions by their names, each of the model that the file's first line names.
// Compiled once.
const std::map<std::string, plan::Bundle>& compositions();
// Four replicas of two places, clipped: the first replica alone measures the norm, so that the others do the same work
// on both places of the cut, and meet different ranks.
plan::Bundle clipped_replicas_of_places();
// What `piperc --verbose` says of it.
std::string remarks(const std::string& model, const std::string& strategy);

// The verdict on the plan of this strategy after the change: "accepted: " and what is proved, or the error code.
std::string verdict(const std::string& model, const std::string& strategy,
                    const std::function<void(plan::Bundle&)>& change);
// Changes every call of a kernel. Throws where there is none.
void in_each(plan::Bundle& bundle, const std::string& kernel, const std::function<void(plan::KernelCall&)>& change);

}  // namespace piper::compiled
