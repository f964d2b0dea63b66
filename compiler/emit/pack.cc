#include "compiler/emit/pack.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstring>
#include <limits>
#include <numeric>
#include <optional>
#include <tuple>
#include <utility>

#include "compiler/emit/taken_bytes.h"

namespace piper::emit {
namespace {

using plan::Life;
using Order = std::vector<uint32_t>;  // of lives

constexpr double kGoodEnough = 1.01, kWorthRepair = 1.02;  // of the bytes alive together
constexpr size_t kRepaired = 2;                            // orders, the first
constexpr int64_t kLooks = 2'000'000;                      // at placed lives, of all repair together: some milliseconds
constexpr int64_t kLooksWithin = 60'000;                   // the same where a limit is given

constexpr int64_t kLooksOfInsertion = 32;  // what putting a life among the others costs

// From so many lives on an order is placed by TakenBytes, which grows as n log n and has to be set up.
constexpr size_t kMany = 2000;

constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

// The lives that are placed, by their offsets, in blocks (of few lives, and of many while an order is repaired): one
// that meets none of a block costs a comparison of times for each of its lives, several at once, and nothing is sorted.
class PlacedLives {
 public:
  void clear() { order_.clear(); }

  void insert(const Life& life, int64_t offset) {
    if (order_.empty()) order_.push_back(new_block(0));
    const auto after = std::upper_bound(order_.begin(), order_.end(), offset,
                                        [&](int64_t at, uint32_t block) { return at < blocks_[block].begin[0]; });
    size_t place = static_cast<size_t>(after - order_.begin());
    if (place > 0) --place;
    if (blocks_[order_[place]].count == kBlock) {
      split(place);
      if (blocks_[order_[place + 1]].begin[0] <= offset) ++place;
    }
    Block& block = blocks_[order_[place]];
    uint32_t i = block.count++;
    for (; i > 0 && block.begin[i - 1] > offset; --i) block.copy(i - 1, block, i);
    block.first[i] = life.first;
    block.end[i] = life.end;
    block.begin[i] = offset;
    block.until[i] = offset + life.bytes;
  }
  // Where `life` fits between those that meet it. Adds the number of lives that were looked at to `looks`.
  int64_t lowest_free(const Life& life, int64_t& looks) const {
    int64_t offset = 0;
    std::array<uint8_t, kBlock> meets;
    for (const uint32_t index : order_) {
      const Block& block = blocks_[index];
      if (block.begin[0] - offset >= life.bytes) return offset;
      looks += kBlock;
      for (uint32_t i = 0; i < kBlock; ++i) meets[i] = (block.first[i] < life.end) & (block.end[i] > life.first);
      for (uint32_t eight = 0; eight < block.count; eight += 8) {
        uint64_t any = 0;
        std::memcpy(&any, meets.data() + eight, 8);
        if (any == 0) continue;
        for (uint32_t i = eight; i < std::min(eight + 8, block.count); ++i) {
          if (!meets[i]) continue;
          if (block.begin[i] - offset >= life.bytes) return offset;
          offset = std::max(offset, block.until[i]);
        }
      }
    }
    return offset;
  }

 private:
  static constexpr uint32_t kBlock = 64;
  struct Block {
    uint32_t count = 0;
    std::array<uint32_t, kBlock> first, end;  // past `count` anything
    std::array<int64_t, kBlock> begin, until;
    void copy(uint32_t from, Block& to, uint32_t at) const {
      to.first[at] = first[from];
      to.end[at] = end[from];
      to.begin[at] = begin[from];
      to.until[at] = until[from];
    }
  };
  uint32_t new_block(size_t used) {
    if (used == blocks_.size()) blocks_.emplace_back();
    blocks_[used].count = 0;
    return static_cast<uint32_t>(used);
  }
  // The upper half of a full block becomes one of its own.
  void split(size_t place) {
    const uint32_t fresh = new_block(order_.size());
    Block& from = blocks_[order_[place]];
    Block& to = blocks_[fresh];
    for (uint32_t i = kBlock / 2; i < kBlock; ++i) from.copy(i, to, to.count++);
    from.count = kBlock / 2;
    order_.insert(order_.begin() + static_cast<ptrdiff_t>(place) + 1, fresh);
  }

  std::vector<Block> blocks_;    // the first order_.size() of them are in use
  std::vector<uint32_t> order_;  // of blocks, ascending
};

// For each life the most bytes that are alive at one time during it.
std::vector<int64_t> contention(std::span<const Life> lives) {
  // Bytes grow only where lives begin: level 0 has what is alive at each distinct beginning, level k the most of 2^k.
  std::vector<uint32_t> begins;
  for (const Life& life : lives) begins.push_back(life.first);
  std::sort(begins.begin(), begins.end());
  begins.erase(std::unique(begins.begin(), begins.end()), begins.end());
  const auto at = [&](uint32_t position) {
    return static_cast<size_t>(std::lower_bound(begins.begin(), begins.end(), position) - begins.begin());
  };
  std::vector<std::vector<int64_t>> most(1, std::vector<int64_t>(begins.size() + 1, 0));
  for (const Life& life : lives) {
    most[0][at(life.first)] += life.bytes;
    most[0][at(life.end)] -= life.bytes;
  }
  std::partial_sum(most[0].begin(), most[0].end(), most[0].begin());
  for (size_t reach = 1; 2 * reach <= begins.size(); reach *= 2) {
    const std::vector<int64_t>& half = most.back();
    std::vector<int64_t> level(begins.size() + 1 - 2 * reach);
    for (size_t i = 0; i < level.size(); ++i) level[i] = std::max(half[i], half[i + reach]);
    most.push_back(std::move(level));
  }
  std::vector<int64_t> of;
  for (const Life& life : lives) {
    const size_t begin = at(life.first), end = at(life.end);
    const auto level = static_cast<size_t>(std::bit_width(end - begin) - 1);
    of.push_back(std::max(most[level][begin], most[level][end - (size_t{1} << level)]));
  }
  return of;
}

class Packer {
 public:
  explicit Packer(std::span<const Life> lives) : lives_(lives), offsets_(lives.size()) {}

  // Places all lives of an order, without counting looks. Stops as place() does.
  size_t place_all(const Order& order, int64_t limit) {
    if (lives_.size() < kMany) return place(order, 0, limit);
    if (taken_) taken_->clear();
    else taken_.emplace(lives_);
    for (size_t i = 0; i < order.size(); ++i) {
      const int64_t offset = taken_->lowest_free(order[i]);
      if (offset + lives_[order[i]].bytes > limit) return i;
      offsets_[order[i]] = offset;
      taken_->insert(order[i], offset);
    }
    return order.size();
  }
  // Places lives [from, ...) of an order; those before have offsets and are placed as they were. Stops before the
  // first that would end above `limit`, whose place in the order it returns; the size of the order where all are
  // placed.
  size_t place(const Order& order, size_t from, int64_t limit) {
    placed_.clear();
    for (size_t i = 0; i < from; ++i) placed_.insert(lives_[order[i]], offsets_[order[i]]);
    looks_ += static_cast<int64_t>(from) * kLooksOfInsertion;
    for (size_t i = from; i < order.size(); ++i) {
      const Life& life = lives_[order[i]];
      const int64_t offset = placed_.lowest_free(life, looks_);
      if (offset + life.bytes > limit) return i;
      offsets_[order[i]] = offset;
      placed_.insert(life, offset);
    }
    return order.size();
  }
  int64_t looks() const { return looks_; }
  // Where all lives are placed.
  Packed result() const {
    Packed packed{offsets_, 0};
    for (size_t l = 0; l < lives_.size(); ++l) packed.bytes = std::max(packed.bytes, offsets_[l] + lives_[l].bytes);
    return packed;
  }

 private:
  std::span<const Life> lives_;
  PlacedLives placed_;
  std::optional<TakenBytes> taken_;  // once an order of many lives was placed
  std::vector<int64_t> offsets_;
  int64_t looks_ = 0;
};

enum class By { kSize, kContention, kArea };
constexpr std::array kOrders = {By::kSize, By::kContention, By::kArea};

Order order_of(std::span<const Life> lives, By by) {
  Order order(lives.size());
  std::iota(order.begin(), order.end(), 0);
  const auto sort = [&](const auto& key) {
    std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return key(a) < key(b); });
  };
  if (by == By::kSize) sort([&](uint32_t l) { return std::tuple(-lives[l].bytes, lives[l].first, l); });
  if (by == By::kArea)
    sort([&](uint32_t l) {
      return std::tuple(-static_cast<double>(lives[l].bytes) * (lives[l].end - lives[l].first), lives[l].first, l);
    });
  if (by == By::kContention) {
    const std::vector<int64_t> crowd = contention(lives);
    sort([&](uint32_t l) { return std::tuple(-crowd[l], -lives[l].bytes, lives[l].first, l); });
  }
  return order;
}

// Lives as they begin, each in the smallest gap between those that are alive then.
Packed best_fit_in_time(std::span<const Life> lives) {
  struct Alive {
    int64_t begin = 0, until = 0;
    uint32_t end = 0;  // of the life
  };
  Order order(lives.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return lives[a].first < lives[b].first; });
  Packed packed{std::vector<int64_t>(lives.size()), 0};
  std::vector<Alive> alive;  // ascending
  for (const uint32_t l : order) {
    const Life& life = lives[l];
    std::erase_if(alive, [&](const Alive& other) { return other.end <= life.first; });
    int64_t free = 0, offset = -1, smallest = kNoLimit;
    const auto gap = [&](int64_t until) {
      if (until - free < life.bytes || until - free >= smallest) return;
      smallest = until - free;
      offset = free;
    };
    for (const Alive& other : alive) {
      gap(other.begin);
      free = other.until;
    }
    gap(packed.bytes);
    if (offset < 0) offset = free;
    const auto after =
        std::partition_point(alive.begin(), alive.end(), [&](const Alive& other) { return other.begin < offset; });
    alive.insert(after, {offset, offset + life.bytes, life.end});
    packed.offsets[l] = offset;
    packed.bytes = std::max(packed.bytes, offset + life.bytes);
  }
  return packed;
}

// Where in the first `stuck` places of an order what got stuck there goes in a round of repair: half-way to the front,
// and every other time to 1/2, 1/4, 3/4, 1/8, 5/8, .. of the way, so that rounds do not go in circles.
size_t new_place(size_t stuck, uint32_t round) {
  if (round % 2 == 0) return stuck / 2;
  uint64_t mirrored = 0;  // the bits of the round, the least first
  for (uint32_t bits = round / 2 + 1, at = 31; bits != 0; bits >>= 1, --at) mirrored |= uint64_t{bits & 1} << at;
  return static_cast<size_t>(mirrored * stuck >> 32);
}

// Whether all lives meet at one time: then they are one after the other.
bool stand_together(std::span<const Life> lives) {
  uint32_t last_begin = 0, first_end = std::numeric_limits<uint32_t>::max();
  for (const Life& life : lives) {
    last_begin = std::max(last_begin, life.first);
    first_end = std::min(first_end, life.end);
  }
  return last_begin < first_end;
}

// The best of all orders, for a block of at most `limit` bytes. Where it needs more than `worth_repair`, or none fits,
// orders are repaired, until one needs at most `enough`, with `looks` in all. Without offsets: there is none.
Packed search(std::span<const Life> lives, int64_t live, int64_t limit, int64_t enough, int64_t worth_repair,
              int64_t looks) {
  Packer packer(lives);
  Packed best{{}, limit + (limit < kNoLimit)};
  std::array<Order, kOrders.size()> orders;
  for (size_t k = 0; k < kOrders.size(); ++k) {
    orders[k] = order_of(lives, kOrders[k]);
    if (packer.place_all(orders[k], best.bytes - 1) == orders[k].size()) best = packer.result();
    if (!best.offsets.empty() && best.bytes == live) return best;
  }
  if (Packed in_time = best_fit_in_time(lives); in_time.bytes < best.bytes) best = std::move(in_time);
  if (best.bytes <= worth_repair) return best;
  const int64_t begun = packer.looks();
  for (size_t k = 0; k < kRepaired; ++k) {
    Order& order = orders[k];
    const int64_t until = begun + looks * static_cast<int64_t>(k + 1) / static_cast<int64_t>(kRepaired);
    size_t from = 0;  // what comes before has the offsets of the last round
    for (uint32_t round = 0; packer.looks() < until; ++round) {
      size_t stuck = packer.place(order, from, best.bytes - 1);
      if (stuck == order.size()) {
        best = packer.result();
        if (best.bytes <= enough) return best;
        // Everything has to fit below what ends highest now.
        const auto end = [&](uint32_t l) { return best.offsets[l] + lives[l].bytes; };
        const auto highest =
            std::max_element(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return end(a) < end(b); });
        stuck = static_cast<size_t>(highest - order.begin());
      }
      from = new_place(stuck, round);
      const auto at = [&](size_t place) { return order.begin() + static_cast<ptrdiff_t>(place); };
      std::rotate(at(from), at(stuck), at(stuck + 1));
    }
  }
  return best;
}

std::vector<Life> aligned(std::span<const Life> given, int64_t alignment) {
  std::vector<Life> lives(given.begin(), given.end());
  for (Life& life : lives) life.bytes = align_up(std::max<int64_t>(life.bytes, 1), alignment);
  return lives;
}

Packed one_after_the_other(std::span<const Life> lives) {
  Packed packed;
  for (const Life& life : lives) {
    packed.offsets.push_back(packed.bytes);
    packed.bytes += life.bytes;
  }
  return packed;
}

int64_t times(double factor, int64_t live) { return static_cast<int64_t>(factor * static_cast<double>(live)); }

}  // namespace

Packed pack(std::span<const Life> given, int64_t alignment) {
  const std::vector<Life> lives = aligned(given, alignment);
  if (stand_together(lives)) return one_after_the_other(lives);
  const int64_t live = plan::fullest(lives).bytes;
  return search(lives, live, kNoLimit, times(kGoodEnough, live), times(kWorthRepair, live), kLooks);
}

std::optional<Packed> pack_within(std::span<const Life> given, int64_t alignment, int64_t limit) {
  const std::vector<Life> lives = aligned(given, alignment);
  const int64_t live = plan::fullest(lives).bytes;
  if (live > limit) return std::nullopt;
  Packed packed = search(lives, live, limit, limit, limit, kLooksWithin);
  if (packed.offsets.empty()) return std::nullopt;
  return packed;
}

}  // namespace piper::emit
