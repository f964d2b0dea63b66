// What a rank plan declares before its instructions: streams, peers, events, buffers, tensors and argument lists.
#include <algorithm>

#include "schemas/plan/rank_plan_parser.h"

namespace piper::plan {

namespace {

// Whoever orders a rank's instructions has a number for each pair of streams, and one for each stream at each event.
constexpr size_t kMostStreams = 4096, kMostEventsByStreams = size_t{1} << 26;

}  // namespace

void RankPlanParser::streams() {
  section("streams", [&](size_t at) {
    Stream stream;
    reader_.open_object();
    reader_.key("stream");
    stream.name = reader_.string();
    if (reader_.optional_key("priority")) {
      const size_t word_at = reader_.position();
      const auto known = enum_from_name<Priority>(reader_.string(), priority_name);
      if (!known) reader_.fail(kSyntax, word_at, "unknown priority; there are high, normal and low");
      stream.priority = known.value_or(Priority::kNormal);
    }
    stream.max_ctas = max_ctas();
    reader_.close_object();
    plan_.streams.push_back(std::move(stream));
    declared_at_.push_back(at);
    if (plan_.streams.size() > kMostStreams)
      reader_.fail(kRange, at, "a rank has at most " + std::to_string(kMostStreams) + " streams");
  });
  index_declared(stream_index_, plan_.streams, "stream");
}

int32_t RankPlanParser::max_ctas() {
  if (!reader_.optional_key("max_ctas")) return 0;
  const size_t at = reader_.position();
  const int32_t most = reader_.small_integer();
  if (most < 1) reader_.fail(kRange, at, "max_ctas is not positive");
  return most;
}

void RankPlanParser::peers() {
  section("communicators", [&](size_t at) {
    auto& communicator = plan_.communicators.emplace_back();
    reader_.open_object();
    reader_.key("communicator");
    communicator.name = reader_.string();
    reader_.key("ranks");
    reader_.open_array();
    while (reader_.next_item()) communicator.ranks.push_back(reader_.small_integer());
    communicator.max_ctas = max_ctas();
    reader_.close_object();
    declared_at_.push_back(at);
    check_members(communicator, at);
  });
  index_declared(communicator_index_, plan_.communicators, "communicator");
  section("channels", [&](size_t at) {
    auto& channel = plan_.channels.emplace_back();
    reader_.open_object();
    reader_.key("channel");
    channel.name = reader_.string();
    reader_.key("peer");
    channel.peer = reader_.small_integer();
    reader_.key("id");
    channel.id = reader_.small_integer();
    reader_.close_object();
    if (channel.peer < 0 || channel.peer == plan_.rank)
      reader_.fail(
          kRange, at,
          "rank " + std::to_string(channel.peer) + " cannot be the other end of channel " + in_quotes(channel.name));
    if (channel.id < 0) reader_.fail(kRange, at, "channel " + in_quotes(channel.name) + " has a negative id");
    declared_at_.push_back(at);
  });
  index_declared(channel_index_, plan_.channels, "channel");
}

void RankPlanParser::events() {
  section("events", [&](size_t at) {
    plan_.events.emplace_back(reader_.string());
    declared_at_.push_back(at);
    if (plan_.events.size() * plan_.streams.size() > kMostEventsByStreams)
      reader_.fail(kRange, at,
                   "a rank of " + std::to_string(plan_.streams.size()) + " streams has at most " +
                       std::to_string(kMostEventsByStreams / plan_.streams.size()) + " events");
  });
  index_declared(event_index_, plan_.events, "event");
}

void RankPlanParser::check_members(const Communicator& communicator, size_t at) {
  auto members = communicator.ranks;
  std::sort(members.begin(), members.end());
  if (!members.empty() && members.front() < 0)
    reader_.fail(kRange, at, "communicator " + in_quotes(communicator.name) + " has a negative rank");
  if (std::adjacent_find(members.begin(), members.end()) != members.end())
    reader_.fail(kName, at, "communicator " + in_quotes(communicator.name) + " has a rank twice");
  if (!std::binary_search(members.begin(), members.end(), plan_.rank))
    reader_.fail(kRange, at,
                 "communicator " + in_quotes(communicator.name) + " does not hold rank " + std::to_string(plan_.rank));
}

void RankPlanParser::buffers() {
  section("buffers", [&](size_t at) {
    auto& buffer = plan_.buffers.emplace_back();
    reader_.open_object();
    reader_.key("buffer");
    buffer.name = reader_.string();
    reader_.key("class");
    const auto cls = reader_.string();
    buffer.bytes = at_least_zero("bytes");
    buffer.dtype = dtype();
    reader_.key("shape");
    buffer.shape = reader_.integers();
    reader_.close_object();
    declared_at_.push_back(at);
    if (!reader_.ok()) return;
    const auto known = enum_from_name<BufferClass>(cls, class_name);
    if (!known) reader_.fail(kSyntax, at, "unknown buffer class " + in_quotes(cls));
    buffer.cls = known.value_or(BufferClass::kArena);
    if (!buffer.shape.empty() && tensor_bytes(buffer.dtype, buffer.shape, at) > buffer.bytes)
      reader_.fail(kRange, at, "the shape of buffer " + in_quotes(buffer.name) + " needs more than its bytes");
  });
  buffer_at_ = declared_at_;
  index_declared(buffer_index_, plan_.buffers, "buffer");
}

Part RankPlanParser::part(DType dtype, int64_t elements, size_t at) {
  Part part;
  part.where = range("in");
  part.count = elements;
  if (reader_.optional_key("first")) {
    part.first = reader_.integer();
    part.count = at_least_zero("count");
  }
  if (reader_.optional_key("owner")) part.owner = reader_.boolean();
  if (!reader_.ok()) return part;
  if (range_inside(part.first, part.count, elements)) {
    need(part.where, part.count * dtype_bytes(dtype), at);
    need_multiple(part.where, dtype_bytes(dtype), at);
  } else {
    reader_.fail(kRange, at,
                 std::to_string(part.count) + " elements at " + std::to_string(part.first) + " go beyond the " +
                     std::to_string(elements) + " elements of the tensor");
  }
  return part;
}

void RankPlanParser::placements() {
  lines([&](size_t at) {
    auto& placement = plan_.placements.emplace_back();
    reader_.open_object();
    reader_.key("tensor");
    placement.name = reader_.string();
    reader_.key("kind");
    (void)reader_.peek();
    const size_t kind_at = reader_.position();
    const auto kind = reader_.string();
    const auto known = enum_from_name<PlacementKind>(kind, kind_name);
    if (!known) reader_.fail(kSyntax, kind_at, "unknown kind of placement " + in_quotes(kind));
    placement.kind = known.value_or(PlacementKind::kValue);
    placement.dtype = dtype();
    reader_.key("shape");
    placement.shape = reader_.integers();
    const int64_t elements = tensor_bytes(placement.dtype, placement.shape, at) / dtype_bytes(placement.dtype);
    placement.part = part(placement.dtype, elements, at);
    reader_.close_object();
  });
}

void RankPlanParser::means() {
  if (!reader_.optional_key("means")) return;
  lines([&](size_t at) {
    auto& mean = plan_.means.emplace_back();
    reader_.open_object();
    mean.sum = needed("sum", dtype_bytes(DType::kF32));
    need_multiple(mean.sum, dtype_bytes(DType::kF32), at);
    mean.count = optional("count", dtype_bytes(DType::kF32));
    need_multiple(mean.count, dtype_bytes(DType::kF32), at);
    reader_.close_object();
  });
}

void RankPlanParser::tensors() {
  means();
  section("inputs", [&](size_t) {
    auto& slice = plan_.inputs.emplace_back();
    reader_.open_object();
    reader_.key("input");
    slice.input = reader_.string();
    slice.first = at_least_zero("first");
    slice.count = at_least_zero("count");
    slice.where = needed("in", 0);
    reader_.close_object();
  });
  std::vector<char> set(plan_.buffers.size());
  section("scalars", [&](size_t at) {
    auto& scalar = plan_.scalars.emplace_back();
    reader_.open_object();
    reader_.key("scalar");
    scalar.buffer = resolve(buffer_index_, "buffer");
    reader_.key("values");
    scalar.values = reader_.integers();
    reader_.close_object();
    if (!reader_.ok()) return;
    const auto i = static_cast<size_t>(scalar.buffer);
    const auto& target = plan_.buffers[i];
    if (set[i]++) reader_.fail(kName, at, "buffer " + in_quotes(target.name) + " is set twice");
    if (target.cls != BufferClass::kScalar || target.dtype != DType::kI64 || scalar.values.empty() ||
        scalar.values.size() > static_cast<size_t>(target.bytes) / 8)
      reader_.fail(
          kRange, at,
          "buffer " + in_quotes(target.name) + " cannot hold these values: one to as many i64 scalars as it is large");
  });
}

ArgumentList RankPlanParser::argument_list() {
  ArgumentList list;
  reader_.open_object();
  reader_.key("args");
  list.name = reader_.string();
  if (reader_.optional_key("microbatch")) {
    const size_t at = reader_.position();
    list.microbatch = reader_.small_integer();
    if (list.microbatch < 0) reader_.fail(kRange, at, "a microbatch is numbered from 0");
  }
  reader_.key("in");
  reader_.open_array();
  while (reader_.next_item()) list.arguments.push_back(range());
  reader_.close_object();
  return list;
}

void RankPlanParser::arguments() {
  section("arguments", [&](size_t at) {
    plan_.arguments.push_back(argument_list());
    declared_at_.push_back(at);
  });
  index_declared(argument_index_, plan_.arguments, "argument list");
}

}  // namespace piper::plan
