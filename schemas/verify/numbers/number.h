// Numbers of values: two values have the same number where the same kernels made them of the same operands, whatever
// program, slot or rank they are in. Used by the rule about equality with the model (equality.h).
//
// A number says of a value how it belongs to the samples that a program works on. Beside the number travel those
// samples; they are no part of it, so that the programs of all microbatches, replicas and sizes of pieces make the
// same numbers, and those of the reference.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "schemas/plan/plan.h"

namespace piper::verify {

enum class Over : uint8_t {
  kNothing,  // the same for all samples: parameters, constants
  kEach,     // one part for each sample, which depends on that sample alone
  kSum,      // a sum over the samples: of two pieces together it is the sum of both
  kPiece,    // made of all samples of a piece together, in whatever way (pieces.h)
  kUnknown,  // nothing is said of it; Number::why
};

// An axis of a view. One that numbers the samples has `samples`; its extent is then how many rows each sample has, and
// its stride that of these rows.
struct ViewAxis {
  int64_t extent = 1, stride = 0;  // elements
  bool samples = false;
  friend bool operator==(const ViewAxis&, const ViewAxis&) = default;
};
// Which elements of a value an operand names, in which order. Elements of a value are counted in the order of the
// memory that its maker wrote; of a value over kEach within one sample.
struct View {
  int32_t number = -1;
  DType dtype = DType::kF32;
  int64_t offset = 0;
  std::vector<ViewAxis> axes;
  friend bool operator==(const View&, const View&) = default;
};

inline constexpr int32_t kReferenceProgram = -2;

using plan::Kernel;

// What made a value: nothing of what follows (a leaf), a kernel, or a rule on numbers.
struct Maker {
  enum class How : uint8_t {
    kLeaf,
    kCall,            // what a kernel makes, its elements in the order of its operands
    kInAnotherOrder,  // ... in another order
    kInPlace,         // what a kernel leaves of an operand that it changes in place
    kPartsOfSamples,  // constants_of_samples.h
    kShare,           // shares.h
  };
  How how = How::kLeaf;
  Kernel kernel{};  // of those that name one

  Maker() = default;
  Maker(Kernel kernel) : how(How::kCall), kernel(kernel) {}
  Maker(How how, Kernel kernel = {}) : how(how), kernel(kernel) {}
  friend bool operator==(const Maker&, const Maker&) = default;
};

struct Number {
  Over over = Over::kNothing;
  int64_t bytes = 0;           // dense; over kEach of one sample
  std::string why;             // kUnknown: what is not covered, or, of one that is
  bool unfit = false;          // ... unfit, what no sound call does
  bool constant = false;       // a constant of the model, or made of such alone
  bool divided = false;        // a quotient, written as a product with a reciprocal (constants.h)
  bool folded = false;         // ... of which a call made it: folded into a value (constants.h)
  bool total = false;          // what a step has added up (sums.h), other than a count of a loss
  int32_t sum = -1;            // of what a step has added up: the sum over samples that this is of, where it is one
  bool late = false;           // a parameter is in it, or a statistic, or what a step draws
  std::optional<float> value;  // of a constant of one element, where it is known (constants.h)
  int32_t program = -1;        // of the call that made it first; -1: none, kReferenceProgram
  int32_t call = -1;           // index into the program's calls
  std::vector<View> operands;  // of that call
  Maker by;
  double times = 1;              // of a share (shares.h): by which factor
  std::vector<int32_t> addends;  // of a sum of several values: these, sorted (linear.h); none of them is such a sum
};

class NumberTable {
 public:
  // What a step begins with: `key` tells leaves apart.
  int32_t leaf(const std::string& key, Over over, int64_t bytes);
  int32_t find_leaf(const std::string& key) const;  // -1: there is none
  // A call makes this constant of others.
  void fold(int32_t constant) { numbers_[static_cast<size_t>(constant)].folded = true; }
  // `sum`, `marked`: Number::sum and total.
  int32_t total(const std::string& key, int64_t bytes, int32_t sum, bool marked);
  int32_t constant(const std::string& key, int64_t bytes, std::optional<float> value = std::nullopt);
  // The value of a constant of this key and so many bytes, should there be one.
  void learn(const std::string& key, int64_t bytes, float value) { learnt_[key] = {bytes, value}; }
  int32_t unknown(const std::string& why);
  // The same, where the call itself is at fault, and no missing row or rule.
  int32_t unfit(const std::string& why, int32_t program, int32_t call);
  // What a call makes. `what`: everything that tells it apart but its operands.
  struct Made {
    Maker by;
    std::string what;
    std::vector<View> operands;
    std::vector<int32_t> addends;  // where there are any, they alone tell it apart
    Over over = Over::kNothing;
    int64_t bytes = 0;
    int32_t program = -1, call = -1;
    bool divided = false;
    double times = 1;
  };
  int32_t result(Made made);
  // The copies that have been made of a value.
  const std::vector<int32_t>& copies_of(int32_t number) const;
  const Number& operator[](int32_t id) const { return numbers_[static_cast<size_t>(id)]; }
  int32_t size() const { return static_cast<int32_t>(numbers_.size()); }

 private:
  int32_t intern(std::string key, Number number);

  std::vector<Number> numbers_;
  std::unordered_map<std::string, int32_t> ids_;
  std::unordered_map<int32_t, std::vector<int32_t>> copies_;           // by what was copied
  std::unordered_map<std::string, std::pair<int64_t, float>> learnt_;  // of constants, by key: bytes and value
};

// A view as the key of a table.
void append_key(std::string& key, const View& view);
// All elements of a value in their order. Views of values over kEach name all samples.
bool is_whole(const View& view, const NumberTable& table);

}  // namespace piper::verify
