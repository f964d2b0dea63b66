// Makes a rank's plan out of its role's: who its peers are, which samples it takes, which parts of the model it holds
// and which of them it saves. Nothing that an instruction says depends on it.
#pragma once

#include "compiler/emit/role_emitter.h"

namespace piper::emit {

plan::RankPlan bind_rank(const ir::Module& module, const Connections& connections, const RolePlan& role,
                         const Binding& binding);

}  // namespace piper::emit
