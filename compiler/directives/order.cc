#include "compiler/directives/order.h"

#include "compiler/strategy/directive_args.h"
#include "compiler/strategy/filter.h"

namespace piper::directives {

using strategy::ArgKind;

const strategy::DirectiveSpec& order_spec() {
  static const strategy::DirectiveSpec spec = {
      .name = "order",
      .summary = "sets the order in which passes run",
      .doc =
          "`filters` is a list of groups, and each group is a list of filters. On each device, the groups run one "
          "after the other, in the order of the list. The filters of one group overlap: while the chunks of one filter "
          "wait for communication, chunks of another filter run. A group may instead contain one nested list, [[{...}, "
          "{...}]]. The passes of this group run exactly in the order of the nested list.\n\nA filter that names the "
          "pass BI or BW splits the backward pass into two halves. BI computes the gradients of the activations and "
          "must come before BW, which computes those of the weights. An order between passes on different devices is "
          "allowed only if it follows from the data dependences.\n\nAll passes that one filter matches run as one "
          "unit, so no other pass can run between two of them. It is an error if a pass outside the unit reads a "
          "result of the unit, and the unit reads a result of this pass.",
      .args =
          {
              {"filters", ArgKind::kFilterGroups, true, "", "the groups, each a list of filters", {}},
          },
      .example = "{op: order, filters: [[{PP: 0, MB: 0, PASS: F}], [{PP: 0, MB: 0, PASS: B}]]}",
      .filter_forbids = {},
  };
  return spec;
}

namespace {

// The nodes that a filter matches.
Result<ir::OrderMember> resolve_member(const strategy::Filter& filter, const Resolution& draft,
                                       diag::Diagnostics& diags) {
  PIPER_ASSIGN(Selection selection, draft.selector.select(filter, diags));
  ir::OrderMember member;
  member.chunks = std::move(selection.chunks);
  member.microbatches = std::move(selection.microbatches);
  member.phases = matched_phases(filter.pass);
  member.half = names_half(filter);
  member.text = strategy::to_string(filter);
  member.span = filter.span;
  return member;
}

}  // namespace

Status resolve_order(const strategy::Directive& directive, Resolution& draft, diag::Diagnostics& diags) {
  const auto* groups = strategy::find_arg<strategy::FilterGroups>(directive, "filters");
  if (groups == nullptr) return strategy::required_arg<strategy::FilterGroups>(directive, "filters").take_status();
  ir::Order order;
  if (!directive.made_by.empty()) order.made_at = directive.span;
  for (const std::vector<strategy::Filter>& group : *groups) {
    ir::OrderSlot slot;
    slot.in_sequence = group[0].in_sequence;
    for (const strategy::Filter& filter : group) {
      PIPER_ASSIGN(ir::OrderMember member, resolve_member(filter, draft, diags));
      slot.members.push_back(std::move(member));
    }
    order.slots.push_back(std::move(slot));
  }
  for (size_t g = 0; g < groups->size(); ++g)
    for (size_t f = 0; f < (*groups)[g].size(); ++f) {
      const strategy::Filter& filter = (*groups)[g][f];
      for (const strategy::FilterTerm& term : filter.terms) draft.schedule.told_apart_by.insert(term.tag);
      const ir::OrderMember& member = order.slots[g].members[f];
      if (!member.half) continue;
      const bool input = *filter.pass == strategy::Pass::kBI;
      for (ir::ChunkId region : member.chunks)
        for (int32_t m : member.microbatches) {
          HalfNames& names = draft.halves[region.index * draft.step.num_microbatches + m];
          (input ? names.input : names.weight) = filter.span;
        }
    }
  draft.schedule.orders.push_back(std::move(order));
  return Status();
}

Status split_backwards(Resolution& draft, diag::Diagnostics& diags) {
  for (size_t r = 0; r < draft.regions.size(); ++r)
    for (int32_t m = 0; m < draft.step.num_microbatches; ++m) {
      const HalfNames& names = draft.halves[r * draft.step.num_microbatches + m];
      if (names.input.has_value() != names.weight.has_value()) {
        auto error = diags.error("P0222", names.input ? *names.input : *names.weight);
        error << (names.input ? "BI" : "BW") << " of " << draft.regions[r].name << ", microbatch " << m
              << ", is ordered, its " << (names.input ? "BW" : "BI") << " is not";
        error.help("name both halves, BI before BW");
        return error;
      }
      if (names.input) draft.distribution.chunks[r].backward_split = true;
    }
  return Status();
}

}  // namespace piper::directives
