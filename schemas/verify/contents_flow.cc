#include "schemas/verify/contents_flow.h"

#include <algorithm>

#include "schemas/plan/actions.h"
#include "schemas/verify/describe.h"
#include "schemas/verify/flow.h"

namespace piper::verify {

using namespace plan;

namespace {

Names tensor_names(const Bundle& bundle) {
  Names names;
  for (const auto& tensor : bundle.manifest.tensors) (void)names.id(tensor.name);
  return names;
}

std::vector<int64_t> element_counts(const Bundle& bundle) {
  std::vector<int64_t> counts;
  for (const auto& tensor : bundle.manifest.tensors) {
    int64_t count = 1;
    for (const int64_t extent : tensor.shape) count *= extent;
    counts.push_back(count);
  }
  return counts;
}

std::vector<int64_t> element_sizes(const Bundle& bundle) {
  std::vector<int64_t> sizes;
  for (const auto& tensor : bundle.manifest.tensors) sizes.push_back(dtype_bytes(tensor.dtype));
  return sizes;
}

std::vector<int64_t> running_sums(const std::vector<int64_t>& counts) {
  std::vector<int64_t> sums;
  int64_t next = 0;
  for (const int64_t count : counts) {
    sums.push_back(next);
    next += count;
  }
  return sums;
}

}  // namespace

Flow::Flow(const Bundle& bundle, const Matching& matching, Layouts& layouts, const std::vector<SlotLayouts>& slots)
    : bundle_(bundle),
      matching_(matching),
      layouts_(layouts),
      slots_(slots),
      tensors_(tensor_names(bundle)),
      first_element_(running_sums(element_counts(bundle))),
      num_elements_(element_counts(bundle)),
      element_bytes_(element_sizes(bundle)),
      working_types_(tensors_.size()),
      ledger_(bundle.manifest.batch, tensors_, first_element_, element_bytes_),
      effects_(program_effects(bundle, tensors_, ledger_.labels, ledger_.addends)),
      flight_of_(matching.first.size() - 1, -1) {
  for (size_t t = 0; t + 1 < matching.first.size(); ++t)
    missing_.push_back(static_cast<int32_t>(matching.first[t + 1] - matching.first[t]));
  for (const auto& effects : effects_)
    for (const auto& written : effects.writes) {
      made_.resize(std::max(made_.size(), static_cast<size_t>(written.what) + 1));
      made_[static_cast<size_t>(written.what)] = 1;
    }
  ranks_.reserve(bundle.ranks.size());
  for (const auto& plan : bundle.ranks) {
    ranks_.push_back({&plan, RankContents(plan), 0, false});
    ranks_.back().contents.slice.assign(tensors_.size(), -1);
  }
}

std::string Flow::here(const Rank& rank) const { return describe_instruction(bundle_, *rank.plan, rank.next); }
Status Flow::refuted(Rule rule, const Rank& rank, const std::string& what) const {
  return violates(rule, here(rank) + ": " + what);
}

Status Flow::play() {
  PIPER_RETURN_IF_ERROR(begin());
  std::vector<size_t> ready;
  for (size_t r = ranks_.size(); r-- > 0;) ready.push_back(r);
  while (!ready.empty()) {
    const size_t rank = ready.back();
    ready.pop_back();
    PIPER_RETURN_IF_ERROR(advance(rank, ready));
  }
  for (const auto& rank : ranks_)
    PIPER_CHECK(rank.next == rank.plan->instructions.size(), "rank ", rank.plan->rank,
                " stands still, though rule 4 holds");
  return check_end();
}

// In issue order, until a message has not been sent or a collective lacks a member.
Status Flow::advance(size_t r, std::vector<size_t>& ready) {
  Rank& rank = ranks_[r];
  const auto& transfers = matching_.transfer_of[static_cast<size_t>(rank.plan - bundle_.ranks.data())];
  for (; rank.next < rank.plan->instructions.size(); ++rank.next, rank.arrived = false) {
    const auto t = static_cast<size_t>(transfers[rank.next]);  // of transfers
    bool stands = false;
    PIPER_RETURN_IF_ERROR(std::visit(
        Cases{[&](const Run& now) { return run(rank, now); }, [&](const Update& now) { return update(rank, now); },
              [&](const Send& now) { return send(rank, now, t, ready); },
              [&](const Recv& now) {
                stands = !receive(rank, now, t);
                return Status();
              },
              [&](const IsCollective auto&) {
                Status done = meet(rank, t, ready);
                stands = missing_[t] > 0;
                return done;
              },
              [](const IsEvent auto&) { return Status(); }},  // rules 3 to 6
        rank.plan->instructions[rank.next].action));
    if (stands) return {};
  }
  return {};
}

Status Flow::send(Rank& rank, const Send& send, size_t transfer, std::vector<size_t>& ready) {
  if (free_flights_.empty()) {
    free_flights_.push_back(static_cast<int32_t>(flights_.size()));
    flights_.emplace_back();
  }
  flight_of_[transfer] = free_flights_.back();
  free_flights_.pop_back();
  Pieces& flight = flights_[static_cast<size_t>(flight_of_[transfer])];
  flight.clear();
  rank.contents.take(send.data, send.bytes(), flight);
  PIPER_RETURN_IF_ERROR(check_elements(rank, flight, send.dtype));
  const auto& receiver = matching_.participants[static_cast<size_t>(matching_.first[transfer]) + 1];
  const auto plan = static_cast<size_t>(receiver.plan);
  if (ranks_[plan].next == static_cast<size_t>(receiver.instruction)) ready.push_back(plan);
  return {};
}

bool Flow::receive(Rank& rank, const Recv& recv, size_t transfer) {
  if (flight_of_[transfer] < 0) return false;
  rank.contents.put(recv.data, flights_[static_cast<size_t>(flight_of_[transfer])]);
  free_flights_.push_back(flight_of_[transfer]);
  return true;
}

Status Flow::meet(Rank& rank, size_t transfer, std::vector<size_t>& ready) {
  if (rank.arrived) return {};
  rank.arrived = true;
  if (--missing_[transfer] > 0) return {};
  PIPER_RETURN_IF_ERROR(collective(static_cast<int32_t>(transfer)));
  for (auto k = matching_.first[transfer]; k < matching_.first[transfer + 1]; ++k)
    if (const auto other = static_cast<size_t>(matching_.participants[static_cast<size_t>(k)].plan);
        &ranks_[other] != &rank)
      ready.push_back(other);
  return {};
}

Result<FoundContents> check_contents(const Bundle& bundle, const Matching& matching, Layouts& layouts,
                                     const std::vector<SlotLayouts>& slots) {
  Flow flow(bundle, matching, layouts, slots);
  PIPER_RETURN_IF_ERROR(flow.play());
  return FoundContents{flow.orders_of_sums(), flow.exchanges()};
}

}  // namespace piper::verify
