// What is checked of what a rank plan declares before its instructions: streams, peers, events, buffers, tensors.
#include <algorithm>

#include "schemas/plan/rank_plan_parser.h"
#include "schemas/plan/rank_run.h"

namespace piper::plan {

namespace {

// Whoever orders a rank's instructions has a number for each pair of streams, and one for each stream at each event.
constexpr size_t kMostStreams = 4096, kMostEventsByStreams = size_t{1} << 26;
// A short text says so many ranks that it could take all memory.
constexpr size_t kMostRanksOfRuns = size_t{1} << 24;

}  // namespace

void RankPlanReader::check(const Stream&, size_t at) {
  declared_at_.push_back(at);
  if (plan_.streams.size() > kMostStreams)
    reader_.fail(kRange, at, "a rank has at most " + std::to_string(kMostStreams) + " streams");
}

void RankPlanReader::ranks(std::string_view key, std::vector<int32_t>& ranks) {
  if (!begin(key)) return;
  if (reader_.peek() != '"') {
    reader_.open_array();
    while (reader_.next_item()) ranks.push_back(reader_.small_integer());
    return;
  }
  const size_t at = reader_.position();
  const std::string text(reader_.string());
  ranks = ranks_of_run(text, shared_.world_size);
  ranks_of_runs_ += ranks.size();
  if (ranks_of_runs_ > kMostRanksOfRuns)
    reader_.fail(kRange, at, "the communicators of a rank have too many ranks together");
  else if (ranks.empty())
    reader_.fail(kSyntax, at,
                 in_quotes(text) + " is no run of at least " + std::to_string(kLeastRun) + " of the " +
                     std::to_string(shared_.world_size) + " ranks, as in \"0..63\" or \"1..505 by 8\"");
}

void RankPlanReader::check(const Communicator& communicator, size_t at) {
  declared_at_.push_back(at);
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

void RankPlanReader::check(const Channel& channel, size_t at) {
  declared_at_.push_back(at);
  if (channel.peer == plan_.rank)
    reader_.fail(
        kRange, at,
        "rank " + std::to_string(channel.peer) + " cannot be the other end of channel " + in_quotes(channel.name));
}

void RankPlanReader::read(std::string_view, SharedVector<std::string>& events, const Rule&) {
  reader_.open_array();
  while (reader_.next_item()) {
    const size_t at = reader_.position();
    events.emplace_back(reader_.string());
    declared_at_.push_back(at);
    if (events.size() * plan_.streams.size() > kMostEventsByStreams)
      reader_.fail(kRange, at,
                   "a rank of " + std::to_string(plan_.streams.size()) + " streams has at most " +
                       std::to_string(kMostEventsByStreams / plan_.streams.size()) + " events");
  }
  index_declared(event_index_, events, "event");
}

void RankPlanReader::check(const Buffer& buffer, size_t at) {
  declared_at_.push_back(at);
  if (!buffer.shape.empty() && tensor_bytes(buffer.dtype, buffer.shape, at) > buffer.bytes)
    reader_.fail(kRange, at, "the shape of buffer " + in_quotes(buffer.name) + " needs more than its bytes");
}

void RankPlanReader::check(const Placement& placement, size_t at) {
  const Part& part = placement.part;
  const int64_t size = dtype_bytes(placement.dtype);
  const int64_t elements = tensor_bytes(placement.dtype, placement.shape, at) / size;
  if (!reader_.ok()) return;
  if (!range_inside(part.first, part.count, elements))
    reader_.fail(kRange, at,
                 std::to_string(part.count) + " elements at " + std::to_string(part.first) + " go beyond the " +
                     std::to_string(elements) + " elements of the tensor");
  need(part.where, part.count * size, at);
  need_multiple(part.where, size, at);
}

void RankPlanReader::check(const Mean& mean, size_t at) {
  for (const BufferRange& where : {mean.sum, mean.count}) {
    need(where, dtype_bytes(DType::kF32), at);
    need_multiple(where, dtype_bytes(DType::kF32), at);
  }
}

void RankPlanReader::check(const ScalarValue& scalar, size_t at) {
  const auto i = static_cast<size_t>(scalar.buffer);
  const auto& target = plan_.buffers[i];
  scalar_set_.resize(plan_.buffers.size());
  if (scalar_set_[i]++) reader_.fail(kName, at, "buffer " + in_quotes(target.name) + " is set twice");
  if (target.cls != BufferClass::kScalar || target.dtype != DType::kI64 || scalar.values.empty() ||
      scalar.values.size() > static_cast<size_t>(target.bytes) / 8)
    reader_.fail(
        kRange, at,
        "buffer " + in_quotes(target.name) + " cannot hold these values: one to as many i64 scalars as it is large");
  if (scalar.holds != StepNumber::kSampleOffset && scalar.holds != StepNumber::kPlace)
    reader_.fail(kRange, at, "a plan does not set " + in_quotes(number_name(scalar.holds)));
}

}  // namespace piper::plan
