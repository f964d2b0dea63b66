// Longer than the other parsers: one grammar, whose checks need the tables that it builds.
#include "schemas/plan/parse_rank_plan.h"

#include <algorithm>

#include "schemas/plan/bundle_io.h"
#include "schemas/plan/check_collectives.h"
#include "schemas/plan/json_reader.h"
#include "schemas/plan/like_ranks.h"
#include "schemas/plan/names.h"

namespace piper::plan {
namespace {

constexpr std::string_view kSyntax = "P0605", kName = "P0606", kRange = "P0607", kArguments = "P0609",
                           kManifest = "P0611";

std::string quoted(std::string_view name) { return "\"" + std::string(name.substr(0, 200)) + "\""; }

class RankPlanParser {
 public:
  RankPlanParser(std::string_view text, const std::string& file, const SharedNames& names, const PlanOfRank& like)
      : reader_(text, file), shared_(names), plan_of_rank_(like) {}

  Result<RankPlan> parse() {
    reader_.open_object();
    header();
    if (like_ >= 0 && reader_.ok()) {
      PIPER_ASSIGN(const RankPlan first, like_plan());
      PIPER_RETURN_IF_ERROR(own_part_of(first));
    } else {
      all_of_it();
      if (!reader_.ok()) return reader_.status();
      PIPER_RETURN_IF_ERROR(check_memory());
    }
    return std::move(plan_);
  }

 private:
  void all_of_it() {
    streams();
    peers();
    events();
    buffers();
    specials();
    tensors();
    arguments();
    reader_.key("instructions");
    reader_.open_array();
    while (reader_.next_item()) instruction();
    reader_.key("offsets");
    offsets();
    reader_.close_object();
    reader_.end_of_text();
    (void)plan_.instructions.edit();  // none is a list as well
  }

  // ---- a plan that does what another rank's does
  Result<RankPlan> like_plan() const {
    const auto bad = [this](const std::string& why) { return reader_.failure_at(kManifest, like_at_, why); };
    if (like_ >= plan_.rank) return bad("a plan can only be like that of an earlier rank");
    if (!plan_of_rank_) return bad("it is like rank " + std::to_string(like_) + ", whose plan is not at hand");
    auto first = plan_of_rank_(like_);
    if (!first.ok()) return first.take_status();
    return first;
  }
  Status own_part_of(const RankPlan& first) {
    plan_.streams = first.streams;
    plan_.events = first.events;
    plan_.buffers = first.buffers;
    plan_.arguments = first.arguments;
    plan_.instructions = first.instructions;
    for (size_t i = 0; i < plan_.buffers.size(); ++i)
      buffer_index_.emplace(plan_.buffers[i].name, static_cast<int32_t>(i));
    peers();
    specials();
    tensors();
    reader_.close_object();
    reader_.end_of_text();
    if (!reader_.ok()) return reader_.status();
    if (const auto why = why_other_work(plan_, first); !why.empty())
      return reader_.failure_at(kManifest, like_at_, why);
    // Where a part of a collective stands can depend on the rank's position.
    for (size_t i = 0; i < plan_.instructions.size(); ++i)
      if (const auto wrong = misfit_of(plan_.instructions[i].action); !wrong.empty())
        return reader_.failure_at(
            kRange, like_at_,
            "instruction " + std::to_string(i) + " of rank " + std::to_string(first.rank) + ": " + wrong);
    return {};
  }
  std::string misfit_of(const Action& action) const {
    if (const auto* a = std::get_if<AllReduce>(&action)) return misfit(plan_, *a);
    if (const auto* a = std::get_if<ReduceScatter>(&action)) return misfit(plan_, *a);
    if (const auto* a = std::get_if<AllGather>(&action)) return misfit(plan_, *a);
    if (const auto* a = std::get_if<AllToAll>(&action)) return misfit(plan_, *a);
    return "";
  }

  // ---- names and ranges
  bool declare(NameIndex& index, const std::string& name, size_t count, const char* what, size_t at) {
    if (!reader_.ok()) return false;
    if (name.empty()) return reader_.fail(kName, at, std::string(what) + " without a name");
    if (!index.emplace(name, static_cast<int32_t>(count - 1)).second)
      return reader_.fail(kName, at, std::string("two ") + what + "s are called " + quoted(name));
    return true;
  }
  int32_t resolve(const NameIndex& index, const char* what) {
    (void)reader_.peek();
    const size_t at = reader_.position();
    const auto name = reader_.string();
    if (!reader_.ok()) return -1;
    const auto found = index.find(name);
    if (found != index.end()) return found->second;
    reader_.fail(kName, at, std::string("there is no ") + what + " " + quoted(name));
    return -1;
  }
  const Buffer& buffer(const BufferRange& where) const { return plan_.buffers[static_cast<size_t>(where.buffer)]; }

  // A reference to a buffer; its length is checked by need().
  BufferRange range() {
    (void)reader_.peek();
    at_ = reader_.position();
    const auto text = reader_.string();
    if (!reader_.ok()) return {};
    const auto parts = split_offset(text);
    const auto found = parts ? buffer_index_.find(parts->name) : buffer_index_.end();
    if (found == buffer_index_.end()) {
      reader_.fail(kName, at_, "there is no buffer " + quoted(parts ? parts->name : text));
      return {};
    }
    const BufferRange where{found->second, parts->offset};
    need(where, 0, at_);
    return where;
  }
  // `bytes` from `where` on must lie inside the buffer.
  bool need(const BufferRange& where, int64_t bytes, size_t at) {
    if (!reader_.ok() || where.buffer < 0) return false;
    const auto& target = buffer(where);
    if (range_inside(where.offset, bytes, target.bytes)) [[likely]]
      return true;
    return reader_.fail(kRange, at,
                        std::to_string(bytes) + " bytes at " + std::to_string(where.offset) + " go beyond the " +
                            std::to_string(target.bytes) + " bytes of buffer " + quoted(target.name));
  }
  BufferRange needed(const char* key, int64_t bytes) {
    reader_.key(key);
    const auto where = range();
    need(where, bytes, at_);
    return where;
  }
  BufferRange optional(const char* key, int64_t bytes) {
    if (!reader_.optional_key(key)) return {};
    const auto where = range();
    need(where, bytes, at_);
    return where;
  }
  int64_t at_least_zero(const char* key) {
    reader_.key(key);
    const size_t at = reader_.position();
    const int64_t value = reader_.integer();
    if (value < 0) reader_.fail(kRange, at, std::string(key) + " is negative");
    return value;
  }
  DType dtype() {
    reader_.key("dtype");
    const size_t at = reader_.position();
    const auto name = reader_.string();
    const auto known = dtype_from_name(name);
    if (!known) reader_.fail(kSyntax, at, "unknown dtype " + quoted(name));
    return known.value_or(DType::kF32);
  }
  // The bytes of a whole tensor; a failure when the shape is nonsense.
  int64_t tensor_bytes(DType dtype, const std::vector<int64_t>& shape, size_t at) {
    const auto count = element_count(shape);
    int64_t bytes = 0;
    if (count && !__builtin_mul_overflow(*count, dtype_bytes(dtype), &bytes)) return bytes;
    reader_.fail(kRange, at, "a shape with a negative or too large extent");
    return 0;
  }

  // ---- sections
  void header() {
    reader_.key("rank");
    const size_t at = reader_.position();
    plan_.rank = reader_.small_integer();
    if (plan_.rank < 0) reader_.fail(kRange, at, "rank is negative");
    if (reader_.optional_key("like")) {
      like_at_ = reader_.position();
      like_ = reader_.small_integer();
      if (like_ < 0) reader_.fail(kRange, like_at_, "like is negative");
    }
    plan_.arena_bytes = at_least_zero("arena_bytes");
    // These name buffers that are declared further down: resolved after the buffers.
    for (auto& special : specials_) {
      if (!reader_.optional_key(special.key)) continue;
      (void)reader_.peek();
      special.at = reader_.position();
      special.text = reader_.string();
      special.present = true;
    }
  }

  template <class Item>
  void section(const char* key, Item item) {
    reader_.key(key);
    reader_.open_array();
    while (reader_.next_item()) item(reader_.position());
  }

  void streams() {
    section("streams", [&](size_t at) {
      plan_.streams.push_back({std::string(reader_.string())});
      declared_at_.push_back(at);
    });
    index_declared(stream_index_, plan_.streams, "stream");
  }
  void peers() {
    section("communicators", [&](size_t at) {
      auto& communicator = plan_.communicators.emplace_back();
      reader_.open_object();
      reader_.key("communicator");
      communicator.name = reader_.string();
      reader_.key("ranks");
      reader_.open_array();
      while (reader_.next_item()) communicator.ranks.push_back(reader_.small_integer());
      reader_.close_object();
      declared_at_.push_back(at);
      check_members(communicator, at);
    });
    index_declared(communicator_index_, plan_.communicators, "communicator");
    section("channels", [&](size_t at) {
      auto& channel = plan_.channels.emplace_back();
      reader_.open_object();
      reader_.key("channel");
      channel.name = reader_.string();
      reader_.key("peer");
      channel.peer = reader_.small_integer();
      reader_.key("id");
      channel.id = reader_.small_integer();
      reader_.close_object();
      if (channel.peer < 0 || channel.peer == plan_.rank)
        reader_.fail(
            kRange, at,
            "rank " + std::to_string(channel.peer) + " cannot be the other end of channel " + quoted(channel.name));
      if (channel.id < 0) reader_.fail(kRange, at, "channel " + quoted(channel.name) + " has a negative id");
      declared_at_.push_back(at);
    });
    index_declared(channel_index_, plan_.channels, "channel");
  }
  void events() {
    section("events", [&](size_t at) {
      plan_.events.emplace_back(reader_.string());
      declared_at_.push_back(at);
    });
    index_declared(event_index_, plan_.events, "event");
  }
  void check_members(const Communicator& communicator, size_t at) {
    auto members = communicator.ranks;
    std::sort(members.begin(), members.end());
    if (!members.empty() && members.front() < 0)
      reader_.fail(kRange, at, "communicator " + quoted(communicator.name) + " has a negative rank");
    if (std::adjacent_find(members.begin(), members.end()) != members.end())
      reader_.fail(kName, at, "communicator " + quoted(communicator.name) + " has a rank twice");
    if (!std::binary_search(members.begin(), members.end(), plan_.rank))
      reader_.fail(kRange, at,
                   "communicator " + quoted(communicator.name) + " does not hold rank " + std::to_string(plan_.rank));
  }
  // Indices hold views of the names: built when a section's vector does not grow any more.
  static const std::string& name_of(const std::string& name) { return name; }
  template <class T>
  static const std::string& name_of(const T& item) {
    return item.name;
  }
  template <class Items>
  void index_declared(NameIndex& index, const Items& items, const char* what) {
    index.reserve(items.size() * 2);
    for (size_t i = 0; i < items.size() && reader_.ok(); ++i)
      declare(index, name_of(items[i]), i + 1, what, declared_at_[i]);
    declared_at_.clear();
  }

  void buffers() {
    section("buffers", [&](size_t at) {
      auto& buffer = plan_.buffers.emplace_back();
      reader_.open_object();
      reader_.key("buffer");
      buffer.name = reader_.string();
      reader_.key("class");
      const auto cls = reader_.string();
      buffer.bytes = at_least_zero("bytes");
      buffer.dtype = dtype();
      reader_.key("shape");
      buffer.shape = reader_.integers();
      reader_.close_object();
      declared_at_.push_back(at);
      if (!reader_.ok()) return;
      const auto known = enum_from_name<BufferClass>(cls, class_name, kNumBufferClasses);
      if (!known) reader_.fail(kSyntax, at, "unknown buffer class " + quoted(cls));
      buffer.cls = known.value_or(BufferClass::kArena);
      if (!buffer.shape.empty() && tensor_bytes(buffer.dtype, buffer.shape, at) > buffer.bytes)
        reader_.fail(kRange, at, "the shape of buffer " + quoted(buffer.name) + " needs more than its bytes");
    });
    buffer_at_ = declared_at_;
    index_declared(buffer_index_, plan_.buffers, "buffer");
  }
  void specials() {
    for (auto& special : specials_) {
      if (!special.present || !reader_.ok()) continue;
      const auto parts = split_offset(special.text);
      const auto found = parts ? buffer_index_.find(parts->name) : buffer_index_.end();
      if (found == buffer_index_.end()) {
        reader_.fail(kName, special.at, "there is no buffer " + quoted(special.text));
        return;
      }
      special.where = {found->second, parts->offset};
      need(special.where, special.bytes, special.at);
    }
    plan_.seed_step = specials_[0].where;
    plan_.learning_rate = specials_[1].where;
    plan_.loss = specials_[2].where;
    plan_.grad_norm = specials_[3].where;
    plan_.dropped = specials_[4].where;
  }

  struct PartKeys {
    const char *where, *first, *count, *owner;
  };
  Part part(const PartKeys& keys, DType dtype, int64_t elements, size_t at) {
    Part part;
    if (!reader_.optional_key(keys.where)) return part;
    part.where = range();
    part.count = elements;
    if (reader_.optional_key(keys.first)) {
      part.first = reader_.integer();
      part.count = at_least_zero(keys.count);
    }
    if (reader_.optional_key(keys.owner)) part.owner = reader_.boolean();
    if (!reader_.ok()) return part;
    if (range_inside(part.first, part.count, elements)) need(part.where, part.count * dtype_bytes(dtype), at);
    else
      reader_.fail(kRange, at,
                   std::to_string(part.count) + " elements at " + std::to_string(part.first) + " go beyond the " +
                       std::to_string(elements) + " elements of the tensor");
    return part;
  }

  void tensors() {
    section("placements", [&](size_t at) {
      auto& placement = plan_.placements.emplace_back();
      reader_.open_object();
      reader_.key("tensor");
      placement.name = reader_.string();
      placement.dtype = dtype();
      reader_.key("shape");
      placement.shape = reader_.integers();
      const int64_t elements = tensor_bytes(placement.dtype, placement.shape, at) / dtype_bytes(placement.dtype);
      placement.value = part({"in", "first", "count", "owner"}, placement.dtype, elements, at);
      placement.gradient =
          part({"gradient", "gradient_first", "gradient_count", "gradient_owner"}, placement.dtype, elements, at);
      reader_.close_object();
      if (reader_.ok() && placement.value.where.buffer < 0 && placement.gradient.where.buffer < 0)
        reader_.fail(kSyntax, at, "the placement of " + quoted(placement.name) + " places nothing");
    });
    section("inputs", [&](size_t) {
      auto& slice = plan_.inputs.emplace_back();
      reader_.open_object();
      reader_.key("input");
      slice.input = reader_.string();
      slice.first = at_least_zero("first");
      slice.count = at_least_zero("count");
      slice.where = needed("in", 0);
      reader_.close_object();
    });
    std::vector<char> set(plan_.buffers.size());
    section("scalars", [&](size_t at) {
      auto& scalar = plan_.scalars.emplace_back();
      reader_.open_object();
      reader_.key("scalar");
      scalar.buffer = resolve(buffer_index_, "buffer");
      reader_.key("values");
      scalar.values = reader_.integers();
      reader_.close_object();
      if (!reader_.ok()) return;
      const auto i = static_cast<size_t>(scalar.buffer);
      const auto& target = plan_.buffers[i];
      if (set[i]++) reader_.fail(kName, at, "buffer " + quoted(target.name) + " is set twice");
      if (target.cls != BufferClass::kScalar || target.dtype != DType::kI64 || scalar.values.empty() ||
          scalar.values.size() > static_cast<size_t>(target.bytes) / 8)
        reader_.fail(
            kRange, at,
            "buffer " + quoted(target.name) + " cannot hold these values: one to as many i64 scalars as it is large");
    });
  }

  void arguments() {
    section("arguments", [&](size_t at) {
      auto& list = plan_.arguments.emplace_back();
      reader_.open_object();
      reader_.key("args");
      list.name = reader_.string();
      reader_.key("in");
      reader_.open_array();
      while (reader_.next_item()) list.arguments.push_back(range());
      reader_.close_object();
      declared_at_.push_back(at);
    });
    index_declared(argument_index_, plan_.arguments, "argument list");
  }

  // ---- instructions
  void instruction() {
    auto& instruction = plan_.instructions.emplace_back();
    (void)reader_.peek();
    instruction_at_ = reader_.position();
    reader_.open_object();
    const auto kind = reader_.first_key();
    if (kind == "run") instruction.action = run();
    else if (kind == "send") instruction.action = message<Send>();
    else if (kind == "recv") instruction.action = message<Recv>();
    else if (kind == "wait") instruction.action = Wait{resolve(event_index_, "event")};
    else if (kind == "record") instruction.action = Record{resolve(event_index_, "event")};
    else if (kind == "all_reduce") instruction.action = all_reduce();
    else if (kind == "reduce_scatter") instruction.action = reduce_scatter();
    else if (kind == "all_gather") instruction.action = all_gather();
    else if (kind == "all_to_all") instruction.action = all_to_all();
    else if (kind == "update") instruction.action = update();
    else reader_.fail(kSyntax, instruction_at_, "unknown instruction " + quoted(kind));
    reader_.key("stream");
    instruction.stream = resolve(stream_index_, "stream");
    if (reader_.optional_key("at")) instruction.provenance = resolve(shared_.provenance, "provenance entry");
    reader_.close_object();
  }

  Run run() {
    Run run;
    run.program = resolve(shared_.programs, "program");
    reader_.key("args");
    run.arguments = resolve(argument_index_, "argument list");
    if (!reader_.ok()) return run;
    const auto& program = (*shared_.all_programs)[static_cast<size_t>(run.program)];
    const auto& list = plan_.arguments[static_cast<size_t>(run.arguments)];
    run.workspace = optional("workspace", program.workspace_bytes);
    if (run.workspace.buffer < 0 && program.workspace_bytes > 0)
      reader_.fail(kRange, instruction_at_, "program " + quoted(program.name) + " needs a workspace");
    if (list.arguments.size() != program.slots.size()) {
      reader_.fail(kArguments, instruction_at_,
                   "argument list " + quoted(list.name) + " has " + std::to_string(list.arguments.size()) +
                       " entries, program " + quoted(program.name) + " has " + std::to_string(program.slots.size()) +
                       " slots");
      return run;
    }
    for (size_t i = 0; i < list.arguments.size(); ++i) {
      const auto& where = list.arguments[i];
      const auto& slot = program.slots[i];
      if (range_inside(where.offset, slot.bytes, buffer(where).bytes)) continue;
      reader_.fail(kRange, instruction_at_,
                   "slot " + quoted(slot.name) + " of program " + quoted(program.name) + " needs " +
                       std::to_string(slot.bytes) + " bytes, buffer " + quoted(buffer(where).name) + " has " +
                       std::to_string(buffer(where).bytes - where.offset));
    }
    return run;
  }

  template <class Message>
  Message message() {
    Message message;
    message.data = range();
    const size_t at = at_;
    if (!reader_.ok()) return message;
    message.bytes = buffer(message.data).bytes - message.data.offset;
    if (reader_.optional_key("bytes")) message.bytes = reader_.integer();
    need(message.data, message.bytes, at);
    reader_.key("channel");
    message.channel = resolve(channel_index_, "channel");
    return message;
  }

  // ---- collectives
  BufferRange range(const char* key) {
    reader_.key(key);
    return range();
  }
  DType summed() {
    const auto type = dtype();
    reader_.key("op");
    const size_t at = reader_.position();
    if (const auto op = reader_.string(); op != "sum")
      reader_.fail(kSyntax, at, "unknown reduction " + quoted(op) + "; sum is the one there is");
    return type;
  }
  template <class Collective>
  Collective over_ranks(Collective collective) {
    reader_.key("communicator");
    collective.communicator = resolve(communicator_index_, "communicator");
    if (!reader_.ok()) return collective;
    if (const auto wrong = misfit(plan_, collective); !wrong.empty()) reader_.fail(kRange, instruction_at_, wrong);
    return collective;
  }
  AllReduce all_reduce() {
    AllReduce reduce;
    reduce.data = range();
    reduce.count = at_least_zero("count");
    reduce.dtype = summed();
    return over_ranks(reduce);
  }
  ReduceScatter reduce_scatter() {
    ReduceScatter reduce;
    reduce.data = range();
    reduce.out = range("out");
    reduce.count = at_least_zero("count");
    reduce.dtype = summed();
    return over_ranks(reduce);
  }
  AllGather all_gather() {
    AllGather gather;
    gather.part = range();
    gather.data = range("data");
    gather.bytes = at_least_zero("bytes");
    return over_ranks(gather);
  }
  AllToAll all_to_all() {
    AllToAll exchange;
    exchange.send = range();
    exchange.recv = range("recv");
    exchange.bytes = at_least_zero("bytes");
    if (reader_.optional_key("send_counts")) {
      exchange.send_counts = range();
      exchange.recv_counts = range("recv_counts");
      exchange.row_bytes = at_least_zero("row_bytes");
    }
    return over_ranks(exchange);
  }

  Update update() {
    Update update;
    update.parameter = range();
    const size_t at = at_;
    reader_.key("group");
    update.group = reader_.small_integer();
    if (update.group < 0) reader_.fail(kRange, at, "group is negative");
    update.count = at_least_zero("count");
    const int64_t bytes = tensor_bytes(DType::kF32, {update.count}, at);
    need(update.parameter, bytes, at);
    update.gradient = needed("gradient", bytes);
    update.m = optional("m", bytes);
    update.v = optional("v", bytes);
    update.scale = optional("scale", 4);
    return update;
  }

  // ---- offsets
  void offsets() {
    auto& buffers = plan_.buffers.edit();
    std::vector<char> seen(buffers.size());
    reader_.open_object();
    std::string_view name;
    while (reader_.next_key(name)) {
      const size_t at = reader_.position();
      const int64_t offset = reader_.integer();
      const auto found = buffer_index_.find(name);
      if (found == buffer_index_.end()) {
        reader_.fail(kName, at, "an offset for " + quoted(name) + ", but there is no such buffer");
        return;
      }
      const auto i = static_cast<size_t>(found->second);
      if (seen[i]++) reader_.fail(kName, at, "two offsets for buffer " + quoted(name));
      buffers[i].offset = offset;
      if (offset < 0 || offset % kBufferAlignment != 0)
        reader_.fail(kRange, at, "the offset of buffer " + quoted(name) + " is not a multiple of 64 from 0 up");
      if (buffers[i].cls == BufferClass::kArena && !range_inside(offset, buffers[i].bytes, plan_.arena_bytes))
        reader_.fail(
            kRange, at,
            "buffer " + quoted(name) + " goes beyond the arena's " + std::to_string(plan_.arena_bytes) + " bytes");
    }
    for (size_t i = 0; i < seen.size(); ++i)
      if (!seen[i]) reader_.fail(kName, reader_.position(), "no offset for buffer " + quoted(buffers[i].name));
  }

  // Persistent buffers of a class never share bytes: they live through the whole run.
  Status check_memory() {
    int64_t total = plan_.arena_bytes;
    for (size_t i = 0; i < plan_.buffers.size(); ++i)
      if (plan_.buffers[i].cls != BufferClass::kArena && __builtin_add_overflow(total, plan_.buffers[i].bytes, &total))
        return reader_.failure_at(kRange, buffer_at_[i],
                                  "the buffers up to " + quoted(plan_.buffers[i].name) + " are larger than any memory");
    std::vector<size_t> order;
    for (size_t i = 0; i < plan_.buffers.size(); ++i)
      if (plan_.buffers[i].cls != BufferClass::kArena && plan_.buffers[i].bytes > 0) order.push_back(i);
    const auto before = [&](size_t a, size_t b) {
      const auto &x = plan_.buffers[a], &y = plan_.buffers[b];
      return x.cls != y.cls ? x.cls < y.cls : x.offset < y.offset;
    };
    std::sort(order.begin(), order.end(), before);
    for (size_t k = 0; k < order.size(); ++k) {
      const auto& buffer = plan_.buffers[order[k]];
      int64_t end = 0;
      if (__builtin_add_overflow(buffer.offset, buffer.bytes, &end))
        return reader_.failure_at(kRange, buffer_at_[order[k]],
                                  "buffer " + quoted(buffer.name) + " ends beyond every address");
      if (k + 1 == order.size()) break;
      const auto& next = plan_.buffers[order[k + 1]];
      if (next.cls == buffer.cls && next.offset < end)
        return reader_.failure_at(
            kRange, buffer_at_[order[k + 1]],
            "the persistent buffers " + quoted(buffer.name) + " and " + quoted(next.name) + " overlap");
    }
    return {};
  }

  struct Special {
    const char* key;
    int64_t bytes;
    std::string_view text = {};
    size_t at = 0;
    bool present = false;
    BufferRange where = {};
  };

  JsonReader reader_;
  const SharedNames& shared_;
  const PlanOfRank& plan_of_rank_;
  RankPlan plan_;
  int32_t like_ = -1;  // the rank whose plan this one is like
  size_t like_at_ = 0;
  Special specials_[5] = {{"seed_step", 16}, {"learning_rate", 4}, {"loss", 4}, {"grad_norm", 4}, {"dropped", 8}};
  NameIndex stream_index_, communicator_index_, channel_index_, event_index_, buffer_index_, argument_index_;
  std::vector<size_t> declared_at_, buffer_at_;
  size_t at_ = 0;  // of the range read last
  size_t instruction_at_ = 0;
};

}  // namespace

SharedNames index_names(const std::vector<ProvenanceEntry>& provenance, const std::vector<Program>& programs) {
  SharedNames names;
  for (size_t i = 0; i < provenance.size(); ++i) names.provenance.emplace(provenance[i].key, static_cast<int32_t>(i));
  for (size_t i = 0; i < programs.size(); ++i) names.programs.emplace(programs[i].name, static_cast<int32_t>(i));
  names.all_programs = &programs;
  return names;
}

Result<RankPlan> parse_rank_plan(std::string_view text, const std::string& file, const SharedNames& names,
                                 const PlanOfRank& like) {
  return RankPlanParser(text, file, names, like).parse();
}

Result<RankPlan> parse_rank_plan(std::string_view text, const std::string& file,
                                 const std::vector<ProvenanceEntry>& provenance, const std::vector<Program>& programs,
                                 const PlanOfRank& like) {
  return parse_rank_plan(text, file, index_names(provenance, programs), like);
}

}  // namespace piper::plan
