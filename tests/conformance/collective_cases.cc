// The collectives that move parts: reduce_scatter, all_gather, all_to_all.
#include "tests/conformance/collective_cases.h"

#include <algorithm>
#include <cstring>

#include "runtime/hal/cpu/all_gather.h"
#include "runtime/hal/cpu/all_to_all.h"
#include "runtime/hal/cpu/reduce_scatter.h"
#include "schemas/plan/all_reduce_scratch.h"

namespace piper::conformance {

namespace {

const hal::WaitControl kWait{nullptr, std::chrono::seconds(60)};

template <class T>
std::byte* bytes_of(std::vector<T>& data) {
  return reinterpret_cast<std::byte*>(data.data());
}

// Every group of the world's first ranks, forwards and backwards, that holds this rank.
std::vector<std::vector<int32_t>> groups_of(hal::Transport& c) {
  std::vector<std::vector<int32_t>> groups;
  for (int32_t size = c.rank() + 1; size <= c.world_size(); ++size) {
    std::vector<int32_t> forward;
    for (int32_t r = 0; r < size; ++r) forward.push_back(r);
    groups.push_back(forward);
    if (size > 1) groups.emplace_back(forward.rbegin(), forward.rend());
  }
  return groups;
}
size_t position_in(const std::vector<int32_t>& group, int32_t rank) {
  return static_cast<size_t>(std::find(group.begin(), group.end(), rank) - group.begin());
}
std::string in_group(const std::string& wrong, const std::vector<int32_t>& group, int64_t size) {
  return wrong.empty() ? ""
                       : wrong + " (" + std::to_string(size) + " a part, group of " + std::to_string(group.size()) +
                             " from rank " + std::to_string(group[0]) + ")";
}

float value_of(int32_t rank, size_t i) {
  // Of very different sizes, so that another order of the sum gives other bits.
  const uint32_t mixed = static_cast<uint32_t>(i) * 2654435761u + static_cast<uint32_t>(rank) * 40503u;
  return (static_cast<float>(mixed % 20011) - 10000.f) * (mixed % 3 == 0 ? 1e-4f : mixed % 3 == 1 ? 1.f : 3e3f);
}
void add_f32(float* dst, const float* src, int64_t count) {
  for (int64_t i = 0; i < count; ++i) dst[i] += src[i];
}

std::string reduce_scatter_in(hal::Transport& c, const std::vector<int32_t>& group, int64_t count, bool in_place) {
  const size_t part = static_cast<size_t>(count), position = position_in(group, c.rank());
  std::vector<float> data(part * group.size() + 1), apart(part + 1);
  float* const out = in_place ? data.data() + position * part : apart.data();
  std::vector<std::byte> scratch(
      static_cast<size_t>(plan::reduce_scatter_scratch_bytes(count, static_cast<int64_t>(group.size()), 4)));
  auto sum =
      hal::ReduceScatter::prepare(c, {group, hal::kGroupChannels, bytes_of(data), reinterpret_cast<std::byte*>(out),
                                      count, DType::kF32, scratch.data(), &add_f32});
  for (int round = 0; round < 2; ++round) {
    for (size_t i = 0; i < data.size(); ++i) data[i] = value_of(c.rank(), i);
    apart.back() = -1;
    if (Status s = sum->run(kWait); !s.ok()) return s.error().message;
    for (size_t i = 0; i < part; ++i) {
      float expected = value_of(group[0], position * part + i);
      for (size_t member = 1; member < group.size(); ++member) expected += value_of(group[member], position * part + i);
      if (std::memcmp(&expected, &out[i], sizeof expected) != 0)
        return "the sum of element " + std::to_string(i) + " differs";
    }
    for (size_t i = 0; i < data.size(); ++i)
      if (!(in_place && i >= position * part && i < (position + 1) * part) && data[i] != value_of(c.rank(), i))
        return "another part was changed";
    if (apart.back() != -1) return "written behind the part";
  }
  return "";
}

// Bit for bit the sum in position order; nothing else changes.
std::string reduce_scatter_bits(hal::Transport& c) {
  for (const auto& group : groups_of(c))
    for (int64_t count : {0, 1, 3, 17, 1001})
      for (const bool in_place : {false, true})
        if (auto wrong = in_group(reduce_scatter_in(c, group, count, in_place), group, count); !wrong.empty())
          return wrong;
  if (c.world_size() == 1) return "";
  std::vector<int32_t> all;
  for (int32_t r = 0; r < c.world_size(); ++r) all.push_back(r);
  return reduce_scatter_in(c, all, 300'007, false);  // more than one piece a member
}

std::string reduce_scatter_integers(hal::Transport& c) {
  std::vector<int32_t> all;
  for (int32_t r = 0; r < c.world_size(); ++r) all.push_back(r);
  std::vector<int64_t> data, out(1);
  for (int32_t r = 0; r < c.world_size(); ++r) data.push_back((int64_t{1} << 40) * (r + 1) + c.rank());
  std::vector<std::byte> scratch(static_cast<size_t>(plan::reduce_scatter_scratch_bytes(1, c.world_size(), 8)));
  auto sum = hal::ReduceScatter::prepare(
      c, {all, hal::kGroupChannels, bytes_of(data), bytes_of(out), 1, DType::kI64, scratch.data(), &add_f32});
  if (Status s = sum->run(kWait); !s.ok()) return s.error().message;
  const int64_t n = c.world_size();
  return out[0] == (int64_t{1} << 40) * (c.rank() + 1) * n + n * (n - 1) / 2 ? "" : "wrong sum";
}

uint8_t byte_of(int32_t from, int32_t to, size_t i) {
  return static_cast<uint8_t>(i * 7 + i / 251 + static_cast<size_t>(from * 31 + to * 57 + 1));
}

std::string all_gather_in(hal::Transport& c, const std::vector<int32_t>& group, size_t bytes, bool in_place) {
  const size_t position = position_in(group, c.rank());
  std::vector<uint8_t> data(bytes * group.size() + 1, 0xee), apart(bytes + 1);
  uint8_t* const part = in_place ? data.data() + position * bytes : apart.data();
  auto gather = hal::AllGather::prepare(c, {group, hal::kGroupChannels + 1, reinterpret_cast<std::byte*>(part),
                                            bytes_of(data), static_cast<int64_t>(bytes)});
  for (int round = 0; round < 2; ++round) {
    std::fill(data.begin(), data.end(), uint8_t{0xee});
    for (size_t i = 0; i < bytes; ++i) part[i] = byte_of(c.rank(), round, i);
    if (Status s = gather->run(kWait); !s.ok()) return s.error().message;
    for (size_t member = 0; member < group.size(); ++member)
      for (size_t i = 0; i < bytes; ++i)
        if (data[member * bytes + i] != byte_of(group[member], round, i))
          return "byte " + std::to_string(i) + " of position " + std::to_string(member) + " differs";
    if (data.back() != 0xee) return "written behind the parts";
  }
  return "";
}

std::string all_gather_parts(hal::Transport& c) {
  for (const auto& group : groups_of(c))
    for (size_t bytes : {size_t{0}, size_t{1}, size_t{3}, size_t{64}, size_t{4097}, size_t{200'003}})
      for (const bool in_place : {false, true})
        if (auto wrong = in_group(all_gather_in(c, group, bytes, in_place), group, static_cast<int64_t>(bytes));
            !wrong.empty())
          return wrong;
  return "";
}

// Rows from one rank to another, uneven, none for some pairs; each round others.
int64_t rows_between(int32_t from, int32_t to, int round) { return (from * 3 + to * 5 + round * 2) % 5; }

std::string all_to_all_in(hal::Transport& c, const std::vector<int32_t>& group, size_t row, bool counted) {
  constexpr size_t kRows = 5;
  const size_t part = row * kRows;
  std::vector<uint8_t> send(part * group.size()), recv(part * group.size() + 1);
  std::vector<int64_t> to(group.size()), from(group.size());
  hal::AllToAllSpec spec{group, hal::kGroupChannels, bytes_of(send), bytes_of(recv), static_cast<int64_t>(part)};
  if (counted) {
    spec.send_counts = to.data();
    spec.recv_counts = from.data();
    spec.row_bytes = static_cast<int64_t>(row);
  }
  auto exchange = hal::AllToAll::prepare(c, spec);
  for (int round = 0; round < 3; ++round) {
    std::fill(recv.begin(), recv.end(), uint8_t{0xee});
    for (size_t member = 0; member < group.size(); ++member) {
      to[member] = rows_between(c.rank(), group[member], round);
      from[member] = rows_between(group[member], c.rank(), round);
      for (size_t i = 0; i < part; ++i) send[member * part + i] = byte_of(c.rank(), group[member] + round, i);
    }
    if (Status s = exchange->run(kWait); !s.ok()) return s.error().message;
    for (size_t member = 0; member < group.size(); ++member) {
      const size_t travelled = counted ? static_cast<size_t>(from[member]) * row : part;
      for (size_t i = 0; i < part; ++i) {
        const uint8_t expected = i < travelled ? byte_of(group[member], c.rank() + round, i) : uint8_t{0xee};
        if (recv[member * part + i] != expected)
          return "byte " + std::to_string(i) + " from position " + std::to_string(member) + " differs in round " +
                 std::to_string(round);
      }
    }
    if (recv.back() != 0xee) return "written behind the parts";
  }
  return "";
}

std::string all_to_all_parts(hal::Transport& c) {
  for (const auto& group : groups_of(c))
    for (size_t row : {size_t{1}, size_t{12}, size_t{4097}})
      for (const bool counted : {false, true})
        if (auto wrong = in_group(all_to_all_in(c, group, row, counted), group, static_cast<int64_t>(row));
            !wrong.empty())
          return wrong;
  return "";
}

// Counts that do not fit are told before anything is sent.
std::string all_to_all_counts(hal::Transport& c) {
  std::vector<int32_t> all;
  for (int32_t r = 0; r < c.world_size(); ++r) all.push_back(r);
  std::vector<uint8_t> send(16 * all.size()), recv(16 * all.size());
  std::vector<int64_t> to(all.size(), 1), from(all.size(), 1);
  auto exchange = hal::AllToAll::prepare(
      c, {all, hal::kGroupChannels, bytes_of(send), bytes_of(recv), 16, to.data(), from.data(), 8});
  const auto refused = [&](int64_t& count, int64_t value) {
    const int64_t kept = count;
    count = value;
    const Status status = exchange->run(kWait);
    count = kept;
    return !status.ok() && status.error().code == "R0304";
  };
  if (!refused(to[0], 3)) return "3 rows fit where 2 do";
  if (!refused(from.back(), -1)) return "-1 rows pass";
  if (!refused(from[static_cast<size_t>(c.rank())], 2)) return "a rank sends itself 1 row and receives 2";
  const Status status = exchange->run(kWait);
  return status.ok() ? "" : status.error().message;
}

// Collectives of several kinds follow each other on one transport.
std::string kinds_mix(hal::Transport& c) {
  std::vector<int32_t> all;
  for (int32_t r = c.world_size() - 1; r >= 0; --r) all.push_back(r);
  for (int round = 0; round < 3; ++round) {
    if (auto wrong = reduce_scatter_in(c, all, 33, round % 2 == 0); !wrong.empty()) return wrong;
    if (auto wrong = all_to_all_in(c, all, 5, true); !wrong.empty()) return wrong;
    if (auto wrong = all_gather_in(c, all, 77, round % 2 == 1); !wrong.empty()) return wrong;
  }
  return "";
}

}  // namespace

std::string counts_that_differ(hal::Transport& c) {
  if (c.world_size() < 2 || c.rank() > 1) return "";
  std::vector<uint8_t> send(32), recv(32);
  const size_t self = static_cast<size_t>(c.rank()), other = 1 - self;
  for (const auto& [sent, expected] : {std::pair<int64_t, int64_t>(2, 1), {0, 1}}) {
    std::vector<int64_t> to(2, 1), from(2, 1);
    if (c.rank() == 0) to[other] = sent;
    if (c.rank() == 1) from[other] = expected;
    hal::AllToAllSpec spec{{0, 1}, hal::kGroupChannels + 10, bytes_of(send), bytes_of(recv), 16, to.data(), from.data(),
                           8};
    const Status status = hal::AllToAll::prepare(c, spec)->run(kWait);
    if (c.rank() == 1 && (status.ok() || (status.error().code != "R0301" && status.error().code != "R0303")))
      return std::to_string(sent) + " rows passed for " + std::to_string(expected);
  }
  return "";
}

std::vector<Case> collective_cases() {
  return {{"reduce_scatter_bits", reduce_scatter_bits}, {"reduce_scatter_integers", reduce_scatter_integers},
          {"all_gather_parts", all_gather_parts},       {"all_to_all_parts", all_to_all_parts},
          {"all_to_all_counts", all_to_all_counts},     {"kinds_mix", kinds_mix}};
}

}  // namespace piper::conformance
