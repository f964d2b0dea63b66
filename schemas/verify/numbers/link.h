// The programs of a bundle as one computation: each evaluated once on numbers (program.h), its slots filled with
// what the programs that write a slot of that name left there. That a slot holds what its name says is rules 8 to 10.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "schemas/plan/plan.h"
#include "schemas/verify/exchanges.h"
#include "schemas/verify/numbers/number.h"
#include "schemas/verify/numbers/leaves.h"
#include "schemas/verify/numbers/program.h"

namespace piper::verify {

class LinkedPrograms {
 public:
  // `exchanges`: what values become between ranks.
  LinkedPrograms(const plan::Bundle& bundle, const Leaves& leaves, const Exchanges& exchanges, bool by_pieces,
                 NumberTable& table);
  // Evaluates all programs of chunks.
  void make();

  // [program], empty for those that are not of a chunk.
  const std::vector<NumberedProgram>& programs() const { return runs_; }
  const std::string& chunk(size_t program) const { return chunks_[program]; }

 private:
  // Programs on the way from a value to what it is made of, each of which is a frame of the stack.
  static constexpr int32_t kDeepest = 4000;

  void evaluate(int32_t program);
  void fill_from_makers(int32_t program, int32_t slot);
  bool is_changed_elsewhere(int32_t program, const plan::Slot& state) const;
  int32_t total_of_slot(const std::string& slot, int64_t bytes);
  // What all programs but `reader` that make a value of this name leave there; empty where that is not one thing.
  HeldValues left_by_all(const std::string& label, int32_t reader, int64_t bytes);
  HeldValues left_by(int32_t maker, const std::string& slot, int64_t samples, int64_t bytes);
  const plan::Slot* slot_of(int32_t maker, const std::string& label) const;  // that it writes

  const plan::Manifest& manifest_;
  const Leaves& leaves_;
  const Exchanges& exchanges_;
  NumberTable& table_;
  std::vector<NumberedProgram> runs_;                   // [program]
  std::vector<std::string> chunks_;                     // [program] "" where it is of none
  std::vector<uint8_t> state_;                          // [program] 0 to do, 1 under way, 2 done
  int32_t depth_ = 0;                                   // programs under way
  std::map<std::string, std::vector<int32_t>> makers_;  // by label: the programs that write such a slot
  std::vector<std::vector<std::string>> constants_;     // [program][slot] SHA-256 of what a constant slot holds
};

}  // namespace piper::verify
