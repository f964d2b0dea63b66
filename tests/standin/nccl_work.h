// What a call of the stand-in for NCCL asks for, and the doing of it once all members have come.
#pragma once

#include <nccl.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace piper::standin {

enum class Kind : uint8_t { kAllReduce, kReduceScatter, kAllGather, kSend, kReceive };

struct Work {
  Kind kind = Kind::kSend;
  size_t count = 0;  // elements; of a reduce_scatter and an all_gather: of a part
  ncclDataType_t type = ncclUint8;
  const std::byte* send = nullptr;
  std::byte* recv = nullptr;
  size_t member = 0;  // whose
};

size_t size_of(ncclDataType_t type);  // 0: none that the stand-in knows
const char* name_of(Kind kind);
bool is_message(Kind kind);
// "ncclAllReduce of 12 ncclFloat32"
std::string text_of(const Work& work);
// What a member gets; `members`: of the communicator.
size_t received_bytes(const Work& work, size_t members);
// Whether two members' calls of one number agree: what differs, or nothing. `from` and `to` are -1 for a collective.
std::string difference(const std::string& communicator, int from, int to, uint64_t number, const Work& a,
                       const Work& b);
// For all members of a collective, or of both ends of a message, which are one where a member sends to itself. Sums are
// taken in the order of a ring, each part beginning with another member, so that they differ from sums in position
// order in the last bits where there are three members or more.
void perform(std::vector<const Work*> all);

}  // namespace piper::standin
