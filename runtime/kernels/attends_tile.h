// The mask of attention where a predicate says it (schemas/forms/attends.h): made a block of queries at a time, so that
// nothing of queries x keys is ever there.
#pragma once

#include <vector>

#include "runtime/kernels/binding.h"
#include "schemas/forms/attends.h"
#include "schemas/forms/form_program.h"
#include "schemas/plan/kernel_scratch.h"

namespace piper::kernels {

class AttendsTile {
 public:
  static constexpr int64_t kQueries = plan::kAttendsQueries;  // of a block

  // `vectors` i64 [batch or 1, 1, vectors, places], or undefined where nothing is read.
  AttendsTile(const form::Attends& attends, at::Tensor vectors);

  // Elements that fill() writes at most.
  static int64_t elements(int64_t keys) { return kQueries * keys; }
  // Writes 0 where queries [first, last) of a sample attend and -inf where not, row by row over the keys that it
  // returns, which are those that any of them may attend to and one at least. T: float or double.
  template <class T>
  form::KeyRange fill(T* tile, int64_t sample, int64_t first, int64_t last) const;

 private:
  // 1 or 0 for each of `count` keys from `key` on, which are within the band: first on the stack.
  void row(int64_t sample, int64_t query, int64_t key, int64_t count, std::vector<int64_t>& stack) const;

  form::Band band_;
  std::vector<form::Step> steps_;     // of what it says beyond the band; empty: nothing
  std::vector<form::KeyRange> keys_;  // of each block
  at::Tensor vectors_;
};

}  // namespace piper::kernels
