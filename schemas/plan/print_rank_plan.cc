#include "schemas/plan/bundle_io.h"
#include "schemas/plan/json_writer.h"
#include "schemas/plan/like_ranks.h"
#include "schemas/plan/names.h"

namespace piper::plan {
namespace {

template <class Items>
const auto& at(const Items& items, int32_t index, const char* what) {
  PIPER_CHECK(index >= 0 && static_cast<size_t>(index) < items.size(), what, " ", index, " of ", items.size());
  return items[static_cast<size_t>(index)];
}

// The names of a list, by the index of an item.
template <class Items>
class PrintedNames {
 public:
  PrintedNames(const Items& items, const char* what, JsonWriter& json) : items_(items), what_(what), json_(json) {}

  // As a JSON string, `open` without its closing quote.
  void print(int32_t index, bool open = false) const {
    json_.raw("\"");
    json_.string_body(name(at(items_, index, what_)));
    if (!open) json_.raw("\"");
  }

 private:
  static std::string_view name(const auto& item) {
    if constexpr (requires { item.name; }) return item.name;
    else if constexpr (requires { item.key; }) return item.key;
    else return item;
  }
  const Items& items_;
  const char* what_;
  JsonWriter& json_;
};

// Prints one rank plan; the instructions one method a kind.
class RankPlanPrinter {
 public:
  RankPlanPrinter(const RankPlan& plan, const std::vector<ProvenanceEntry>& provenance,
                  const std::vector<Program>& programs, const RankPlan* like, JsonWriter& json)
      : plan_(plan),
        like_(like),
        json_(json),
        buffers_(plan.buffers, "buffer", json),
        arguments_(plan.arguments, "argument list", json),
        events_(plan.events, "event", json),
        streams_(plan.streams, "stream", json),
        channels_(plan.channels, "channel", json),
        communicators_(plan.communicators, "communicator", json),
        places_(provenance, "provenance", json),
        programs_(programs, "program", json) {
    json_.clear();
    json_.reserve(like == nullptr ? 1024 + 144 * plan.instructions.size() + 192 * plan.buffers.size() : 8192);
  }

  void print() {
    json_.begin_file();
    header();
    if (like_ == nullptr) streams();
    peers();
    if (like_ == nullptr) {
      int32_t next = 0;
      section("events", plan_.events, [&](const std::string&) { events_.print(next++); });
      buffers();
    }
    tensors();
    if (like_ != nullptr) {
      own_arguments();
    } else {
      json_.next_member();
      arguments();
      instructions();
      offsets();
    }
    json_.end_file();
  }

 private:
  void range_body(const BufferRange& range) {
    const bool offset = range.offset != 0 || ends_like_offset(at(plan_.buffers, range.buffer, "buffer").name);
    buffers_.print(range.buffer, offset);
    if (!offset) return;
    json_.raw("+");
    json_.number(range.offset);
    json_.raw("\"");
  }
  void range(std::string_view key, const BufferRange& where) {
    json_.key(key);
    range_body(where);
  }
  void optional_range(std::string_view key, const BufferRange& where) {
    if (where.buffer >= 0) range(key, where);
  }
  void name(std::string_view key, std::string_view value) {
    json_.key(key);
    json_.string(value);
  }
  template <class Items>
  void name(std::string_view key, const PrintedNames<Items>& names, int32_t index) {
    json_.key(key);
    names.print(index);
  }
  void number(std::string_view key, int64_t value) {
    json_.key(key);
    json_.number(value);
  }
  void shape(const std::vector<int64_t>& extents) {
    json_.key("shape");
    json_.numbers(extents);
  }

  void header() {
    number("rank", plan_.rank);
    json_.next_member();
    if (like_ != nullptr) {
      number("like", like_->rank);
      json_.next_member();
    }
    number("arena_bytes", plan_.arena_bytes);
    member("seed_step", plan_.seed_step);
    member("learning_rate", plan_.learning_rate);
    member("loss", plan_.loss);
    member("grad_norm", plan_.grad_norm);
    member("dropped", plan_.dropped);
    member("loss_scale", plan_.loss_scale);
    member("overflow", plan_.overflow);
    json_.next_member();
  }
  void member(const char* key, const BufferRange& where) {
    if (where.buffer < 0) return;
    json_.next_member();
    range(key, where);
  }

  template <class Items, class Print>
  void last_section(const char* key, const Items& items, Print print) {
    json_.begin_lines(key, '[');
    for (const auto& item : items) {
      json_.line();
      print(item);
    }
    json_.end_lines(']');
  }
  template <class Items, class Print>
  void section(const char* key, const Items& items, Print print) {
    last_section(key, items, print);
    json_.next_member();
  }

  void streams() {
    section("streams", plan_.streams, [&](const Stream& stream) {
      json_.raw("{");
      name("stream", stream.name);
      if (stream.priority != Priority::kNormal) name("priority", priority_name(stream.priority));
      max_ctas(stream.max_ctas);
      json_.raw("}");
    });
  }
  void max_ctas(int32_t most) {
    if (most > 0) number("max_ctas", most);
  }

  void peers() {
    section("communicators", plan_.communicators, [&](const Communicator& communicator) {
      json_.raw("{");
      name("communicator", communicator.name);
      json_.key("ranks");
      json_.numbers(communicator.ranks);
      max_ctas(communicator.max_ctas);
      json_.raw("}");
    });
    section("channels", plan_.channels, [&](const Channel& channel) {
      json_.raw("{");
      name("channel", channel.name);
      number("peer", channel.peer);
      number("id", channel.id);
      json_.raw("}");
    });
  }

  void buffers() {
    int32_t next = 0;
    section("buffers", plan_.buffers, [&](const Buffer& buffer) {
      json_.raw("{");
      name("buffer", buffers_, next++);
      name("class", class_name(buffer.cls));
      number("bytes", buffer.bytes);
      name("dtype", dtype_name(buffer.dtype));
      shape(buffer.shape);
      json_.raw("}");
    });
  }

  // Of a plan that keeps what the first one keeps, and saves nothing, placements are left out.
  void tensors() {
    if (like_ == nullptr || !places_like(plan_, *like_)) placements();
    rest_of_tensors();
  }
  void placements() {
    section("placements", plan_.placements, [&](const Placement& placement) {
      json_.raw("{");
      name("tensor", placement.name);
      name("kind", kind_name(placement.kind));
      name("dtype", dtype_name(placement.dtype));
      shape(placement.shape);
      const Part& part = placement.part;
      range("in", part.where);
      // Left out where the part is the whole tensor.
      if (part.first != 0 || part.count != element_count(placement.shape)) {
        number("first", part.first);
        number("count", part.count);
      }
      if (part.owner) {
        json_.key("owner");
        json_.boolean(true);
      }
      json_.raw("}");
    });
  }
  void rest_of_tensors() {
    if (!plan_.means.empty())
      section("means", plan_.means, [&](const Mean& mean) {
        json_.raw("{");
        range("sum", mean.sum);
        optional_range("count", mean.count);
        json_.raw("}");
      });
    section("inputs", plan_.inputs, [&](const InputSlice& slice) {
      json_.raw("{");
      name("input", slice.input);
      number("first", slice.first);
      number("count", slice.count);
      range("in", slice.where);
      json_.raw("}");
    });
    last_section("scalars", plan_.scalars, [&](const ScalarValue& scalar) {
      json_.raw("{");
      name("scalar", at(plan_.buffers, scalar.buffer, "buffer").name);
      json_.key("values");
      json_.numbers(scalar.values);
      json_.raw("}");
    });
  }

  void argument_list(size_t index) {
    const auto& [list_name, ranges, microbatch] = plan_.arguments[index];
    json_.raw("{");
    name("args", arguments_, static_cast<int32_t>(index));
    if (microbatch >= 0) {
      json_.key("microbatch");
      json_.number(microbatch);
    }
    json_.key("in");
    json_.raw("[");
    for (size_t i = 0; i < ranges.size(); ++i) {
      if (i > 0) json_.raw(",");
      range_body(ranges[i]);
    }
    json_.raw("]}");
  }
  void arguments() {
    size_t next = 0;
    section("arguments", plan_.arguments, [&](const ArgumentList&) { argument_list(next++); });
  }
  // Of a plan that is like another: the lists that differ from that one's, left out where none does.
  void own_arguments() {
    const std::vector<size_t> differ = own_lists(plan_, *like_);
    if (differ.empty()) return;
    json_.next_member();
    last_section("arguments", differ, [&](size_t index) { argument_list(index); });
  }

  void action(const Run& run) {
    name("run", programs_, run.program);
    name("args", arguments_, run.arguments);
    optional_range("workspace", run.workspace);
  }
  template <class Message>
  void message(const char* key, const Message& message) {
    range(key, message.data);
    elements(message.count, message.dtype);
    name("channel", channels_, message.channel);
  }
  void action(const Send& send) { message("send", send); }
  void action(const Recv& recv) { message("recv", recv); }
  void elements(int64_t count, DType dtype) {
    number("count", count);
    name("dtype", dtype_name(dtype));
  }
  template <class Collective>
  void summed(const Collective& collective) {
    const SumTypes& types = collective.types;
    elements(collective.count, types.data);
    if (types.message != types.data) name("message", dtype_name(types.message));
    if (types.sum != types.data) name("sum", dtype_name(types.sum));
    name("op", "sum");
    communicator(collective.communicator);
  }
  void communicator(int32_t index) { name("communicator", communicators_, index); }
  void action(const AllReduce& reduce) {
    range("all_reduce", reduce.data);
    summed(reduce);
  }
  void action(const ReduceScatter& reduce) {
    range("reduce_scatter", reduce.data);
    optional_range("out", reduce.out);
    summed(reduce);
  }
  void action(const AllGather& gather) {
    const bool in_place = gather.part.buffer < 0;
    range("all_gather", in_place ? gather.data : gather.part);
    if (!in_place) range("data", gather.data);
    elements(gather.count, gather.dtype);
    communicator(gather.communicator);
  }
  void action(const AllToAll& exchange) {
    range("all_to_all", exchange.send);
    range("recv", exchange.recv);
    elements(exchange.count, exchange.dtype);
    if (exchange.send_counts.buffer >= 0) {
      range("send_counts", exchange.send_counts);
      range("recv_counts", exchange.recv_counts);
      number("row", exchange.row);
    }
    communicator(exchange.communicator);
  }
  void action(const Record& record) { name("record", events_, record.event); }
  void action(const Wait& wait) { name("wait", events_, wait.event); }
  void action(const Update& update) {
    name("update", programs_, update.program);
    name("args", arguments_, update.arguments);
    optional_range("workspace", update.workspace);
    number("group", update.group);
  }

  void instructions() {
    section("instructions", plan_.instructions, [&](const Instruction& instruction) {
      json_.raw("{");
      std::visit([this](const auto& kind) { action(kind); }, instruction.action);
      name("stream", streams_, instruction.stream);
      if (instruction.provenance >= 0) name("at", places_, instruction.provenance);
      json_.raw("}");
    });
  }

  void offsets() {
    json_.begin_lines("offsets", '{');
    for (size_t b = 0; b < plan_.buffers.size(); ++b) {
      json_.line();
      buffers_.print(static_cast<int32_t>(b));
      json_.raw(":");
      json_.number(plan_.buffers[b].offset);
    }
    json_.end_lines('}');
  }

  const RankPlan& plan_;
  const RankPlan* like_;
  JsonWriter& json_;
  PrintedNames<SharedVector<Buffer>> buffers_;
  PrintedNames<ArgumentLists> arguments_;
  PrintedNames<SharedVector<std::string>> events_;
  PrintedNames<SharedVector<Stream>> streams_;
  PrintedNames<std::vector<Channel>> channels_;
  PrintedNames<std::vector<Communicator>> communicators_;
  PrintedNames<std::vector<ProvenanceEntry>> places_;
  PrintedNames<std::vector<Program>> programs_;
};

}  // namespace

std::string print_rank_plan(const RankPlan& plan, const std::vector<ProvenanceEntry>& provenance,
                            const std::vector<Program>& programs, const RankPlan* like) {
  JsonWriter json;
  print_rank_plan(plan, provenance, programs, like, json);
  return json.str();
}

void print_rank_plan(const RankPlan& plan, const std::vector<ProvenanceEntry>& provenance,
                     const std::vector<Program>& programs, const RankPlan* like, JsonWriter& json) {
  RankPlanPrinter(plan, provenance, programs, like, json).print();
}

}  // namespace piper::plan
