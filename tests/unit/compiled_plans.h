// Bundles as piperc makes them, for tests that read, damage or compare plans: compiled in this process from
// the models in tests/models.
#pragma once

#include <string>

#include "schemas/plan/plan.h"

namespace piper::compiled {

// Throws with the diagnostics where it does not compile. `model`: a file name in tests/models.
plan::Bundle bundle(const std::string& model, const std::string& strategy);
// What `piperc --verbose` says of it.
std::string remarks(const std::string& model, const std::string& strategy);

}  // namespace piper::compiled
