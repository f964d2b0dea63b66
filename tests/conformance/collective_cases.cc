// Collectives of groups of CPU ranks.
#include "tests/conformance/collective_cases.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "runtime/hal/cpu/transport_collectives.h"
#include "schemas/plan/all_reduce_scratch.h"
#include "schemas/plan/convert_elements.h"

namespace piper::conformance {

namespace {

const hal::WaitControl kCollectiveWait{nullptr, std::chrono::seconds(60)};

// A vector that commands may point to.
template <class T>
class Shown : public std::vector<T> {
 public:
  explicit Shown(CollectiveRank& c, std::vector<T> values) : std::vector<T>(std::move(values)), rank_(c) {
    rank_.show(reinterpret_cast<std::byte*>(this->data()), this->size() * sizeof(T));
  }
  Shown(CollectiveRank& c, size_t size, T value = {}) : Shown(c, std::vector<T>(size, value)) {}
  Shown(const Shown&) = delete;
  ~Shown() { rank_.hide(reinterpret_cast<std::byte*>(this->data())); }
  hal::Address place(size_t first = 0) { return rank_.address_of(reinterpret_cast<std::byte*>(this->data() + first)); }

 private:
  CollectiveRank& rank_;
};
template <class T>
hal::Address place_of(Shown<T>& data, size_t first = 0) {
  return data.place(first);
}

void add_f32(float* dst, const float* src, int64_t count) {
  for (int64_t i = 0; i < count; ++i) dst[i] += src[i];
}

// CPU ranks over a transport.
class TransportRank : public CollectiveRank {
 public:
  explicit TransportRank(hal::Transport& transport) : transport_(transport) {}
  int32_t rank() const override { return transport_.rank(); }
  int32_t world_size() const override { return transport_.world_size(); }
  hal::Group& group(const std::vector<int32_t>& ranks) override {
    groups_.push_back(hal::make_transport_group(transport_, ranks, hal::kGroupChannels, &add_f32));
    return *groups_.back();
  }
  void show(std::byte*, size_t) override {}
  void hide(std::byte*) override {}
  hal::Address address_of(std::byte* place) override { return hal::Address(place); }
  Status run(hal::Command& command) override {
    hal::Queue queue;
    return command.issue(queue, {1, kCollectiveWait});
  }

 private:
  hal::Transport& transport_;
  std::vector<std::unique_ptr<hal::Group>> groups_;
};

hal::Group* group_of(CollectiveRank& c, const std::vector<int32_t>& ranks) { return &c.group(ranks); }
Status run(CollectiveRank& c, hal::MadeCommand& command) { return command.ok() ? c.run(**command) : command.status(); }
std::vector<int32_t> everyone(const CollectiveRank& c) {
  std::vector<int32_t> all;
  for (int32_t r = 0; r < c.world_size(); ++r) all.push_back(r);
  return all;
}
// For an all_reduce of `count` elements; a reduce_scatter's are `count` x members.
Shown<std::byte> scratch_of(CollectiveRank& c, int64_t count, const std::vector<int32_t>& group,
                            const plan::SumTypes& types) {
  const int64_t element = dtype_bytes(types.message);
  return Shown<std::byte>(
      c, static_cast<size_t>(plan::staged_bytes(count, types) +
                             plan::all_reduce_scratch_bytes(count, static_cast<int64_t>(group.size()), element)));
}

// Every group of the world's first ranks, forwards and backwards, that holds this rank.
std::vector<std::vector<int32_t>> groups_of(CollectiveRank& c) {
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
  // Very different sizes, so that another order of the sum gives other bits.
  const uint32_t mixed = static_cast<uint32_t>(i) * 2654435761u + static_cast<uint32_t>(rank) * 40503u;
  return (static_cast<float>(mixed % 20011) - 10000.f) * (mixed % 3 == 0 ? 1e-4f : mixed % 3 == 1 ? 1.f : 3e3f);
}
// Whether it is the sum of all members' element `i`: bit for bit the one in the order of the positions, where the rank
// adds so.
bool is_sum(const CollectiveRank& c, const std::vector<int32_t>& group, size_t i, float sum) {
  float expected = value_of(group[0], i), size = std::abs(expected);
  for (size_t position = 1; position < group.size(); ++position) {
    expected += value_of(group[position], i);
    size += std::abs(value_of(group[position], i));
  }
  if (c.adds_by_position()) return std::memcmp(&expected, &sum, sizeof expected) == 0;
  return std::abs(expected - sum) <= 1e-6f * size;
}

std::string sum_over(CollectiveRank& c, const std::vector<int32_t>& group, int64_t count) {
  if (std::find(group.begin(), group.end(), c.rank()) == group.end()) return "";
  Shown<float> data(c, static_cast<size_t>(count));
  Shown<std::byte> scratch = scratch_of(c, count, group, DType::kF32);
  const auto members = group_of(c, group);
  auto sum = members->all_reduce({place_of(data), {}, count, DType::kF32, place_of(scratch)});
  for (int round = 0; round < 2; ++round) {
    for (size_t i = 0; i < data.size(); ++i) data[i] = value_of(c.rank(), i);
    if (Status s = run(c, sum); !s.ok()) return s.error().message;
    for (size_t i = 0; i < data.size(); ++i) {
      if (!is_sum(c, group, i, data[i]))
        return "element " + std::to_string(i) + " of " + std::to_string(count) + " in a group of " +
               std::to_string(group.size());
    }
  }
  return "";
}

// Bit for bit the sum in position order, for every group size, also with fewer elements than members.
std::string all_reduce_bits(CollectiveRank& c) {
  for (const auto& group : groups_of(c))
    for (int64_t count : {1, 2, 3, 5, 17, 1001})
      if (std::string wrong = sum_over(c, group, count); !wrong.empty()) return wrong;
  // More than one piece per member.
  return sum_over(c, everyone(c), 1'100'003);
}

std::string all_reduce_integers(CollectiveRank& c) {
  const std::vector<int32_t> all = everyone(c);
  Shown<int64_t> data(c, std::vector<int64_t>{c.rank() + 1, (int64_t{1} << 40) + c.rank(), -c.rank()});
  Shown<std::byte> scratch = scratch_of(c, 3, all, DType::kI64);
  const auto group = group_of(c, all);
  auto sum = group->all_reduce({place_of(data), {}, 3, DType::kI64, place_of(scratch)});
  if (Status s = run(c, sum); !s.ok()) return s.error().message;
  const int64_t n = c.world_size(), below = n * (n - 1) / 2;
  return data == std::vector<int64_t>{below + n, (n << 40) + below, -below} ? "" : "wrong sums";
}

float rounded(float value, DType type) {
  uint16_t half = 0;
  convert_elements(DType::kF32, &value, type, &half, 1);
  convert_elements(type, &half, DType::kF32, &value, 1);
  return value;
}

// What travels narrow is added in f32 and rounded once, by both kinds of sum alike.
std::string narrow_messages(CollectiveRank& c) {
  const std::vector<int32_t> all = everyone(c);
  const size_t part = 777, count = part * all.size(), mine = part * static_cast<size_t>(c.rank());
  for (const DType message : {DType::kBF16, DType::kF16})
    for (const DType data_type : {DType::kF32, message}) {
      plan::SumTypes types(DType::kF32);
      types.data = data_type;
      types.message = message;
      std::vector<float> sums(count);
      Shown<float> values(c, count), parts(c, part);
      Shown<uint16_t> halves(c, count), half_parts(c, part);
      const bool narrow = data_type == message;
      for (size_t i = 0; i < count; ++i) values[i] = value_of(c.rank(), i) * 1e-3f;
      if (narrow) convert_elements(DType::kF32, values.data(), message, halves.data(), static_cast<int64_t>(count));
      const hal::Address data = narrow ? place_of(halves) : place_of(values),
                         out = narrow ? place_of(half_parts) : place_of(parts);
      Shown<std::byte> scratch = scratch_of(c, static_cast<int64_t>(count), all, types);
      const auto group = group_of(c, all);
      auto scatter = group->reduce_scatter({data, out, static_cast<int64_t>(part), types, place_of(scratch)});
      auto reduce = group->all_reduce({data, {}, static_cast<int64_t>(count), types, place_of(scratch)});
      if (Status s = run(c, scatter); !s.ok()) return s.error().message;
      if (Status s = run(c, reduce); !s.ok()) return s.error().message;
      if (narrow) {
        convert_elements(message, halves.data(), DType::kF32, sums.data(), static_cast<int64_t>(count));
        convert_elements(message, half_parts.data(), DType::kF32, parts.data(), static_cast<int64_t>(part));
      } else {
        sums = values;
      }
      for (size_t i = 0; i < count; ++i) {
        float expected = 0;
        for (const int32_t r : all) {
          const float addend = rounded(value_of(r, i) * 1e-3f, message);
          expected = r == 0 ? addend : expected + addend;
        }
        if (all.size() > 1 || narrow) expected = rounded(expected, message);
        else expected = values[i];
        if (sums[i] != expected) return "element " + std::to_string(i) + " of an all_reduce";
        if (i >= mine && i < mine + part && parts[i - mine] != expected)
          return "element " + std::to_string(i) + " of a reduce_scatter";
      }
    }
  return "";
}

std::string reduce_scatter_in(CollectiveRank& c, const std::vector<int32_t>& group, int64_t count, bool in_place) {
  const size_t part = static_cast<size_t>(count), position = position_in(group, c.rank());
  Shown<float> data(c, part * group.size() + 1), apart(c, part + 1);
  float* const out = in_place ? data.data() + position * part : apart.data();
  Shown<std::byte> scratch = scratch_of(c, count * static_cast<int64_t>(group.size()), group, DType::kF32);
  const auto members = group_of(c, group);
  auto sum = members->reduce_scatter({place_of(data), in_place ? place_of(data, position * part) : place_of(apart),
                                      count, DType::kF32, place_of(scratch)});
  for (int round = 0; round < 2; ++round) {
    for (size_t i = 0; i < data.size(); ++i) data[i] = value_of(c.rank(), i);
    apart.back() = -1;
    if (Status s = run(c, sum); !s.ok()) return s.error().message;
    for (size_t i = 0; i < part; ++i) {
      if (!is_sum(c, group, position * part + i, out[i])) return "the sum of element " + std::to_string(i) + " differs";
    }
    for (size_t i = 0; i < data.size(); ++i)
      if (!(in_place && i >= position * part && i < (position + 1) * part) && data[i] != value_of(c.rank(), i))
        return "another part was changed";
    if (apart.back() != -1) return "written behind the part";
  }
  return "";
}

// Bit for bit the sum in position order; nothing else changes.
std::string reduce_scatter_bits(CollectiveRank& c) {
  for (const auto& group : groups_of(c))
    for (int64_t count : {0, 1, 3, 17, 1001})
      for (const bool in_place : {false, true})
        if (auto wrong = in_group(reduce_scatter_in(c, group, count, in_place), group, count); !wrong.empty())
          return wrong;
  if (c.world_size() == 1) return "";
  return reduce_scatter_in(c, everyone(c), 300'007, false);  // more than one piece a member
}

std::string reduce_scatter_integers(CollectiveRank& c) {
  const std::vector<int32_t> all = everyone(c);
  std::vector<int64_t> values;
  for (int32_t r = 0; r < c.world_size(); ++r) values.push_back((int64_t{1} << 40) * (r + 1) + c.rank());
  Shown<int64_t> data(c, values), out(c, 1);
  Shown<std::byte> scratch = scratch_of(c, c.world_size(), all, DType::kI64);
  const auto group = group_of(c, all);
  auto sum = group->reduce_scatter({place_of(data), place_of(out), 1, DType::kI64, place_of(scratch)});
  if (Status s = run(c, sum); !s.ok()) return s.error().message;
  const int64_t n = c.world_size();
  return out[0] == (int64_t{1} << 40) * (c.rank() + 1) * n + n * (n - 1) / 2 ? "" : "wrong sum";
}

uint8_t byte_of(int32_t from, int32_t to, size_t i) {
  return static_cast<uint8_t>(i * 7 + i / 251 + static_cast<size_t>(from * 31 + to * 57 + 1));
}

std::string all_gather_in(CollectiveRank& c, const std::vector<int32_t>& group, size_t bytes, bool in_place) {
  const size_t position = position_in(group, c.rank());
  Shown<uint8_t> data(c, bytes * group.size() + 1, 0xee), apart(c, bytes + 1);
  uint8_t* const part = in_place ? data.data() + position * bytes : apart.data();
  const auto members = group_of(c, group);
  auto gather = members->all_gather(
      {in_place ? place_of(data, position * bytes) : place_of(apart), place_of(data), static_cast<int64_t>(bytes)});
  for (int round = 0; round < 2; ++round) {
    std::fill(data.begin(), data.end(), uint8_t{0xee});
    for (size_t i = 0; i < bytes; ++i) part[i] = byte_of(c.rank(), round, i);
    if (Status s = run(c, gather); !s.ok()) return s.error().message;
    for (size_t member = 0; member < group.size(); ++member)
      for (size_t i = 0; i < bytes; ++i)
        if (data[member * bytes + i] != byte_of(group[member], round, i))
          return "byte " + std::to_string(i) + " of position " + std::to_string(member) + " differs";
    if (data.back() != 0xee) return "written behind the parts";
  }
  return "";
}

std::string all_gather_parts(CollectiveRank& c) {
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

std::string all_to_all_in(CollectiveRank& c, const std::vector<int32_t>& group, size_t row, bool counted) {
  constexpr size_t kRows = 5;
  const size_t part = row * kRows;
  Shown<uint8_t> send(c, part * group.size()), recv(c, part * group.size() + 1);
  Shown<int64_t> to(c, group.size()), from(c, group.size());
  hal::ExchangeOperands operands{place_of(send), place_of(recv), static_cast<int64_t>(part)};
  if (counted) {
    operands.send_counts = place_of(to);
    operands.recv_counts = place_of(from);
    operands.row_bytes = static_cast<int64_t>(row);
  }
  const auto members = group_of(c, group);
  auto exchange = members->all_to_all(operands);
  for (int round = 0; round < 3; ++round) {
    std::fill(recv.begin(), recv.end(), uint8_t{0xee});
    for (size_t member = 0; member < group.size(); ++member) {
      to[member] = rows_between(c.rank(), group[member], round);
      from[member] = rows_between(group[member], c.rank(), round);
      for (size_t i = 0; i < part; ++i) send[member * part + i] = byte_of(c.rank(), group[member] + round, i);
    }
    if (Status s = run(c, exchange); !s.ok()) return s.error().message;
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

std::string all_to_all_parts(CollectiveRank& c) {
  for (const auto& group : groups_of(c))
    for (size_t row : {size_t{1}, size_t{12}, size_t{4097}})
      for (const bool counted : {false, true})
        if (auto wrong = in_group(all_to_all_in(c, group, row, counted), group, static_cast<int64_t>(row));
            !wrong.empty())
          return wrong;
  return "";
}

// Counts that do not fit are reported before anything is sent.
std::string all_to_all_counts(CollectiveRank& c) {
  const std::vector<int32_t> all = everyone(c);
  Shown<uint8_t> send(c, 16 * all.size()), recv(c, 16 * all.size());
  Shown<int64_t> to(c, all.size(), 1), from(c, all.size(), 1);
  const auto group = group_of(c, all);
  auto exchange = group->all_to_all({place_of(send), place_of(recv), 16, place_of(to), place_of(from), 8});
  const auto refused = [&](int64_t& count, int64_t value) {
    const int64_t kept = count;
    count = value;
    const Status status = run(c, exchange);
    count = kept;
    return !status.ok() && status.error().code == "R0304";
  };
  if (!refused(to[0], 3)) return "3 rows fit where 2 do";
  if (!refused(from.back(), -1)) return "-1 rows pass";
  if (!refused(from[static_cast<size_t>(c.rank())], 2)) return "a rank sends itself 1 row and receives 2";
  const Status status = run(c, exchange);
  return status.ok() ? "" : status.error().message;
}

// Collectives of several kinds follow each other on one transport.
std::string kinds_mix(CollectiveRank& c) {
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

std::string counts_that_differ(hal::Transport& transport) {
  TransportRank c(transport);
  if (c.world_size() < 2 || c.rank() > 1) return "";
  Shown<uint8_t> send(c, 32), recv(c, 32);
  const size_t self = static_cast<size_t>(c.rank()), other = 1 - self;
  for (const auto& [sent, expected] : {std::pair<int64_t, int64_t>(2, 1), {0, 1}}) {
    Shown<int64_t> to(c, 2, 1), from(c, 2, 1);
    if (c.rank() == 0) to[other] = sent;
    if (c.rank() == 1) from[other] = expected;
    const auto group = hal::make_transport_group(transport, {0, 1}, hal::kGroupChannels + 10, &add_f32);
    auto exchange = group->all_to_all({place_of(send), place_of(recv), 16, place_of(to), place_of(from), 8});
    const Status status = run(c, exchange);
    if (c.rank() == 1 && (status.ok() || (status.error().code != "R0301" && status.error().code != "R0303")))
      return std::to_string(sent) + " rows passed for " + std::to_string(expected);
  }
  return "";
}

std::vector<CollectiveCase> collective_cases() {
  return {{"all_reduce_bits", all_reduce_bits},
          {"all_reduce_integers", all_reduce_integers},
          {"narrow_messages", narrow_messages},
          {"reduce_scatter_bits", reduce_scatter_bits},
          {"reduce_scatter_integers", reduce_scatter_integers},
          {"all_gather_parts", all_gather_parts},
          {"all_to_all_parts", all_to_all_parts},
          {"all_to_all_counts", all_to_all_counts},
          {"kinds_mix", kinds_mix}};
}

std::string run_on_transport(const CollectiveCase& test, hal::Transport& transport) {
  TransportRank rank(transport);
  return test.run(rank);
}

}  // namespace piper::conformance
