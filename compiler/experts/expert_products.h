// Transfer rules of matrix products for expert marks. Used by the table of rules in expert_marks.cc alone; they edit
// nothing and report nothing: a product that cannot be cut gives ExpertTransfer::Kind::kStops. A product is
// where weights meet tokens: it decides which axis of the activation carries the tokens, and whether experts are
// contracted.
#pragma once

#include <vector>

#include "compiler/experts/expert_marks.h"

namespace piper::experts {

// a [.., M, K] x b [.., K, N], leading axes broadcast.
ExpertTransfer transfer_matmul(const ExpertRules& rules, const ir::Op& op, const std::vector<const ExpertMark*>& marks);
// x [.., I], w [O, I], bias? [O].
ExpertTransfer transfer_linear(const ExpertRules& rules, const ir::Op& op, const std::vector<const ExpertMark*>& marks);

}  // namespace piper::experts
