#include "schemas/verify/sum_order.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <map>
#include <set>

#include "schemas/plan/actions.h"
#include "schemas/verify/held_name.h"
#include "schemas/verify/order_digest.h"

namespace piper::verify {

using namespace plan;

namespace {

// Each element once; neighbours of one order are one range, however they are split over ranks.
void merge(std::vector<SummedElements>& sums) {
  std::sort(sums.begin(), sums.end(), [](const auto& a, const auto& b) { return a.key() < b.key(); });
  std::vector<SummedElements> merged;
  for (const SummedElements& next : sums) {
    if (!merged.empty() && merged.back().order == next.order) {
      SampleRange& last = merged.back().elements;
      if (next.elements.first <= last.first + last.count) {
        last.count = std::max(last.count, next.elements.first + next.elements.count - last.first);
        continue;
      }
    }
    merged.push_back(next);
  }
  sums = std::move(merged);
}

// By gradient: the ways in which programs add to it, each a sequence of kernels.
using Makers = std::map<std::string, std::set<std::string>>;
void note_makers(const Program& program, Makers& makers) {
  std::map<int32_t, std::string> kernels;  // by slot
  for (const KernelCall& call : program.calls)
    for (const Operand& output : call.outputs)
      if (const Slot* const slot = output.slot < 0 ? nullptr : &program.slots[static_cast<size_t>(output.slot)];
          slot != nullptr && slot->role == SlotRole::kGradient && !slot->of.empty())
        kernels[output.slot] += call.kernel.text() + " ";
  for (const auto& [slot, sequence] : kernels)
    makers[held_name(program.slots[static_cast<size_t>(slot)])].insert(sequence);
}

void note_types(const RankPlan& rank, std::set<std::vector<DType>>& types) {
  for (const Instruction& instruction : rank.instructions) {
    if (const auto sum = sum_types_of(instruction.action)) types.insert({sum->data, sum->message, sum->sum});
  }
}

}  // namespace

std::string sum_order(const Bundle& bundle, OrdersOfSums found) {
  merge(found.gradients);
  OrderDigest digest;
  for (const SummedElements& sum : found.gradients)
    digest.add(sum.elements.first).add(sum.elements.count).add(sum.order);
  std::sort(found.norms.begin(), found.norms.end());
  found.norms.erase(std::unique(found.norms.begin(), found.norms.end()), found.norms.end());
  for (const uint64_t norm : found.norms) digest.add(norm);
  digest.add(found.loss);
  Makers makers;
  for (const Program& program : bundle.programs) note_makers(program, makers);
  for (const auto& [gradient, sequences] : makers) {
    digest.add(gradient);
    for (const std::string& sequence : sequences) digest.add(sequence);
  }
  // A product of parts is added up place by place.
  for (const TensorInfo& tensor : bundle.manifest.tensors)
    if (tensor.cut)
      digest.add(tensor.name)
          .add(int64_t{tensor.cut->axis})
          .add(bundle.manifest.cuts.at(static_cast<size_t>(tensor.cut->cut)).places());
  std::set<std::vector<DType>> types;
  std::set<const void*> seen;  // instructions that several ranks share
  for (const RankPlan& rank : bundle.ranks)
    if (seen.insert(rank.instructions.storage()).second) note_types(rank, types);
  for (const auto& sum : types)
    if (sum[1] != sum[0] || sum[2] != sum[0])
      for (const DType type : sum) digest.add(static_cast<int64_t>(type));
  if (!types.empty()) digest.add(static_cast<int64_t>(bundle.manifest.target.summing));
  char text[17];
  std::snprintf(text, sizeof text, "%016" PRIx64, digest.value());
  return text;
}

}  // namespace piper::verify
