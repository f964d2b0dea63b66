// What kind of file a path is, by what is in it. Only what content cannot show is taken from a name: raw tokens have
// no mark, and a file that is neither marked nor named as tokens must be text.
#pragma once

#include <cstdint>
#include <string>

#include "schemas/base/status.h"

namespace piper::data {

enum class DataForm : uint8_t {
  kText,         // its bytes are the tokens
  kTokens,       // raw: of the width that a name or --token-dtype says
  kMegatron,     // raw tokens (.bin) beside an index (.idx) that says their type
  kNpy,          // one array
  kSafetensors,  // one tensor per input
};

// For a file, not a folder. `dtype`: what --token-dtype says, "" for nothing: such a file is raw, and a mark
// that such tokens may well begin with means nothing. R0201; R0213: a file that is no data here, with the command that
// makes data of it.
Result<DataForm> recognise(const std::string& path, const std::string& dtype);

// The file of tokens that a path of Megatron's two files names: that of NAME.idx is NAME.bin; of others, they
// themselves. And the other way round, "" where there is none.
std::string tokens_beside(const std::string& path);
std::string index_beside(const std::string& path);

}  // namespace piper::data
