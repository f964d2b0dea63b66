// Which ranks do the same work on other data, found before anything is emitted: their plans differ in peers, samples
// and parts of the model, and in nothing that an instruction says.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "compiler/emit/emit_shared.h"

namespace piper::emit {

// What a rank's instructions depend on beside the nodes: equal for ranks whose instructions are. Ranks stand in it by
// the order in which they are met, names of channels and communicators by number.
struct RankWork {
  std::vector<uint32_t> facts;
  std::vector<std::pair<uint32_t, int32_t>> channels;                           // name -> the rank at the other end
  std::vector<std::pair<uint32_t, const std::vector<int32_t>*>> communicators;  // name -> members
};
RankWork work_of(const EmitShared& shared, int32_t rank);

// [rank] -> the first rank with the same work; itself where there is none.
std::vector<int32_t> first_with_same_work(const EmitShared& shared, const std::vector<RankWork>& work);

}  // namespace piper::emit
