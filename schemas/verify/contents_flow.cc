#include "schemas/verify/contents_flow.h"

#include <algorithm>

#include "schemas/plan/actions.h"
#include "schemas/plan/element_order.h"
#include "schemas/plan/like_ranks.h"
#include "schemas/verify/describe.h"
#include "schemas/verify/flow.h"
#include "schemas/verify/flow_replicas.h"
#include "schemas/verify/flow_transfers.h"

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
    for (const int64_t extent : plan::counted_shape(bundle.manifest, tensor)) count *= extent;
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

Flow::Flow(const Bundle& bundle, Layouts& layouts, const std::vector<SlotLayouts>& slots)
    : bundle_(bundle),
      meetings_(bundle),
      layouts_(layouts),
      slots_(slots),
      tensors_(tensor_names(bundle)),
      first_element_(running_sums(element_counts(bundle))),
      num_elements_(element_counts(bundle)),
      element_bytes_(element_sizes(bundle)),
      working_types_(tensors_.size()),
      places_(bundle.manifest),
      ledger_(bundle.manifest.batch, places_.of_cuts(), tensors_, first_element_, element_bytes_),
      effects_(program_effects(bundle, tensors_, ledger_.labels, ledger_.addends)),
      like_(like_ranks(bundle)),
      transfers_(std::make_unique<Transfers>(*this)) {
  for (const auto& effects : effects_)
    for (const auto& written : effects.writes) {
      made_.resize(std::max(made_.size(), static_cast<size_t>(written.what) + 1));
      made_[static_cast<size_t>(written.what)] = 1;
    }
  ranks_.reserve(bundle.ranks.size());
  std::vector<const BufferSlots*> slots_of(bundle.ranks.size());
  std::vector<std::vector<const RankPlan*>> alike(bundle.ranks.size());  // [first of them]
  for (size_t p = 0; p < bundle.ranks.size(); ++p)
    alike[like_[p] < 0 ? p : static_cast<size_t>(like_[p])].push_back(&bundle.ranks[p]);
  for (size_t p = 0; p < bundle.ranks.size(); ++p) {
    const RankPlan& plan = bundle.ranks[p];
    if (like_[p] < 0)
      buffer_slots_.push_back(std::make_unique<BufferSlots>(buffer_slots(plan, alike[p], bundle.manifest)));
    slots_of[p] = like_[p] < 0 ? buffer_slots_.back().get() : slots_of[static_cast<size_t>(like_[p])];
    ranks_.push_back({&plan, RankContents(plan, *slots_of[p])});
    ranks_.back().contents.slice.assign(tensors_.size(), -1);
  }
}

Flow::~Flow() = default;

std::string Flow::here(const Rank& rank) const { return describe_instruction(bundle_, *rank.plan, rank.next); }
Status Flow::refuted(Rule rule, const Rank& rank, const std::string& what) const {
  return violates(rule, here(rank) + ": " + what);
}

Exchanges Flow::exchanges() const { return transfers_->exchanges(); }

Status Flow::play(bool by_replicas) {
  PIPER_RETURN_IF_ERROR(begin());
  if (by_replicas)
    if (Replicas replicas(*this); replicas.several()) {
      num_replicas_ = static_cast<int64_t>(replicas.count());
      in_vain_ = !replicas.play();
      if (in_vain_) return {};
    }
  std::vector<size_t> ready;
  for (size_t r = ranks_.size(); r-- > 0;) ready.push_back(r);
  while (!ready.empty()) {
    const size_t rank = ready.back();
    ready.pop_back();
    PIPER_RETURN_IF_ERROR(advance(rank, ready));
  }
  for (const auto& rank : ranks_)
    PIPER_CHECK(rank.next == rank.plan->instructions.size(), "rank ", rank.plan->rank,
                " does not continue, although rule 4 holds");
  return check_end();
}

// In issue order, until a message has not been sent or a collective lacks a member.
Status Flow::advance(size_t r, std::vector<size_t>& ready) {
  Rank& rank = ranks_[r];
  for (; rank.next < rank.plan->instructions.size(); ++rank.next, rank.arrived = false) {
    if (rank.next == rank.stop) return {};
    bool stands = false;
    PIPER_RETURN_IF_ERROR(std::visit(
        Cases{[&](const Run& now) { return run(rank, now); }, [&](const Update& now) { return update(rank, now); },
              [&](const Send& now) { return transfers_->send(rank, now, ready); },
              [&](const Recv& now) {
                stands = !transfers_->receive(rank, now);
                return Status();
              },
              [&](const IsCollective auto& now) {
                Status done = transfers_->meet(rank, now.communicator, ready);
                stands = !transfers_->has_met(rank, now.communicator);
                return done;
              },
              [](const IsEvent auto&) { return Status(); }},  // rules 3 to 6
        rank.plan->instructions[rank.next].action));
    if (stands) return {};
  }
  return {};
}

Result<FoundContents> check_contents(const Bundle& bundle, Layouts& layouts, const std::vector<SlotLayouts>& slots) {
  {
    Flow flow(bundle, layouts, slots);
    Status status = flow.play(true);
    if (!flow.has_replicas() && !status.ok()) return status;
    if (status.ok() && !flow.in_vain())
      return FoundContents{flow.orders_of_sums(), flow.exchanges(), flow.num_replicas()};
  }
  Flow flow(bundle, layouts, slots);
  PIPER_RETURN_IF_ERROR(flow.play(false));
  return FoundContents{flow.orders_of_sums(), flow.exchanges()};
}

}  // namespace piper::verify
