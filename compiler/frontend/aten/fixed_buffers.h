// For which persistent buffers a plan is made: those that are masks, indices or numbers of an operator's form. The
// compiler looks into them (a mask that is the lower triangle is causal attention, an index that counts up is a slice),
// so they stay constants, and piper-run refuses to load another value. All other persistent buffers are read by steps
// like frozen parameters, and nothing is folded from them. Used when a model file is opened, for the roles of its
// tensors.
#pragma once

#include <set>
#include <string>

#include "compiler/frontend/aten/program.h"

namespace piper::frontend::aten {

// For the placeholders `buffers`. `constants`: the other ones whose value is known, non-persistent buffers among them.
std::set<std::string> fixed_buffers(const Program& program, const std::set<std::string>& buffers,
                                    const std::set<std::string>& constants);

}  // namespace piper::frontend::aten
