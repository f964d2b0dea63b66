// What the file of --save-best says of itself, in its metadata: the loss, the step, and which evaluation it was. So a
// run that continues from a checkpoint knows what a better loss is.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "runtime/exec/session/session.h"

namespace piper::exec {

// "eval_loss", "step" and "evaluation": a digest of the model, and of the samples that are evaluated. Losses of two
// evaluations with the same one can be compared.
std::map<std::string, std::string> best_metadata(const Session& session, double loss, int64_t step);

// The loss in the file; infinity where the run begins, and where the file says nothing that can be compared. `note`:
// for the user, what becomes of a file that is there; "": there is none.
double read_best(const Session& session, std::string& note);

// As text that reads back exactly; not a number where the text is none.
std::string loss_text(double loss);
double parse_loss(const std::string& text);

}  // namespace piper::exec
