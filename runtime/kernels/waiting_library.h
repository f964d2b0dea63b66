// Kernels that take a stated time and compute nothing: more ranks than cores run with the streams, messages and waits
// of their plans, as fast as their kernels were measured alone (piper-run --kernel-times, to compare with piper-plan
// simulate). They write nothing, so values mean nothing: memory keeps what it had, zeros at first, and rows that a
// router would count are none.
#pragma once

#include <memory>

#include "runtime/kernels/kernel.h"
#include "schemas/plan/kernel_times.h"

namespace piper::kernels {

// A call sleeps for its time, a thread's next call less by what the sleep before was late, where it comes at once. No
// spinning. bind() gives R0408 for a call without time.
std::shared_ptr<const Library> waiting_library(plan::KernelTimes times);

}  // namespace piper::kernels
