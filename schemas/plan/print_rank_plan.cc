#include "schemas/plan/bundle_io.h"
#include "schemas/plan/json_writer.h"
#include "schemas/plan/names.h"

namespace piper::plan {
namespace {

template <class Items>
const auto& at(const Items& items, int32_t index, const char* what) {
  PIPER_CHECK(index >= 0 && static_cast<size_t>(index) < items.size(), what, " ", index, " of ", items.size());
  return items[static_cast<size_t>(index)];
}

struct PartKeys { const char *where, *first, *count, *owner; };

// Prints one rank plan; the instructions one method a kind.
class RankPlanPrinter {
 public:
  RankPlanPrinter(const RankPlan& plan, const std::vector<ProvenanceEntry>& provenance,
                  const std::vector<Program>& programs, const RankPlan* like, JsonWriter& json)
      : plan_(plan), provenance_(provenance), programs_(programs), like_(like), json_(json) {
    json_.clear();
    json_.reserve(like == nullptr ? 1024 + 112 * plan.instructions.size() + 128 * plan.buffers.size() : 8192);
  }

  void print() {
    json_.begin_file();
    header();
    if (like_ == nullptr) section("streams", plan_.streams, [&](const Stream& stream) { json_.string(stream.name); });
    peers();
    if (like_ == nullptr) {
      section("events", plan_.events, [&](const std::string& event) { json_.string(event); });
      buffers();
    }
    tensors();
    if (like_ == nullptr) {
      json_.next_member();
      arguments();
      instructions();
      offsets();
    }
    json_.end_file();
  }

 private:
  void range_body(const BufferRange& range) {
    const auto& name = at(plan_.buffers, range.buffer, "buffer").name;
    json_.string(name);
    if (range.offset == 0 && !ends_like_offset(name)) return;
    json_.reopen_string();
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

  void peers() {
    section("communicators", plan_.communicators, [&](const Communicator& communicator) {
      json_.raw("{");
      name("communicator", communicator.name);
      json_.key("ranks");
      json_.numbers(communicator.ranks);
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
    section("buffers", plan_.buffers, [&](const Buffer& buffer) {
      json_.raw("{");
      name("buffer", buffer.name);
      name("class", class_name(buffer.cls));
      number("bytes", buffer.bytes);
      name("dtype", dtype_name(buffer.dtype));
      shape(buffer.shape);
      json_.raw("}");
    });
  }

  // `first` and `count` stand where the part is not the whole tensor.
  void part(const PartKeys& keys, const Part& part, std::optional<int64_t> elements) {
    if (part.where.buffer < 0) return;
    range(keys.where, part.where);
    if (part.first != 0 || part.count != elements) {
      number(keys.first, part.first);
      number(keys.count, part.count);
    }
    if (!part.owner) return;
    json_.key(keys.owner);
    json_.boolean(true);
  }

  void tensors() {
    section("placements", plan_.placements, [&](const Placement& placement) {
      json_.raw("{");
      name("tensor", placement.name);
      name("dtype", dtype_name(placement.dtype));
      shape(placement.shape);
      const auto elements = element_count(placement.shape);
      part({"in", "first", "count", "owner"}, placement.value, elements);
      part({"gradient", "gradient_first", "gradient_count", "gradient_owner"}, placement.gradient, elements);
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

  void arguments() {
    section("arguments", plan_.arguments, [&](const ArgumentList& list) {
      json_.raw("{");
      name("args", list.name);
      json_.key("in");
      json_.raw("[");
      for (size_t i = 0; i < list.arguments.size(); ++i) {
        if (i > 0) json_.raw(",");
        range_body(list.arguments[i]);
      }
      json_.raw("]}");
    });
  }

  void action(const Run& run) {
    name("run", at(programs_, run.program, "program").name);
    name("args", at(plan_.arguments, run.arguments, "argument list").name);
    optional_range("workspace", run.workspace);
  }
  // `bytes` stands where the message is not the whole rest of its buffer.
  void message(const char* key, const BufferRange& data, int64_t bytes, int32_t channel) {
    range(key, data);
    if (bytes != at(plan_.buffers, data.buffer, "buffer").bytes - data.offset) number("bytes", bytes);
    name("channel", at(plan_.channels, channel, "channel").name);
  }
  void action(const Send& send) { message("send", send.data, send.bytes, send.channel); }
  void action(const Recv& recv) { message("recv", recv.data, recv.bytes, recv.channel); }
  void communicator(int32_t index) { name("communicator", at(plan_.communicators, index, "communicator").name); }
  void action(const AllReduce& reduce) {
    range("all_reduce", reduce.data);
    number("count", reduce.count);
    name("dtype", dtype_name(reduce.dtype));
    name("op", "sum");
    communicator(reduce.communicator);
  }
  void action(const ReduceScatter& reduce) {
    range("reduce_scatter", reduce.data);
    range("out", reduce.out);
    number("count", reduce.count);
    name("dtype", dtype_name(reduce.dtype));
    name("op", "sum");
    communicator(reduce.communicator);
  }
  void action(const AllGather& gather) {
    range("all_gather", gather.part);
    range("data", gather.data);
    number("bytes", gather.bytes);
    communicator(gather.communicator);
  }
  void action(const AllToAll& exchange) {
    range("all_to_all", exchange.send);
    range("recv", exchange.recv);
    number("bytes", exchange.bytes);
    if (exchange.send_counts.buffer >= 0) {
      range("send_counts", exchange.send_counts);
      range("recv_counts", exchange.recv_counts);
      number("row_bytes", exchange.row_bytes);
    }
    communicator(exchange.communicator);
  }
  void action(const Record& record) { name("record", at(plan_.events, record.event, "event")); }
  void action(const Wait& wait) { name("wait", at(plan_.events, wait.event, "event")); }
  void action(const Update& update) {
    range("update", update.parameter);
    number("group", update.group);
    number("count", update.count);
    range("gradient", update.gradient);
    optional_range("m", update.m);
    optional_range("v", update.v);
    optional_range("scale", update.scale);
  }

  void instructions() {
    section("instructions", plan_.instructions, [&](const Instruction& instruction) {
      json_.raw("{");
      std::visit([this](const auto& kind) { action(kind); }, instruction.action);
      name("stream", at(plan_.streams, instruction.stream, "stream").name);
      if (instruction.provenance >= 0) name("at", at(provenance_, instruction.provenance, "provenance").key);
      json_.raw("}");
    });
  }

  void offsets() {
    json_.begin_lines("offsets", '{');
    for (const auto& buffer : plan_.buffers) {
      json_.line();
      json_.string(buffer.name);
      json_.raw(":");
      json_.number(buffer.offset);
    }
    json_.end_lines('}');
  }

  const RankPlan& plan_;
  const std::vector<ProvenanceEntry>& provenance_;
  const std::vector<Program>& programs_;
  const RankPlan* like_;
  JsonWriter& json_;
};

}  // namespace

std::string print_rank_plan(const RankPlan& plan, const std::vector<ProvenanceEntry>& provenance,
                            const std::vector<Program>& programs, const RankPlan* like) {
  JsonWriter json;
  print_rank_plan(plan, provenance, programs, like, json);
  return json.str();
}

void print_rank_plan(const RankPlan& plan, const std::vector<ProvenanceEntry>& provenance, const std::vector<Program>& programs,
                     const RankPlan* like, JsonWriter& json) {
  RankPlanPrinter(plan, provenance, programs, like, json).print();
}

}  // namespace piper::plan
