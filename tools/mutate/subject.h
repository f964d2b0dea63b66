// A bundle that is changed, or its evaluation: what it says, and a copy of it on disk in which the texts of a mutant
// take the place of its own for a while. Digests and sizes of the manifest follow the texts, so that a mutant is not
// refused by those alone.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "schemas/base/status.h"
#include "schemas/plan/plan.h"

namespace piper::mutate {

using Texts = std::map<std::string, std::string>;  // path in the bundle, or in its evaluation -> text

// Texts of the manifest, the programs and the ranks. Without provenance, references, weights and the evaluation.
Texts print_texts(const plan::Bundle& bundle);

enum class Changed : uint8_t { kTraining, kEvaluation };

class Subject {
 public:
  // Copies the bundle in `directory` to `copy`, which it owns from then on; weights are linked. The bundle is proved.
  // Without a code where its evaluation is asked for and there is none.
  static Result<Subject> open(const std::string& name, const std::string& directory, const std::string& copy,
                              Changed changed);

  const std::string& name() const { return name_; }
  const std::string& directory() const { return copy_; }  // of the copy
  Changed changed() const { return changed_; }
  const plan::Bundle& whole() const { return whole_; }
  // What is changed, with its texts.
  const plan::Bundle& bundle() const { return changed_ == Changed::kTraining ? whole_ : whole_.evaluation.front(); }
  const Texts& texts() const { return texts_; }

  // Writes the texts that differ from its own; what an earlier call has written is put back.
  Status place(const Texts& texts);

 private:
  std::string name_, copy_;
  Changed changed_ = Changed::kTraining;
  plan::Bundle whole_;
  Texts texts_;   // its own
  Texts placed_;  // that differ from them on disk
};

}  // namespace piper::mutate
