// The text form of a schedule.
#include <ostream>

#include "compiler/ir/section_fields.h"

namespace piper::ir {

void fields(auto& v, Of<OrderMember> auto& member) {
  v("", member.text);
  v("chunks", member.chunks);
  v("microbatches", member.microbatches, "a microbatch");
  v("phases", member.phases);
  v.flag("half", member.half);
  v("", member.span);
}

namespace {

Status parse_slot(const Module& module, ModuleReader& in, OrderSlot& slot) {
  PIPER_RETURN_IF_ERROR(in.want_word("slot"));
  PIPER_ASSIGN(slot.in_sequence, in.takes("in_sequence"));
  return in.block([&]() -> Status {
    PIPER_RETURN_IF_ERROR(in.want_word("member"));
    return read_line(module, in, slot.members.emplace_back());
  });
}

Status parse_order(const Module& module, ModuleReader& in, Order& order) {
  if (in.is_span()) {
    PIPER_ASSIGN(order.made_at, in.span());
  }
  return in.block([&] { return parse_slot(module, in, order.slots.emplace_back()); });
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
      for (const OrderMember& member : slot.members) write_line(module, out, "      member", member);
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
    return parse_order(module, in, module.schedule.orders.emplace_back());
  });
}

}  // namespace piper::ir
