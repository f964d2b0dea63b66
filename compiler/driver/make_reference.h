// The model's training step on one device, which the bundle carries for the proof (plan::Reference).
//
// The model is bound to whole batches of two sizes, without the strategy's directives, schedule and regions, and taken
// through the passes up to add_backward; what differs between the two must be a multiple of the samples, or a constant.
// So nothing that a directive does enters it, nor what passes find out of the batch, which they need to cut it, and its
// bytes are the same under every strategy of one model, loss and precision. Where
// there is a precision, the same is made once more without the pass that inserts casts, for the proof to hold the casts
// to it. An evaluation has a reference of its own, of the same model's forwards (evaluation/keep_forwards.h).
#pragma once

#include "compiler/driver/compilation.h"

namespace piper::driver {

// Takes out of a strategy what says where and when: directives, schedule, regions, streams. Capacities of experts stay,
// as they say which rows are dropped.
void leave_one_device(strategy::Strategy& strategy);

// Begins to make what the reference is made of, in a thread of its own.
void begin_reference(Compilation& c, const diag::Diagnostics& diags);

// Fills the references, and the constants beside them, of an emitted bundle and of its evaluation. Where the model has
// none (its batch is fixed, or a size is no multiple of the samples), a remark says so and the bundle goes without.
Status make_reference(Compilation& c, diag::Diagnostics& diags);

}  // namespace piper::driver
