// Cuts the backward of chosen chunks into an input part (phase kBackward) and a weight part (phase kBackwardWeight),
// each a program of its own.
//
// The input part holds what the gradients of activations need; an activation is a value that depends on a graph input.
// Everything else only leads to gradients of parameters and goes into the weight part. No op is repeated, so the work
// of both parts is the work of the whole. A kernel that makes gradients of activations and of parameters in one call
// stays whole in the input part, with the accumulation of its result.
#pragma once

#include "compiler/ir/module.h"

namespace piper::passes {

void split_backward(ir::Module& module);

}  // namespace piper::passes
