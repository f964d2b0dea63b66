// Megatron's index of a file of tokens: NAME.idx beside NAME.bin says their type and the sequences that follow one
// after the other. Layout, little-endian: "MMIDIDX\0\0", u64 version 1, u8 type, u64 sequences, u64 documents, then an
// i32 length and an i64 byte offset for each sequence, and i64 documents.
// Form: Megatron-LM, megatron/core/datasets/indexed_dataset.py.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/data/element.h"
#include "schemas/base/status.h"

namespace piper::data {

struct MegatronIndex {
  Element element = Element::kU16;
  int64_t tokens = 0;  // of all sequences
};

// R0201; R0213: damaged, of a type that tokens do not have, or with sequences that do not follow one another.
Result<MegatronIndex> read_megatron_index(const std::string& path);

}  // namespace piper::data
