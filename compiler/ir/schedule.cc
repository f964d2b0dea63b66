#include "compiler/ir/schedule.h"

#include <algorithm>

namespace piper::ir {
namespace {

// Replaces each chunk of every member by its `successors`, ascending, each once.
void replace_chunks(Schedule& schedule, const std::vector<std::vector<ChunkId>>& successors) {
  for (Order& order : schedule.orders)
    for (OrderSlot& slot : order.slots)
      for (OrderMember& member : slot.members) {
        std::vector<ChunkId> chunks;
        for (ChunkId old : member.chunks)
          chunks.insert(chunks.end(), successors[old.index].begin(), successors[old.index].end());
        std::sort(chunks.begin(), chunks.end());
        chunks.erase(std::unique(chunks.begin(), chunks.end()), chunks.end());
        member.chunks = std::move(chunks);
      }
}

}  // namespace

void Schedule::refine(const std::vector<ChunkId>& from) {
  std::vector<std::vector<ChunkId>> pieces;
  for (size_t c = 0; c < from.size(); ++c) {
    if (from[c].index >= pieces.size()) pieces.resize(from[c].index + 1);
    pieces[from[c].index].push_back(ChunkId(c));
  }
  replace_chunks(*this, pieces);
}

void Schedule::merge(const std::vector<ChunkId>& into) {
  std::vector<std::vector<ChunkId>> joined;
  for (ChunkId chunk : into) joined.push_back({chunk});
  replace_chunks(*this, joined);
}

}  // namespace piper::ir
