// What becomes of a mutant: the reader or the proof refuses it, or piper-run trains it, and then its losses and final
// weights are held against those of the unchanged bundle.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "schemas/base/status.h"
#include "tools/mutate/mutation.h"
#include "tools/mutate/trainer.h"

namespace piper::mutate {

enum class Verdict : uint8_t {
  kSame,      // prints to the same texts: there was nothing to judge
  kRefused,   // by the reader or the proof
  kAtLoad,    // by piper-run, when it bound the kernels
  kHarmless,  // trains to the same numbers
  kWrong,     // accepted, other numbers, or it never ends, or it crashes
};
inline constexpr int kNumVerdicts = 5;
const char* verdict_name(Verdict verdict);

struct Judgement {
  Verdict verdict = Verdict::kSame;
  std::string why;  // the refusal, or what differs
};

// What a run of a few steps leaves behind.
struct Numbers {
  std::vector<double> losses, grad_norms, evaluated;
  std::map<std::string, std::string> weights;  // by name: shape, type and bytes
  std::map<std::string, std::vector<float>> values;
};

class Judge {
 public:
  struct Options {
    int steps = 3, timeout_s = 60;
    int turns = 1;  // how often an accepted mutant trains: a race may be lost another time
  };
  // Trains the unchanged bundle. Writes beside the subject's copy. `trainer` must outlive the result.
  static Result<Judge> make(const Subject& subject, const Trainer& trainer, const Options& options);

  // A mutant that was judged before is not judged again: of many thousand small changes to one bundle most are not the
  // first of their kind.
  Result<Judgement> judge(Subject& subject, const Draft& draft, bool reorders_sums);

 private:
  enum class End : uint8_t { kDone, kRefused, kFailed };
  struct Ran {
    End end = End::kDone;
    std::string said;
    Numbers numbers;
  };
  Result<Judgement> judge_texts(Subject& subject, const Texts& texts, bool reorders_sums) const;
  Result<Ran> run(const Subject& subject) const;

  const Trainer* trainer_ = nullptr;
  Options options_;
  std::string beside_;  // prefix of the files that runs read and write
  Numbers expected_;
  // The verdict on the subject, as the proof gives it: of sums in another order the numbers are the same up to
  // rounding.
  std::string sum_order_;
  std::unordered_map<std::string, Judgement> known_;  // by the digest of what is changed
};

}  // namespace piper::mutate
