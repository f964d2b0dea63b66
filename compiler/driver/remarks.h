// What a user should know of a module though nothing is wrong with it: warnings and remarks. No function here changes
// the module. (The `note` directive is directives/note.h.)
#pragma once

#include "compiler/diag/diagnostics.h"
#include "compiler/ir/module.h"
#include "schemas/plan/plan.h"

namespace piper::driver {

// Warning P0334 at the device list of the first chunk that keeps running statistics on several devices.
void note_running_statistics(const ir::Module& module, diag::Diagnostics& diags);
// Remarks on expert shards of which a device that is not the host must tell it how many rows travel.
void note_counted_rows(const ir::Module& module, plan::DeviceKind device, diag::Diagnostics& diags);
// Remarks on sums that one device on the whole batch adds in another order: gradients over microbatches and over
// devices, and chunks whose backward passes are not in the sequence of the microbatches. Needs the order of the DAG.
void note_sums(const ir::Module& module, diag::Diagnostics& diags);
// A remark for each kind of conversion that cuts make: which line asks for it, the values that meet there, and how many
// bytes it moves. Needs the DAG.
void note_conversions(const ir::Module& module, diag::Diagnostics& diags);
// Remarks on masks of attention that stay in the plan, as bytes or computed: what knows no shorter form of them keeps
// an element for each query and key.
void note_masks(const ir::Module& module, diag::Diagnostics& diags);
// Remarks on logits that are made in blocks, and on large ones that are not. Right after cut_heads.
void note_heads(const ir::Module& module, diag::Diagnostics& diags);
// Remarks on parameters that a `replicate` shards and that are kept whole nevertheless.
void note_whole_parameters(const ir::Module& module, diag::Diagnostics& diags);
// A remark where buckets of whole matrices are padded by more than half of what they hold, so that their parts are
// equal.
void note_padding(const ir::Module& module, diag::Diagnostics& diags);

}  // namespace piper::driver
