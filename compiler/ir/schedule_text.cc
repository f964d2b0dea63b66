// The text form of a schedule.
#include <ostream>

#include "compiler/ir/attrs_text.h"
#include "compiler/ir/module_sections.h"

namespace piper::ir {
namespace {

void print_member(const OrderMember& member, std::ostream& out) {
  out << "      member " << string_literal(member.text) << " chunks " << ranges_text(member.chunks) << " microbatches "
      << ranges_text(member.microbatches) << " phases " << list_text(member.phases, phase_text)
      << (member.half ? " half " : " ") << span_text(member.span) << "\n";
}

Result<OrderMember> parse_member(ModuleReader& in) {
  OrderMember member;
  PIPER_RETURN_IF_ERROR(in.want_word("member"));
  PIPER_ASSIGN(member.text, in.string());
  PIPER_RETURN_IF_ERROR(in.field("chunks", member.chunks, "a chunk"));
  PIPER_RETURN_IF_ERROR(in.field("microbatches", member.microbatches, "a microbatch"));
  PIPER_RETURN_IF_ERROR(in.want_word("phases"));
  PIPER_ASSIGN(member.phases, in.list_of<Phase>([&] { return in.phase(); }));
  PIPER_ASSIGN(member.half, in.takes("half"));
  PIPER_ASSIGN(member.span, in.span());
  return member;
}

Result<OrderSlot> parse_slot(ModuleReader& in) {
  OrderSlot slot;
  PIPER_RETURN_IF_ERROR(in.want_word("slot"));
  PIPER_ASSIGN(slot.in_sequence, in.takes("in_sequence"));
  PIPER_RETURN_IF_ERROR(in.block([&]() -> Status {
    PIPER_ASSIGN(OrderMember member, parse_member(in));
    slot.members.push_back(std::move(member));
    return {};
  }));
  return slot;
}

Result<Order> parse_order(ModuleReader& in) {
  Order order;
  if (in.is_span()) {
    PIPER_ASSIGN(order.made_at, in.span());
  }
  PIPER_RETURN_IF_ERROR(in.block([&]() -> Status {
    PIPER_ASSIGN(OrderSlot slot, parse_slot(in));
    order.slots.push_back(std::move(slot));
    return {};
  }));
  return order;
}

}  // namespace

void print_schedule_section(const Module& module, std::ostream& out) {
  const Schedule& schedule = module.schedule;
  if (schedule == Schedule()) return;
  out << "schedule {\n";
  if (!schedule.told_apart_by.empty())
    out << "  told_apart_by " << list_text(schedule.told_apart_by, string_literal) << "\n";
  for (const Order& order : schedule.orders) {
    out << "  order " << (order.made_at ? span_text(*order.made_at) + " " : "") << "{\n";
    for (const OrderSlot& slot : order.slots) {
      out << "    slot " << (slot.in_sequence ? "in_sequence " : "") << "{\n";
      for (const OrderMember& member : slot.members) print_member(member, out);
      out << "    }\n";
    }
    out << "  }\n";
  }
  out << "}\n";
}

Status parse_schedule_section(ModuleReader& in, Module& module) {
  return in.block([&]() -> Status {
    PIPER_ASSIGN(const bool tags, in.takes("told_apart_by"));
    if (tags)
      return in.list([&]() -> Status {
        PIPER_ASSIGN(std::string tag, in.string());
        module.schedule.told_apart_by.insert(std::move(tag));
        return {};
      });
    if (!in.is_word("order")) return in.fail("expected told_apart_by, order or '}'");
    PIPER_RETURN_IF_ERROR(in.advance());
    PIPER_ASSIGN(Order order, parse_order(in));
    module.schedule.orders.push_back(std::move(order));
    return {};
  });
}

}  // namespace piper::ir
