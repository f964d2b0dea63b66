// What LibTorch's operators are asked for on GPUs. These settings are the process's, so that they are in one place,
// and a kernel that wants another one runs while no other thread issues any.
#pragma once

#include <functional>

namespace piper::kernels {

class NamedKernel;

// Once, before the first operator: products and convolutions without TF32, halves added up in f32, convolutions with
// the same bits in every run; and memory that is asked for is not filled: where operators are asked for the same bits,
// LibTorch writes NaN to all of it by default.
void set_up_operators();

// Calls `issue`, which runs the kernel. Of kernels that add up in any order unless asked for one that stays
// (NamedKernel::wants_same_bits()), with that request, and alone.
void issue_with_settings(const NamedKernel& kernel, const std::function<void()>& issue);

}  // namespace piper::kernels
