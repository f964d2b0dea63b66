// Gives values the element types in which the strategy wants them: inserts casts, and makes parameters copies of wider
// masters.
//
// Input level: a finished forward, chunks that later passes cut and join but do not look into. Output level: the same
// graph with casts and other element types; parameters that programs read in another type than they are trained in
// have a `master`. Nothing changes where the strategy has no `precision`.
//
// Products, convolutions and attention take operands of the type `compute`. Norms, softmax, losses, sums, means and
// functions that grow fast take f32, as does everything in modules that `keep` names, and products that choose experts
// (whose results reach a top-k). Any other operator takes its operands in the widest type among them; numbers of shape
// [] widen nothing. These are the rules of torch.autocast, so that models behave as they do there. A cast is put where
// the value is made if all of its readers want it narrow, and then narrow elements travel between devices; else where
// it is read. Views and exchanges pass on what their readers want.
//
// A trained parameter that is read in the type `compute` alone becomes a copy of that type, with a master of the type
// that it had: the optimizer writes the copy, no program casts it. One with other readers too (an embedding's table
// that is the head's as well) stays as it is, and programs cast it.
//
// It is after the passes that look for forms of operators (losses, experts), which casts would hide, and before
// cut_segments, which measures what programs read of parameters, and autodiff: derivatives of casts are casts, so that
// gradients of narrow values are narrow, and those of parameters of their masters' type.
#pragma once

#include "compiler/ir/module.h"

namespace piper::passes {

void insert_casts(ir::Module& module);

}  // namespace piper::passes
