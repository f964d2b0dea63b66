#include "schemas/plan/describe_format.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "schemas/plan/manifest_fields.h"
#include "schemas/plan/program_fields.h"
#include "schemas/plan/rank_plan_fields.h"

namespace piper::plan {
namespace {

using Json = nlohmann::ordered_json;

Json ref(std::string_view name) { return {{"$ref", "#/$defs/" + std::string(name)}}; }
Json whole(int64_t least) { return {{"type", "integer"}, {"minimum", least}}; }
Json text() { return {{"type", "string"}}; }
Json filled() { return {{"type", "string"}, {"minLength", 1}}; }
Json pattern(std::string_view of) { return {{"type", "string"}, {"pattern", of}}; }
Json list_of(Json item) { return {{"type", "array"}, {"items", std::move(item)}}; }
Json map_of(Json value) { return {{"type", "object"}, {"additionalProperties", std::move(value)}}; }
// All but those of values that are left out.
template <IsWord Word>
Json words(std::optional<Word> left_out = {}, bool or_empty = false) {
  Json list = Json::array();
  int value = 0;
  for (; !word_of(static_cast<Word>(value)).empty(); ++value)
    if (static_cast<Word>(value) != left_out) list.push_back(word_of(static_cast<Word>(value)));
  if (or_empty) list.push_back("");
  return {{"enum", list}};
}

// The object of one struct, of which fields() says the members.
class Describer {
 public:
  static constexpr bool kReads = false;

  Describer(bool of_reference, bool like) : of_reference_(of_reference), like_(like) {}

  Json object() const {
    return {{"type", "object"}, {"properties", properties_}, {"required", required_}, {"additionalProperties", false}};
  }

  template <class T>
  void operator()(std::string_view key, T& member, const Rule& rule = {}) {
    add(key, describe(member, rule), rule);
  }
  template <class T>
  void operator()(std::string_view key, std::optional<T>&, const Rule& rule = {}) {
    T member{};
    maybe([&] { (*this)(key, member, rule); });
  }
  template <class T>
  void optional(std::string_view key, T& member, const std::type_identity_t<T>& left_out, const Rule& rule = {}) {
    Json json = describe(member, rule);
    if constexpr (std::same_as<T, bool>) json = {{"const", true}};
    if constexpr (std::same_as<T, std::string>)
      if (rule.as.empty()) json = filled();
    if constexpr (IsWord<T> && !std::same_as<T, DType>) json = words<T>(left_out);
    maybe([&] { add(key, json, rule); });
  }
  void unless_empty(std::string_view key, auto& items) {
    maybe([&] { (*this)(key, items); });
  }
  void where(bool, auto members) { maybe(members); }
  void together(bool, auto members) { maybe(members); }

  // ---- the manifest's own
  void format(int version) {
    add("format", {{"const", "piper plan"}});
    add("version", {{"const", version}});
  }
  // ---- those of programs and references
  void format(std::string_view key, int version) { add(key, {{"const", version}}); }
  void chunk(std::string_view key, int32_t) { add(key, filled()); }
  void by_samples(std::string_view key, int64_t) { add(key, pattern("^[0-9]*n?$")); }
  std::vector<ReferenceSlot>& slots(Reference&) { return slots_; }
  void end_of(KernelCall&) {
    if (of_reference_) maybe([&] { add("line", filled()); });
  }
  // ---- the rank plan's
  void name(std::string_view key, int32_t, Names) { add(key, filled()); }
  void place(std::string_view key, BufferRange&, int64_t, int64_t) {
    maybe([&] { add(key, ref("range")); });
  }
  void ranks(std::string_view key, std::vector<int32_t>&) {
    add(key, {{"oneOf", {list_of(whole(0)), pattern("^[0-9]+[.][.][0-9]+( by [0-9]+)?$")}}});
  }
  void like(std::string_view key, int32_t rank, const Rule& rule) {
    if (like_) (*this)(key, rank, rule);
  }
  void action(Action& action) {
    std::visit([this](auto& kind) { fields(*this, kind); }, action);
  }
  void offsets(std::string_view key, RankPlan&) {
    Json offset = whole(0);
    offset["multipleOf"] = buffer_alignment(DeviceKind::kCpu);
    add(key, map_of(offset));
  }
  void own_placements(std::string_view key, RankPlan&, const RankPlan&) {
    std::vector<LikePlacement> items;
    unless_empty(key, items);
  }
  void own_arguments(std::string_view key, RankPlan&, const RankPlan&) {
    std::vector<LikeArguments> items;
    unless_empty(key, items);
  }

 private:
  void add(std::string_view key, Json json, const Rule& rule = {}) {
    if (!rule.about.empty()) json["description"] = rule.about;
    properties_[std::string(key)] = std::move(json);
    if (is_required_) required_.push_back(key);
  }
  void maybe(auto members) {
    const bool outer = std::exchange(is_required_, false);
    members();
    is_required_ = outer;
  }

  template <class T>
    requires std::is_integral_v<T>
  static Json describe(T&, const Rule& rule) {
    Json json = {{"type", "integer"}};
    if (std::is_unsigned_v<T>) json["minimum"] = 0;
    if (rule.least > INT64_MIN) json["minimum"] = rule.least;
    if (rule.most < kOfAnotherMember) json["maximum"] = rule.most;
    return json;
  }
  static Json describe(bool&, const Rule&) { return {{"type", "boolean"}}; }
  static Json describe(double&, const Rule& rule) {
    return rule.positive ? Json{{"type", "number"}, {"exclusiveMinimum", 0}} : ref("real");
  }
  static Json describe(DType&, const Rule&) { return ref("dtype"); }
  template <IsWord Word>
  static Json describe(Word&, const Rule& rule) {
    return words<Word>({}, rule.or_empty);
  }
  static Json describe(std::string&, const Rule& rule) {
    if (!rule.as.empty()) return ref(rule.as);
    if (!rule.words.empty()) return {{"enum", rule.words}};
    return rule.unique.empty() && !rule.filled ? text() : filled();
  }
  static Json describe(BufferRange&, const Rule&) { return ref("range"); }
  static Json describe(CalledKernel&, const Rule&) { return filled(); }
  Json describe(Operand&, const Rule&) const { return ref(of_reference_ ? "sized_operand" : "operand"); }
  static Json describe(std::vector<Attr>&, const Rule&) {
    return map_of({{"oneOf", {{{"type", {"number", "null", "boolean", "string"}}}, list_of({{"type", "integer"}})}}});
  }
  static Json describe(std::vector<Tag>&, const Rule&) { return map_of(whole(0)); }
  static Json describe(std::vector<uint32_t>&, const Rule&) { return list_of(pattern("^[0-9a-f]{8}$")); }
  static Json describe(std::vector<int32_t>&, const Rule&) { return list_of(whole(0)); }
  static Json describe(std::vector<int64_t>&, const Rule& rule) {
    Json json = list_of(rule.shape ? whole(0) : Json{{"type", "integer"}});
    if (rule.filled) json["minItems"] = 1;
    return json;
  }
  Json describe(IsStruct auto& object, const Rule&) const {
    Describer of(of_reference_, like_);
    fields(of, object);
    return of.object();
  }
  template <IsList Items>
  Json describe(Items&, const Rule&) const {
    typename Items::value_type item{};
    return list_of(describe(item, {.filled = true}));
  }
  static Json describe(SharedVector<Instruction>&, const Rule&) { return list_of(ref("instruction")); }
  // A constant says what it holds, an input may say what it is fed.
  Json describe(std::vector<ReferenceSlot>&, const Rule&) const {
    constexpr std::string_view kTold[] = {"sha256", "per_sample", "sha256_of_each"};
    ReferenceSlot any;
    const Json slot = describe(any, {});
    Json variants = Json::array();
    const auto add = [&](const Json& of, std::string_view told) {
      Json variant = slot;
      Json& properties = variant["properties"];
      for (const std::string_view key : kTold)
        if (key != told) properties.erase(std::string(key));
      if (told != "sha256") properties.erase("each");
      if (of[0] != word_of(SlotRole::kInput)) properties.erase("feed");
      if (!told.empty()) variant["required"].push_back(told);
      properties["role"] = {{"enum", of}};
      variants.push_back(std::move(variant));
    };
    const Json input = Json::array({word_of(SlotRole::kInput)}), constant = Json::array({word_of(SlotRole::kConstant)});
    const Json roles = words<SlotRole>();
    Json others = Json::array();
    for (const Json& role : roles["enum"])
      if (role != input[0] && role != constant[0]) others.push_back(role);
    add(input, "");
    add(others, "");
    for (const std::string_view told : kTold) add(constant, told);
    return list_of({{"oneOf", variants}});
  }

  static constexpr int64_t kOfAnotherMember = INT32_MAX - 1;  // a bound that another member says
  bool of_reference_, like_, is_required_ = true;
  Json properties_ = Json::object(), required_ = Json::array();
  std::vector<ReferenceSlot> slots_;
};

template <class Struct>
Json described(Struct object = {}, bool of_reference = false) {
  Describer describer(of_reference, false);
  fields(describer, object);
  return describer.object();
}

template <size_t... kKinds>
Json instructions(std::index_sequence<kKinds...>) {
  return {{"oneOf", {described(Instruction{0, std::variant_alternative_t<kKinds, Action>{}})...}}};
}

Json rank_plan(bool of_another) {
  RankPlan plan;
  int32_t like = -1;
  Describer describer(false, of_another);
  head_fields(describer, plan, like);
  rest_fields(describer, plan, of_another ? &plan : nullptr);
  return describer.object();
}

}  // namespace

std::string format_schema() {
  std::string dtypes;
  const Json all_dtypes = words<DType>();
  for (const Json& dtype : all_dtypes["enum"]) dtypes += (dtypes.empty() ? "" : "|") + dtype.get<std::string>();
  const auto operand = [&](const std::string& extents) {
    const std::string list = "(" + extents + "(," + extents + ")*)";
    return Json{
        {"oneOf", {{{"type", "null"}}, pattern("^.+ (" + dtypes + ")\\[" + list + "?\\](\\{" + list + "\\})?$")}}};
  };
  Json range = filled();
  range["description"] = "a buffer's name, with +BYTES where it is not its start";
  Json provenance = {{"type", "object"},
                     {"properties", {{"provenance", map_of(text())}, {"why", map_of(text())}}},
                     {"required", {"provenance"}},
                     {"additionalProperties", false}};
  Manifest manifest;
  manifest.world_size = INT32_MAX;  // bounds other members
  Json like = rank_plan(true);
  like["description"] =
      "a plan whose streams, events, buffers, arguments and instructions are those of another rank, except for "
      "argument "
      "lists of its own";
  Json definitions = {{"dtype", all_dtypes},
                      {"range", range},
                      {"sha256", pattern("^[0-9a-f]{64}$")},
                      {"real", {{"type", {"number", "null"}}}},
                      {"manifest", described(manifest)},
                      {"provenance", provenance},
                      {"operand", operand("[0-9]+")},
                      {"sized_operand", operand("[0-9]*n?")},
                      {"program", described(Program{})},
                      {"reference", described(Reference{}, true)},
                      {"instruction", instructions(std::make_index_sequence<std::variant_size_v<Action>>())},
                      {"rank_plan", rank_plan(false)},
                      {"like_plan", like}};
  Json any = Json::array();
  for (const char* text : {"manifest", "program", "rank_plan", "like_plan", "provenance", "reference"})
    any.push_back(ref(text));
  const Json root = {{"$schema", "https://json-schema.org/draft/2020-12/schema"},
                     {"title", "piper plan bundle: manifest, program, rank plan, plan like another rank's, provenance"},
                     {"oneOf", any},
                     {"$defs", definitions}};
  return root.dump(1) + "\n";
}

}  // namespace piper::plan
