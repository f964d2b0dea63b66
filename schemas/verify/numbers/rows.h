// What a kernel does with the samples of its operands: a row for each kernel (rows.def), and for each form of
// row the argument why a value made of parts for each sample, or of sums over samples, is again one.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "schemas/plan/plan.h"
#include "schemas/verify/numbers/number.h"

namespace piper::verify {

enum class RowForm : uint8_t {
  kElementwise,       // any function of the elements at one place
  kLinear,            // ... with f(a + b) = f(a) + f(b) in the first operand
  kAdd,               // a sum or a difference of two operands
  kMultiply,          // linear in each of two operands
  kSumOverAxes,       // attrs dims, keepdim
  kAlongAxes,         // attrs dim or dims: any function of what is along these axes, at each place of the others
  kSelect,            // attr dim: what is along it in operand 0 at the places that operand 1 names
  kRowsByMatrix,      // the last axis of operand 0 by operand 1, each row by itself; operand 2 is added to each row
  kSumOfRowProducts,  // the sum over all rows of (row of operand 0) x (row of operand 1)
  kMatmul,            // products of matrices, one for each place of the axes in front
  kMatrices,          // any function of the matrices in the last two axes, one for each place of the axes in front
  kBySample,          // operands that are not shared have samples along axis 0; each is computed by itself
};
struct Row {
  Kernel kernel;
  RowForm form;
  uint32_t shared = 0, sums = 0;  // bits: operands without samples, results that are sums over them
};

struct RowResult {
  Over over = Over::kNothing;
  int32_t sample_axis = -1;  // of an output over kEach: which of its axes numbers the samples
  std::string why;           // of kUnknown
  // Of kUnknown: an operand without samples has numbers of its own for each of them, as a table that the model makes
  // for its batch. Sound where the piece is the step, whose samples are all there.
  bool numbers_for_each = false;
  // For kUnknown: the samples are read together. What is made of all samples of the step is a number of the step.
  bool mixes = false;
  // For kSum: the step's, so that it is a sum no more (sums.h).
  bool total = false;
};

// nullptr: the kernel has no row.
const Row* find_row(Kernel kernel);
// What each output of a call is; one entry for all where they are alike. Operands that are repeated for each sample
// lose their extent along that axis, which is the result's. `samples`: how many there are.
std::vector<RowResult> apply_row(const Row& row, const plan::KernelCall& call, const NumberTable& table,
                                 int64_t samples, std::vector<View>& operands);

}  // namespace piper::verify
