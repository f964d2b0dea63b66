// What processes tell each other when the members of the stand-in's communicators are processes: one communicator's
// members write to its hub (nccl_hub.h), the hub writes to them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "tests/standin/nccl_work.h"

namespace piper::standin {

// For a communicator: the number of a collective, where `from` and `to` are -1, or of a message from one member to
// another; and how often its graph has been launched before.
struct CallId {
  int32_t from = -1, to = -1;
  uint64_t number = 0, round = 0;
  auto operator<=>(const CallId&) const = default;
};

enum class Note : uint32_t {
  kJoin,      // a member is there; bytes: the communicator's name
  kCall,      // a member has come to a call; bytes: what it gives
  kFinalize,  // a member has finalized; to members: all have
  kLeave,     // a member ends in order
  kAbort,     // a member aborts; bytes: how
  kJoined,    // to members: all are there
  kResult,    // a call is done; bytes: what the member gets
  kFailed,    // `result`; bytes: why
};

struct Letter {
  Note note = Note::kJoin;
  int32_t member = 0, members = 0;
  CallId call;
  Kind kind = Kind::kSend;
  ncclDataType_t type = ncclUint8;
  ncclResult_t result = ncclSuccess;
  uint64_t count = 0, bytes = 0;  // elements; bytes after the letter
};

// All of a letter, or false: the other process has gone.
bool write_letter(int socket, Letter letter, const void* bytes);
bool read_letter(int socket, Letter& letter, std::string& bytes);

}  // namespace piper::standin
