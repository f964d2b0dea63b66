// The parser of one rank's plan, which nobody but its own files includes: the order of the parts and the memory stand
// in parse_rank_plan.cc, what is declared in parse_rank_declarations.cc, what is done in parse_instructions.cc. The
// parts share the reader, the plan so far and the tables of the names that it has declared; a fault that one of them
// meets stops the reader, and what follows reads nothing more.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "schemas/plan/json_reader.h"
#include "schemas/plan/names.h"
#include "schemas/plan/parse_rank_plan.h"
#include "schemas/plan/reader_codes.h"

namespace piper::plan {

class RankPlanParser {
 public:
  // All of them outlive the parser.
  RankPlanParser(std::string_view text, const std::string& file, const SharedNames& names, const PlanOfRank& like)
      : reader_(text, file), shared_(names), plan_of_rank_(like) {}

  // Once. Errors: P0605, P0606, P0607, P0609, P0611.
  Result<RankPlan> parse();

 private:
  static constexpr std::string_view kArguments = "P0609", kManifest = "P0611";
  struct Special {
    const char* key;
    int64_t bytes, element;
    std::string_view text = {};
    size_t at = 0;
    bool present = false;
    BufferRange where = {};
  };

  void header();
  void all_of_it();
  Status check_memory();
  void offsets();
  void specials();

  // A plan that does what another rank's does.
  Result<RankPlan> like_plan() const;
  Status own_part_of(const RankPlan& first);
  void own_arguments();

  // parse_rank_declarations.cc
  void streams();
  int32_t max_ctas();
  void peers();
  void events();
  void buffers();
  void placements();
  void means();
  void tensors();
  void arguments();
  ArgumentList argument_list();
  void check_members(const Communicator& communicator, size_t at);
  Part part(DType dtype, int64_t elements, size_t at);

  // parse_instructions.cc
  void instruction();
  template <class Launch>
  Launch launch();
  // Whether the list fits the program's slots; `at`: the place of a failure.
  bool check_arguments(int32_t program, int32_t arguments, size_t at);
  template <class Message>
  Message message();
  SumTypes summed();
  template <class Collective>
  Collective over_ranks(Collective collective);
  AllReduce all_reduce();
  ReduceScatter reduce_scatter();
  AllGather all_gather();
  AllToAll all_to_all();
  Update update();

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
  int32_t resolve(const NameIndex& index, const char* what) {
    (void)reader_.peek();
    const size_t at = reader_.position();
    const auto name = reader_.string();
    if (!reader_.ok()) return -1;
    const auto found = index.find(name);
    if (found != index.end()) return found->second;
    reader_.fail(kName, at, std::string("there is no ") + what + " " + in_quotes(name));
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
      reader_.fail(kName, at_, "there is no buffer " + in_quotes(parts ? parts->name : text));
      return {};
    }
    const BufferRange where{found->second, parts->offset};
    need(where, 0, at_);
    return where;
  }
  BufferRange range(const char* key) {
    reader_.key(key);
    return range();
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
    return dtype_here();
  }
  DType optional_dtype(const char* key, DType otherwise) {
    return reader_.optional_key(key) ? dtype_here() : otherwise;
  }
  DType dtype_here() {
    const size_t at = reader_.position();
    const auto name = reader_.string();
    const auto known = dtype_from_name(name);
    if (!known) reader_.fail(kSyntax, at, "unknown dtype " + in_quotes(name));
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
  template <class Item>
  void section(const char* key, Item item) {
    reader_.key(key);
    lines(item);
  }
  template <class Item>
  void lines(Item item) {
    reader_.open_array();
    while (reader_.next_item()) item(reader_.position());
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

  JsonReader reader_;
  const SharedNames& shared_;
  const PlanOfRank& plan_of_rank_;
  RankPlan plan_;
  int32_t like_ = -1;  // the rank whose plan this one is like
  size_t like_at_ = 0;
  Special specials_[7] = {{"seed_step", 16, 8}, {"learning_rate", 8, 8}, {"loss", 4, 4},    {"grad_norm", 4, 4},
                          {"dropped", 8, 8},    {"loss_scale", 4, 4},    {"overflow", 4, 4}};
  NameIndex stream_index_, communicator_index_, channel_index_, event_index_, buffer_index_, argument_index_;
  std::vector<size_t> declared_at_, buffer_at_;
  size_t at_ = 0;  // of the range read last
  size_t instruction_at_ = 0;
};

}  // namespace piper::plan
