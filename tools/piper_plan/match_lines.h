// Which line of one strategy is which of another: by its directive, the first `place` of the one with the first `place`
// of the other, whatever the files are called and wherever the lines are.
#pragma once

#include <string>
#include <vector>

#include "schemas/plan/plan.h"

namespace piper::tools {

class MatchedLines {
 public:
  MatchedLines(const plan::Bundle& a, const plan::Bundle& b);
  // What an instruction's provenance of a or b is called, the same where they match: "place at s.yaml:3:5", with both
  // places where they are two.
  const std::string& of_a(int32_t provenance) const { return name(names_[0], provenance); }
  const std::string& of_b(int32_t provenance) const { return name(names_[1], provenance); }
  // b's provenance, with a's keys and texts where they match.
  const std::vector<plan::ProvenanceEntry>& b_as_a() const { return b_as_a_; }

 private:
  static const std::string& name(const std::vector<std::string>& names, int32_t provenance);

  std::vector<std::string> names_[2];  // [provenance]
  std::vector<plan::ProvenanceEntry> b_as_a_;
};

}  // namespace piper::tools
