// The reader of one rank's plan, which nobody but its own files includes: the order of the parts and the memory are
// in parse_rank_plan.cc, what is checked of declarations in parse_rank_declarations.cc, of instructions in
// parse_instructions.cc. The parts share the reader, the plan so far and the tables of the names that it has declared;
// a fault that one of them meets stops the reader, and what follows reads nothing more.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "schemas/plan/field_reader.h"
#include "schemas/plan/parse_rank_plan.h"
#include "schemas/plan/rank_plan_fields.h"

namespace piper::plan {

class RankPlanReader : public FieldReader<RankPlanReader> {
 public:
  // All of them outlive the reader.
  RankPlanReader(std::string_view text, const std::string& file, const SharedNames& names, const PlanOfRank& like)
      : FieldReader(text, file), shared_(names), plan_of_rank_(like) {}
  using FieldReader::check;
  using FieldReader::read;

  // Once. Errors: P0605, P0606, P0607, P0609, P0611.
  Result<RankPlan> parse();

  // ---- what the lists of members ask for (rank_plan_fields.h)
  void name(std::string_view key, int32_t& index, Names names) {
    if (begin(key)) index = resolve(names);
  }
  // These name buffers that are declared further down: resolved after the buffers.
  void place(std::string_view key, BufferRange& where, int64_t bytes, int64_t element) {
    if (!reader_.optional_key(key)) return;
    const size_t at = reader_.position();
    places_.push_back({&where, bytes, element, reader_.string(), at});
  }
  void like(std::string_view key, int32_t& rank, const Rule& rule) {
    optional(key, rank, -1, rule);
    like_at_ = reader_.position();  // the line of it
  }
  void action(Action& action);
  void offsets(std::string_view key, RankPlan& plan);
  void own_placements(std::string_view key, RankPlan& plan, const RankPlan& like);
  void own_arguments(std::string_view key, RankPlan& plan, const RankPlan& like);

  void read(std::string_view, BufferRange& where, const Rule&) { where = range(); }
  void read(std::string_view, SharedVector<std::string>& events, const Rule&);
  void ranks(std::string_view key, std::vector<int32_t>& ranks);
  void named(const std::string&, std::string_view, size_t) {}  // index_declared() does

  // ---- what is checked of what was read: parse_rank_declarations.cc
  void check(const Stream& stream, size_t at);
  void check(const Communicator& communicator, size_t at);
  void check(const Channel& channel, size_t at);
  void check(const Buffer& buffer, size_t at);
  void check(const Placement& placement, size_t at);
  void check(const LikePlacement& item, size_t at);
  void check(const LikeArguments& item, size_t at);
  void check(const Mean& mean, size_t at);
  void check(const ScalarValue& scalar, size_t at);
  void check(const ArgumentList&, size_t at) { declared_at_.push_back(at); }
  void check(const SharedVector<Stream>& streams, size_t) { index_declared(stream_index_, streams, "stream"); }
  void check(const std::vector<Communicator>& communicators, size_t) {
    index_declared(communicator_index_, communicators, "communicator");
  }
  void check(const std::vector<Channel>& channels, size_t) { index_declared(channel_index_, channels, "channel"); }
  void check(const SharedVector<Buffer>& buffers, size_t) {
    buffer_at_ = declared_at_;
    index_declared(buffer_index_, buffers, "buffer");
    find_places();
  }
  void check(const ArgumentLists& lists, size_t) { index_declared(argument_index_, lists, "argument list"); }

  // ---- parse_instructions.cc, before the stream is read
  void check(const Run& run, size_t at) { check_launch(run, at); }
  void check(const Update& update, size_t at) { check_launch(update, at); }
  void check(const Send& send, size_t at) { check_message(send, at); }
  void check(const Recv& recv, size_t at) { check_message(recv, at); }
  void check(const AllReduce& reduce, size_t at) { check_parts(reduce, at); }
  void check(const ReduceScatter& reduce, size_t at) { check_parts(reduce, at); }
  void check(const AllGather& gather, size_t at) { check_parts(gather, at); }
  void check(const AllToAll& exchange, size_t at) { check_parts(exchange, at); }

 private:
  static constexpr std::string_view kArguments = "P0609", kManifest = "P0611";
  struct Place {
    BufferRange* where;
    int64_t bytes, element;
    std::string_view text;
    size_t at;
  };

  Status check_memory();
  void find_places();
  // A plan that does what another rank's does.
  Result<OtherPlan> like_plan() const;
  void take_work_of(const OtherPlan& first);

  void check_launch(const auto& launch, size_t at);
  void check_message(const auto& message, size_t at);
  void check_parts(const auto& collective, size_t at);
  // Whether the list fits the program's slots; `at`: the place of a failure.
  bool check_arguments(int32_t program, int32_t arguments, size_t at);

  // ---- names and ranges, which every part reads
  bool declare(NameIndex& index, const std::string& name, size_t count, const char* what, size_t at) {
    if (!reader_.ok()) return false;
    if (name.empty()) return reader_.fail(kName, at, std::string(what) + " without a name");
    if (std::any_of(name.begin(), name.end(), [](unsigned char c) { return c < ' '; }))
      return reader_.fail(kName, at, std::string("the name of a ") + what + " has a control character");
    if (!index.emplace(name, static_cast<int32_t>(count - 1)).second)
      return reader_.fail(kName, at, std::string("two ") + what + "s are called " + in_quotes(name));
    return true;
  }
  int32_t resolve(Names names) {
    const auto [index, what] = table(names);
    const size_t at = reader_.position();
    const auto name = reader_.string();
    if (!reader_.ok()) return -1;
    const auto found = index->find(name);
    if (found != index->end()) return found->second;
    reader_.fail(kName, at, std::string("there is no ") + what + " " + in_quotes(name));
    return -1;
  }
  std::pair<const NameIndex*, const char*> table(Names names) const {
    switch (names) {
      case Names::kProgram: return {&shared_.programs, "program"};
      case Names::kArguments: return {&argument_index_, "argument list"};
      case Names::kEvent: return {&event_index_, "event"};
      case Names::kStream: return {&stream_index_, "stream"};
      case Names::kChannel: return {&channel_index_, "channel"};
      case Names::kCommunicator: return {&communicator_index_, "communicator"};
      case Names::kBuffer: return {buffers_, "buffer"};
      case Names::kProvenance: return {&shared_.provenance, "provenance entry"};
    }
    return {};
  }
  const Buffer& buffer(const BufferRange& where) const { return plan_.buffers[static_cast<size_t>(where.buffer)]; }

  // A reference to a buffer; its length is checked by need().
  BufferRange range() {
    const size_t at = reader_.position();
    const auto text = reader_.string();
    if (!reader_.ok()) return {};
    const auto parts = split_offset(text);
    const auto found = parts ? buffers_->find(parts->name) : buffers_->end();
    if (found == buffers_->end()) {
      reader_.fail(kName, at, "there is no buffer " + in_quotes(parts ? parts->name : text));
      return {};
    }
    const BufferRange where{found->second, parts->offset};
    need(where, 0, at);
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
                            std::to_string(target.bytes) + " bytes of buffer " + in_quotes(target.name));
  }
  // Elements of `size` bytes from `where` on; buffers themselves begin at multiples of 64.
  bool need_multiple(const BufferRange& where, int64_t size, size_t at) {
    if (!reader_.ok() || where.buffer < 0) return false;
    if (where.offset % size == 0) [[likely]]
      return true;
    return reader_.fail(kRange, at, no_multiple(where.offset, size, buffer(where).name));
  }
  // The bytes of a whole tensor; a failure when the shape is nonsense.
  int64_t tensor_bytes(DType dtype, const std::vector<int64_t>& shape, size_t at) {
    const auto count = element_count(shape);
    int64_t bytes = 0;
    if (count && !__builtin_mul_overflow(*count, dtype_bytes(dtype), &bytes)) return bytes;
    reader_.fail(kRange, at, "a shape with a negative or too large extent");
    return 0;
  }

  // Indices hold views of the names: built when a section's vector does not grow any more.
  template <class Items>
  void index_declared(NameIndex& index, const Items& items, const char* what) {
    index.reserve(items.size() * 2);
    for (size_t i = 0; i < items.size() && reader_.ok(); ++i) {
      const std::string* name = nullptr;
      if constexpr (std::is_same_v<std::decay_t<decltype(items[i])>, std::string>) name = &items[i];
      else name = &items[i].name;
      declare(index, *name, i + 1, what, declared_at_[i]);
    }
    declared_at_.clear();
  }

  const SharedNames& shared_;
  const PlanOfRank& plan_of_rank_;
  RankPlan plan_;
  int32_t like_ = -1;  // the rank whose plan this one is like
  size_t like_at_ = 0;
  const RankPlan* first_ = nullptr;  // that plan
  size_t next_placement_ = 0;        // of that plan
  size_t next_list_ = 0;             // of that plan
  std::vector<size_t> own_at_;       // [argument list] where it is; 0: it is that plan's
  std::vector<Place> places_;
  NameIndex stream_index_, communicator_index_, channel_index_, event_index_, buffer_index_, argument_index_;
  const NameIndex* buffers_ = &buffer_index_;
  std::vector<size_t> declared_at_, buffer_at_;
  size_t ranks_of_runs_ = 0;      // of all communicators
  std::vector<char> scalar_set_;  // [buffer]
};

}  // namespace piper::plan
