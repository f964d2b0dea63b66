// Which buffers of a program are running statistics: those that a batch norm in training mode updates by itself. They
// are the only state besides parameters that a plan keeps. Used when a model file is opened, for the roles of its
// tensors and to refuse every other change of a buffer, which a plan would lose. It does not judge operators in place;
// functionalise.h does.
#pragma once

#include <set>
#include <string>

#include "compiler/frontend/aten/program.h"

namespace piper::frontend::aten {

// The placeholders of these buffers.
std::set<std::string> running_statistics(const Program& program);

// Whether it is num_batches_tracked of a norm: a step changes it, and nothing reads it.
bool counts_batches(const std::string& buffer);

// Whether `value`, a buffer's value after the step, is the result of a batch norm. A result that only the buffer reads
// has no node in an ONNX file, and its name is one of a list's.
bool is_made_by_batch_norm(const Program& program, const std::string& value);

}  // namespace piper::frontend::aten
