// Offsets of lives in one block: no byte is shared by two at one time, and the block is near what is alive together.
#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <vector>

#include "compiler/emit/pack.h"
#include "compiler/emit/taken_bytes.h"

using namespace piper;
using emit::pack;
using emit::Packed;
using plan::Life;

namespace {

constexpr int64_t kAlignment = 64;

std::vector<Life> random_lives(uint32_t seed, size_t count, uint32_t length) {
  std::mt19937 draw(seed);
  std::vector<Life> lives;
  for (size_t l = 0; l < count; ++l) {
    const uint32_t first = draw() % length, span = 1 + draw() % (draw() % 8 == 0 ? length : 6);
    lives.push_back(
        {first, std::min(first + span, length), static_cast<int64_t>(draw() % (draw() % 4 == 0 ? 4000 : 300))});
  }
  return lives;
}

int64_t aligned(int64_t bytes) { return emit::align_up(std::max<int64_t>(bytes, 1), kAlignment); }

// Bytes alive at the fullest position, added up position by position.
int64_t most_alive(const std::vector<Life>& lives, uint32_t length) {
  int64_t most = 0;
  for (uint32_t at = 0; at < length; ++at) {
    int64_t here = 0;
    for (const Life& life : lives)
      if (life.first <= at && at < life.end) here += aligned(life.bytes);
    most = std::max(most, here);
  }
  return most;
}

void check_apart(const std::vector<Life>& lives, const Packed& packed) {
  REQUIRE(packed.offsets.size() == lives.size());
  for (size_t a = 0; a < lives.size(); ++a) {
    const int64_t begin = packed.offsets[a], end = begin + aligned(lives[a].bytes);
    CHECK(begin >= 0);
    CHECK(begin % kAlignment == 0);
    CHECK(end <= packed.bytes);
    for (size_t b = 0; b < a; ++b) {
      const bool meet = lives[a].first < lives[b].end && lives[b].first < lives[a].end;
      if (meet && packed.offsets[b] < end && begin < packed.offsets[b] + aligned(lives[b].bytes))
        FAIL("lives " << b << " and " << a << " share bytes");
    }
  }
}

}  // namespace

TEST_CASE("no two lives that meet share a byte") {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    const size_t count = 1 + seed;  // the larger ones fill several blocks of the index
    const std::vector<Life> lives = random_lives(seed, count, 60);
    const Packed packed = pack(lives, kAlignment);
    check_apart(lives, packed);
    CHECK(packed.bytes >= most_alive(lives, 60));
    CHECK(pack(lives, kAlignment).offsets == packed.offsets);
  }
}

// What many lives are placed by, against trying every offset where one that meets ends.
TEST_CASE("the lowest free offset") {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    std::vector<Life> lives = random_lives(seed, 1 + 3 * seed, 20 + 40 * (seed % 3));
    for (Life& life : lives) life.bytes = aligned(life.bytes);
    emit::TakenBytes taken(lives);
    for (int round = 0; round < 2; ++round) {  // the second after a clear()
      std::vector<int64_t> offsets;
      for (uint32_t l = 0; l < lives.size(); ++l) {
        std::vector<int64_t> candidates = {0};
        for (uint32_t other = 0; other < l; ++other) candidates.push_back(offsets[other] + lives[other].bytes);
        std::sort(candidates.begin(), candidates.end());
        const auto is_free = [&](int64_t offset) {
          for (uint32_t other = 0; other < l; ++other)
            if (lives[l].meets(lives[other]) && offset < offsets[other] + lives[other].bytes &&
                offsets[other] < offset + lives[l].bytes)
              return false;
          return true;
        };
        const int64_t lowest = *std::find_if(candidates.begin(), candidates.end(), is_free);
        INFO("seed " << seed << ", life " << l);
        REQUIRE(taken.lowest_free(l) == lowest);
        offsets.push_back(lowest);
        taken.insert(l, lowest);
      }
      taken.clear();
    }
  }
}

TEST_CASE("many lives") {
  const std::vector<Life> lives = random_lives(3, 4000, 900);
  const Packed packed = pack(lives, kAlignment);
  check_apart(lives, packed);
  CHECK(packed.bytes <= most_alive(lives, 900) * 21 / 20);
}

// A block that is full at all times, cut into lives: the least that they need is known.
TEST_CASE("the block is near what is alive") {
  constexpr uint32_t kLength = 200;
  for (uint32_t seed = 0; seed < 100; ++seed) {
    std::mt19937 draw(seed);
    std::vector<Life> lives = {{0, kLength, 4096 * kAlignment}};
    for (uint32_t cut = 0; cut < 3 + 2 * seed; ++cut) {
      const size_t l = draw() % lives.size();
      Life& life = lives[l];
      Life rest = life;
      const int64_t lines = life.bytes / kAlignment;
      if (draw() % 2 == 0 && life.end - life.first > 1)
        life.end = rest.first = life.first + 1 + draw() % (life.end - life.first - 1);
      else if (lines > 1) rest.bytes -= life.bytes = (1 + draw() % (lines - 1)) * kAlignment;
      else continue;
      lives.push_back(rest);
    }
    REQUIRE(most_alive(lives, kLength) == 4096 * kAlignment);
    const Packed packed = pack(lives, kAlignment);
    check_apart(lives, packed);
    INFO("seed " << seed << ", " << lives.size() << " lives");
    CHECK(static_cast<double>(packed.bytes) <=
          1.16 * 4096 * kAlignment);  // what docs/architecture.md promises of arenas
  }
}

TEST_CASE("lives that all meet stand one after the other") {
  const Packed packed = pack(std::vector<Life>{{0, 3, 100}, {1, 2, 0}, {0, 2, 64}}, kAlignment);
  CHECK(packed.offsets == std::vector<int64_t>{0, 128, 192});
  CHECK(packed.bytes == 256);
  CHECK(pack({}, kAlignment).bytes == 0);
}

TEST_CASE("a life that begins where another ends takes its bytes") {
  const Packed packed = pack(std::vector<Life>{{0, 2, 64}, {2, 4, 64}, {1, 3, 64}}, kAlignment);
  CHECK(packed.offsets[0] == packed.offsets[1]);
  CHECK(packed.bytes == 128);
}

TEST_CASE("a block within a limit, or none") {
  const std::vector<Life> lives = random_lives(7, 120, 60);
  const int64_t live = most_alive(lives, 60);
  CHECK(!emit::pack_within(lives, kAlignment, live - 1));
  const auto packed = emit::pack_within(lives, kAlignment, live + live / 20);
  REQUIRE(packed);
  CHECK(packed->bytes <= live + live / 20);
  check_apart(lives, *packed);
}
