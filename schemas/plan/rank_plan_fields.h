// The members of ranks/*.json, struct by struct (fields.h). Here a visitor has as well:
//
//   v.name(key, index, Names::kStream)   an index into a list of the plan or of the bundle, as the item's name
//   v.place(key, range, size, element)   a range of `size` bytes, elements of `element` each, left out where there is
//   none
//   v.ranks(key, ranks)                  ranks of which many at equal distances are one text (rank_run.h)
// The rank plan's own: like, action, offsets, own_placements, own_arguments.
#pragma once

#include "schemas/plan/actions.h"
#include "schemas/plan/fields.h"
#include "schemas/plan/like_texts.h"

namespace piper::plan {

enum class Names : uint8_t { kProgram, kArguments, kEvent, kStream, kChannel, kCommunicator, kBuffer, kProvenance };

void fields(auto& v, Of<Stream> auto& stream) {
  v("stream", stream.name, {.unique = "streams"});
  v.optional("priority", stream.priority, Priority::kNormal);
  v.optional("max_ctas", stream.max_ctas, 0, {.least = 1, .says = "max_ctas is not positive"});
}
void fields(auto& v, Of<Communicator> auto& communicator) {
  v("communicator", communicator.name, {.unique = "communicators"});
  v.ranks("ranks", communicator.ranks);
  v.optional("max_ctas", communicator.max_ctas, 0, {.least = 1, .says = "max_ctas is not positive"});
}
void fields(auto& v, Of<Channel> auto& channel) {
  v("channel", channel.name, {.unique = "channels"});
  v("peer", channel.peer, {.least = 0});
  v("id", channel.id, {.least = 0});
}
void fields(auto& v, Of<Buffer> auto& buffer) {
  v("buffer", buffer.name, {.unique = "buffers"});
  v("class", buffer.cls, {.what = "buffer class"});
  v("bytes", buffer.bytes, {.least = 0});
  v("dtype", buffer.dtype);
  v("shape", buffer.shape, {.shape = true});
}
template <class V>
void fields(V& v, Of<Placement> auto& placement) {
  v("tensor", placement.name, {.filled = true});
  v("kind", placement.kind, {.what = "kind of placement"});
  v("dtype", placement.dtype);
  v("shape", placement.shape, {.shape = true});
  auto& part = placement.part;
  v("in", part.where);
  const int64_t whole = element_count(placement.shape).value_or(-1);
  if constexpr (V::kReads) part.count = whole;
  v.together(part.first != 0 || part.count != whole, [&] {
    v("first", part.first, {.least = 0});
    v("count", part.count, {.least = 0});
  });
  v.optional("owner", part.owner, false);
}
void fields(auto& v, Of<Mean> auto& mean) {
  v("sum", mean.sum);
  v.optional("count", mean.count, {});
}
void fields(auto& v, Of<InputSlice> auto& slice) {
  v("input", slice.input, {.filled = true});
  v("first", slice.first, {.least = 0});
  v("count", slice.count, {.least = 0});
  v("in", slice.where);
}
void fields(auto& v, Of<ScalarValue> auto& scalar) {
  v.name("scalar", scalar.buffer, Names::kBuffer);
  v("values", scalar.values, {.filled = true});
  v.optional("holds", scalar.holds, StepNumber::kSampleOffset,
             {.what = "number of the step", .about = "`\"place\"`; left out: `\"sample_offset\"`"});
}
void fields(auto& v, Of<ArgumentList> auto& list) {
  v("args", list.name, {.unique = "arguments"});
  v.optional("microbatch", list.microbatch, -1, {.least = 0, .says = "a microbatch is numbered from 0"});
  v("in", list.arguments);
}

// For a plan that is like another one.
void fields(auto& v, Of<LikePlacement> auto& item) {
  v.optional(
      "skips", item.skips, 0,
      {.least = 1, .says = "skips is not positive", .about = "placements of the other plan that this one lacks"});
  v("first", item.first, {.least = 0});
  v("offset", item.offset, {.least = 0, .about = "bytes, in the buffer"});
  v("owner", item.owner);
  v("placement", item.whole);
}
void fields(auto& v, Of<LikeArguments> auto& item) {
  v("args", item.name, {.filled = true});
  v("offsets", item.offsets, {.filled = true, .about = "pairs: number of an argument, bytes in its buffer"});
}

template <class Launch>
void launch_fields(auto& v, Launch& launch) {
  v.name(kActionName<std::remove_const_t<Launch>>, launch.program, Names::kProgram);
  v.name("args", launch.arguments, Names::kArguments);
  v.optional("workspace", launch.workspace, {});
}
void fields(auto& v, Of<Run> auto& run) { launch_fields(v, run); }
void fields(auto& v, Of<Update> auto& update) {
  launch_fields(v, update);
  v("group", update.group, {.least = 0});
}
void fields(auto& v, Of<Record> auto& record) { v.name(kActionName<Record>, record.event, Names::kEvent); }
void fields(auto& v, Of<Wait> auto& wait) { v.name(kActionName<Wait>, wait.event, Names::kEvent); }
void element_fields(auto& v, auto& moved) {
  v("count", moved.count, {.least = 0});
  v("dtype", moved.dtype);
}
template <class Message>
void message_fields(auto& v, Message& message) {
  v(kActionName<std::remove_const_t<Message>>, message.data);
  element_fields(v, message);
  v.name("channel", message.channel, Names::kChannel);
}
void fields(auto& v, Of<Send> auto& send) { message_fields(v, send); }
void fields(auto& v, Of<Recv> auto& recv) { message_fields(v, recv); }
void sum_fields(auto& v, auto& sum) {
  v("count", sum.count, {.least = 0});
  v("dtype", sum.types.data);
  v.optional("message", sum.types.message, sum.types.data);
  v.optional("sum", sum.types.sum, sum.types.data);
  v("op", sum.reduction, {.what = "reduction", .hint = "; sum is the one there is"});
  v.name("communicator", sum.communicator, Names::kCommunicator);
}
void fields(auto& v, Of<AllReduce> auto& reduce) {
  v(kActionName<AllReduce>, reduce.data);
  sum_fields(v, reduce);
}
void fields(auto& v, Of<ReduceScatter> auto& reduce) {
  v(kActionName<ReduceScatter>, reduce.data);
  v.optional("out", reduce.out, {});
  sum_fields(v, reduce);
}
template <class V>
void fields(V& v, Of<AllGather> auto& gather) {
  // In place, the range that is first is that of all parts.
  const bool apart = gather.part.buffer >= 0;
  BufferRange first = apart ? gather.part : gather.data, data = apart ? gather.data : BufferRange{};
  v(kActionName<AllGather>, first);
  v.optional("data", data, {});
  if constexpr (V::kReads) {
    gather.part = data.buffer >= 0 ? first : BufferRange{};
    gather.data = data.buffer >= 0 ? data : first;
  }
  element_fields(v, gather);
  v.name("communicator", gather.communicator, Names::kCommunicator);
}
void fields(auto& v, Of<AllToAll> auto& exchange) {
  v(kActionName<AllToAll>, exchange.send);
  v("recv", exchange.recv);
  element_fields(v, exchange);
  v.together(exchange.send_counts.buffer >= 0, [&] {
    v("send_counts", exchange.send_counts);
    v("recv_counts", exchange.recv_counts);
    v("row", exchange.row, {.least = 0});
  });
  v.name("communicator", exchange.communicator, Names::kCommunicator);
}
void fields(auto& v, Of<Instruction> auto& instruction) {
  v.action(instruction.action);
  v.name("stream", instruction.stream, Names::kStream);
  v.together(instruction.provenance >= 0, [&] { v.name("at", instruction.provenance, Names::kProvenance); });
}

// For a rank plan. `like`: the rank that it is like; -1: it is spelt out.
void head_fields(auto& v, auto& plan, int32_t& like) {
  v("rank", plan.rank, {.least = 0});
  v.like("like", like, {.least = 0});
  v("arena_bytes", plan.arena_bytes, {.least = 0});
  v.place("seed_step", plan.seed_step, 16, 8);
  v.place("learning_rate", plan.learning_rate, 8, 8);
  v.place("loss", plan.loss, 4, 4);
  v.place("grad_norm", plan.grad_norm, 4, 4);
  v.place("grad_squares", plan.grad_squares, 4, 4);
  v.place("dropped", plan.dropped, 8, 8);
  v.place("loss_scale", plan.loss_scale, 4, 4);
  v.place("overflow", plan.overflow, 4, 4);
}
// The rest of it; `like`: the plan that it is like.
void rest_fields(auto& v, auto& plan, const RankPlan* like) {
  if (like == nullptr) v("streams", plan.streams);
  v("communicators", plan.communicators);
  v("channels", plan.channels);
  if (like == nullptr) {
    v("events", plan.events);
    v("buffers", plan.buffers);
    v("placements", plan.placements);
  } else {
    v.own_placements("placements", plan, *like);
  }
  v.unless_empty("means", plan.means);
  v("inputs", plan.inputs);
  v("scalars", plan.scalars);
  if (like == nullptr) {
    v("arguments", plan.arguments);
    v("instructions", plan.instructions);
    v.offsets("offsets", plan);
  } else {
    v.own_arguments("arguments", plan, *like);
  }
}

}  // namespace piper::plan
