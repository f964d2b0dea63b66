// Harness of the kernel tests: runs one kernel on tensors in every form a plan may use (f32, f64, bf16 and f16, dense
// and strided operands, accumulating, in place) and compares with a reference computed in f64. Records
// what it saw (kernels run, types refused, allocations in steady state) for the tests over the whole table.
#pragma once

#include <ATen/ATen.h>
// LibTorch defines a CHECK of its own; the tests mean Catch2's.
#undef CHECK
#include <catch2/catch.hpp>

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "runtime/kernels/kernel.h"

namespace piper::kernels::testing {

using plan::Attr;
using Ints = std::vector<int64_t>;
using Tensors = std::vector<at::Tensor>;

// One thread, and the same random numbers for every test case of a file.
template <uint64_t seed>
struct Seeded {
  Seeded() {
    initialise_process();
    enter_worker_thread(1);
    at::manual_seed(seed);
  }
};
inline at::Tensor normal(at::IntArrayRef shape) { return at::randn(shape); }
inline at::Tensor integers(int64_t high, at::IntArrayRef shape) { return at::randint(high, shape, at::kLong); }
inline at::Tensor list(const Ints& values) { return at::tensor(values, at::kLong); }

// What the cases run on: the CPU's kernels, unless a program chooses others before its first case.
class Subject {
 public:
  virtual ~Subject() = default;
  virtual const Library& library() = 0;
  // Until the kernel is done. Throws as the CPU's kernels do.
  virtual void run(PreparedKernel& kernel) = 0;
  // Whether check() tries cases of a kernel.
  virtual bool concerns(const std::string& kernel) = 0;
};
Subject& subject();
void choose_subject(Subject& other);

// Runs a kernel once on the tensors' own memory. Undefined tensors are absent operands.
Status run_kernel(const std::string& name, const Tensors& outputs, const Tensors& inputs,
                  const std::vector<plan::Attr>& attrs = {}, bool accumulate = false,
                  const TrainingNumbers& numbers = {});

struct Case {
  std::string name;
  std::vector<plan::Attr> attrs;
  Tensors inputs;                                           // floating ones are f32; made f64 for the f64 run
  std::function<Tensors(const Tensors& inputs)> reference;  // in f64, with autograd; undefined: not compared
  std::vector<bool> f32_inputs = {};                        // inputs that are f32 whatever the run is (statistics)
  std::vector<bool> f32_outputs = {};                       // the same for outputs
  bool strided = true;                                      // also with strided operands (statistics stay dense)
  bool f64 = true;
  double tolerance = 2e-5;
  // For bf16 and f16: of results and of 1, in steps of the type's own precision (2^-7, 2^-10); 0: not run. Operands are
  // rounded first, so this allows one rounding of the result, and of what a kernel of the library rounds in between.
  double half_tolerance = 2;
  TrainingNumbers numbers = {};
};
void check(const Case& c);
void run(PreparedKernel& kernel);

// Gradients of f(inputs) for the given inputs under `g`.
Tensors gradients(const std::function<at::Tensor(const Tensors&)>& f, Tensors inputs, const std::vector<size_t>& of,
                  const at::Tensor& g);

// A tensor of the same values whose elements do not lie side by side.
at::Tensor strided_copy(const at::Tensor& t);
bool close(const at::Tensor& a, const at::Tensor& b, double tolerance);

// kernel -> most allocator calls of one steady-state run, dense f32 operands.
std::map<std::string, int64_t>& seen_allocations();
// Kernels that a case found to refuse bf16 or f16.
std::set<std::string>& refused_halves();
// Those that LibTorch itself does not compute in bf16 and f16.
inline const std::set<std::string> kWithoutHalves = {"special_erfcx", "special_log_ndtr", "special_ndtri"};

}  // namespace piper::kernels::testing
