// What the exchanges inside of a rank's passes take: the part of a pass in which its stream waits for a collective that
// itself waits for a run of the same pass. Nothing that another schedule moves is in it: neither the wait for another
// stage nor what is gathered ahead, beside the pass before.
#pragma once

#include <map>
#include <vector>

#include "compiler/search/pricer.h"

namespace piper::search {

// [pass][microbatch] microseconds, of a loaded rank's chunk runs in their order.
std::map<plan::Pass, std::vector<double>> exchanges_of_passes(const PlayedStep& step, size_t loaded_rank,
                                                              size_t microbatches);

}  // namespace piper::search
