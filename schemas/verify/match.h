// Rules 1, 2 and 3: which instructions of different ranks form one transfer or collective.
#pragma once

#include <cstdint>
#include <vector>

#include "schemas/base/status.h"
#include "schemas/plan/plan.h"

namespace piper::verify {

struct Matching {
  // Per loaded rank and instruction: the transfer it takes part in, or -1.
  std::vector<std::vector<int32_t>> transfer_of;
  struct Participant {
    int32_t plan = -1;
    int32_t instruction = -1;
  };  // `plan`: index into Bundle::ranks
  // Participants of transfer t: participants[first[t]] to participants[first[t + 1]].
  std::vector<Participant> participants;
  std::vector<int64_t> first;
  int64_t num_messages = 0, num_collectives = 0;
};

Result<Matching> match(const plan::Bundle& bundle);

}  // namespace piper::verify
