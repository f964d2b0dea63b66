// Kernels that take a stated time and compute nothing but whole numbers: more ranks than cores run with the streams,
// messages and waits of their plans, as fast as their kernels were measured alone (piper-run --kernel-times, to compare
// with piper-plan simulate). Floating values are not written and mean nothing: memory keeps what it had, zeros at
// first. Whole numbers are the plan's: they say how many rows an exchange has, and both of its ends must say the same.
// Where a call makes them of floating ones, they are those of a balanced router (balanced_choice.h), as a simulation
// takes it to be.
#pragma once

#include <memory>

#include "runtime/kernels/kernel.h"
#include "schemas/plan/kernel_times.h"

namespace piper::kernels {

// A call sleeps for its time, a thread's next call less by what the sleep before was late, where it comes at once. No
// spinning. Calls on whole numbers and truth values alone are `computing`'s, within their time where that is long
// enough. bind() gives R0408 for a call without time, R0401 and R0402 as `computing`, which must outlive the result.
std::shared_ptr<const Library> waiting_library(plan::KernelTimes times, const Library& computing);

}  // namespace piper::kernels
