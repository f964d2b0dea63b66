// Ways to change a bundle, one of which a mutant is made by. A changed bundle is refused, or trains to the same
// numbers: whatever kind of change has a counterexample is a hole in the proof.
//
// Changes are drawn blindly: many change nothing that matters, many say the same as before. Values of the training that
// a bundle was asked for (learning rate, limit of clipping, data, ...) are left alone: another value there is another
// training, not a damage.
#pragma once

#include <vector>

#include "tools/mutate/random.h"
#include "tools/mutate/subject.h"

namespace piper::mutate {

// A mutant in the making: kinds change either the bundle or the texts.
struct Draft {
  const Subject& subject;
  Random& random;
  plan::Bundle bundle;
  Texts texts;           // empty: those of `bundle`
  bool changed = false;  // by an earlier kind
};

struct Mutation {
  const char* name;
  bool (*apply)(Draft& draft);  // false: this bundle has nothing to change so
  // What the same numbers are: to the bit, or within the rounding of sums that are taken in another order.
  bool reorders_sums = false;
  bool of_texts = false;  // changes texts, and those of an earlier change, too; the others change the bundle
};

const std::vector<Mutation>& mutations();

// The parts of that list, one file each.
std::vector<Mutation> of_lines();
std::vector<Mutation> of_programs();
std::vector<Mutation> of_ranks();
std::vector<Mutation> of_several_files();

}  // namespace piper::mutate
