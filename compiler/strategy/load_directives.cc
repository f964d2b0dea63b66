#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "compiler/strategy/directive_args.h"
#include "compiler/strategy/filter.h"
#include "compiler/strategy/load_sections.h"
#include "compiler/strategy/mesh.h"

namespace piper::strategy {
namespace {

constexpr int64_t kMaxRank = 1 << 20;

std::optional<FilterGroups> read_groups(ReadContext& context, const Value& value, const std::string& what) {
  if (value.kind != Value::Kind::kList) {
    context.diags.error("P0202", value.span).help("for example [[{MB: 0, PASS: F}], [{MB: 1, PASS: F}]]")
        << what << " must be a list of groups, not " << describe(value);
    return std::nullopt;
  }
  if (value.items.size() < 2) {
    context.diags.error("P0235", value.span).help("give at least two groups; members of one group overlap")
        << "an order needs at least two groups, but it has " << (value.items.size() == 1 ? "one" : "none");
    return std::nullopt;
  }
  FilterGroups groups;
  bool good = true;
  for (const Value& item : value.items) {
    if (item.kind != Value::Kind::kList || item.items.empty()) {
      auto error = context.diags.error("P0202", item.span);
      error << "a group of an order must be a non-empty list of filters, not "
            << (item.kind == Value::Kind::kList ? "an empty list" : describe(item));
      if (item.kind == Value::Kind::kMap) error.help("put the filter into brackets: [{...}]");
      good = false;
      continue;
    }
    std::vector<Filter> group;
    const bool nested = item.items[0].kind == Value::Kind::kList;
    if (nested && (item.items.size() > 1 || item.items[0].items.empty())) {
      context.diags.error("P0202", item.span)
              .help("[[{...}, {...}]] runs exactly in this order, [{...}, {...}] lets the filters alternate")
          << "a slot with a fixed order must be one nested list of filters";
      good = false;
      continue;
    }
    for (const Value& entry : nested ? item.items[0].items : item.items) {
      if (entry.kind == Value::Kind::kList) {
        context.diags.error("P0202", entry.span)
                .help("[[{...}, {...}]] runs exactly in this order, [{...}, {...}] lets the filters alternate")
            << "a nested list is mixed with the filters of a slot";
        good = false;
        continue;
      }
      if (auto filter = read_filter(context, entry, {}, "the filter")) {
        filter->in_sequence = nested;
        group.push_back(std::move(*filter));
      } else {
        good = false;
      }
    }
    groups.push_back(std::move(group));
  }
  if (!good) return std::nullopt;
  return groups;
}

std::optional<Capacity> read_capacity(ReadContext& context, const Value& value) {
  MapReader reader(context, value, "'capacity'");
  Capacity capacity;
  bool good = reader.ok();
  if (const Value* factor = reader.require("factor", "for example {factor: 1.25}")) {
    const auto number = read_number(context, *factor, "'factor'");
    if (number && !(*number > 0)) {
      context.diags.error("P0207", factor->span) << "'factor' must be greater than 0";
    }
    good = good && number && *number > 0;
    if (number) capacity.factor = *number;
  } else {
    good = false;
  }
  if (const Value* overflow = reader.get("overflow")) {
    const auto word = read_choice(context, *overflow, "'overflow'", {"drop", "error"});
    if (word) capacity.overflow = *word;
    good = good && word.has_value();
  }
  reader.finish();
  if (!good) return std::nullopt;
  return capacity;
}

std::optional<RankGroups> read_rank_groups(ReadContext& context, const Value& value, const std::string& what) {
  const auto is_axis = [](const Value& name) {
    return name.kind == Value::Kind::kString && name.text.find("..") == std::string::npos;
  };
  const bool axes = value.kind == Value::Kind::kList
                        ? !value.items.empty() && std::all_of(value.items.begin(), value.items.end(), is_axis)
                        : is_axis(value);
  const auto along = axes ? groups_along(context, value, what) : std::optional<Value>(value);
  if (!along) return std::nullopt;
  RankGroups over{read_device_groups(context, *along, what, false)};
  if (over.groups.empty()) return std::nullopt;
  return over;
}

std::optional<Globs> read_globs(ReadContext& context, const Value& value, const std::string& what) {
  if (value.kind == Value::Kind::kString) return Globs{{value.text}, {value.span}};
  Globs globs{read_strings(context, value, what), item_spans(value)};
  if (value.kind == Value::Kind::kList && value.items.empty())
    context.diags.error("P0207", value.span) << what << " is empty; name at least one weight or module";
  if (globs.globs.empty()) return std::nullopt;
  return globs;
}

template <class T>
ArgValue or_nothing(std::optional<T> value) {
  return value ? ArgValue(std::move(*value)) : ArgValue();
}

ArgValue read_argument(ReadContext& context, const DirectiveSpec& spec, const ArgSpec& arg, const Value& value) {
  const std::string what = "'" + std::string(arg.name) + "'";
  switch (arg.kind) {
    case ArgKind::kFilter:
      return or_nothing(
          read_filter(context, value, spec.filter_forbids, "the filter of '" + std::string(spec.name) + "'"));
    case ArgKind::kFilterGroups: return or_nothing(read_groups(context, value, what));
    case ArgKind::kDevices: return or_nothing(read_devices(context, value, what));
    case ArgKind::kDeviceGroups: {
      auto groups = read_device_groups(context, value, what, false);
      return groups.empty() ? ArgValue() : ArgValue(std::move(groups));
    }
    case ArgKind::kRankGroups: return or_nothing(read_rank_groups(context, value, what));
    case ArgKind::kName: return or_nothing(read_string(context, value, what));
    case ArgKind::kChoice:
      return or_nothing(
          read_choice(context, value, what, std::vector<std::string>(arg.choices.begin(), arg.choices.end())));
    case ArgKind::kCount: return or_nothing(read_int(context, value, what, arg.least, kMaxRank));
    case ArgKind::kMebibytes: {
      Value number = value;
      if (context.bare_list && value.kind == Value::Kind::kString) {
        number.quoted = false;
        resolve_scalar(number);
      }
      const auto size = read_number(context, number, what);
      if (size && *size < 0) {
        context.diags.error("P0207", value.span) << what << " must be at least 0 (MiB)";
        return {};
      }
      return or_nothing(size);
    }
    case ArgKind::kShare: {
      const auto share = read_number(context, value, what);
      if (share && !(*share > 0 && *share <= 1)) {
        context.diags.error("P0207", value.span) << what << " must be above 0 and at most 1";
        return {};
      }
      return or_nothing(share);
    }
    case ArgKind::kFlag: return or_nothing(read_bool(context, value, what));
    case ArgKind::kCapacity: return or_nothing(read_capacity(context, value));
    case ArgKind::kGlobs: return or_nothing(read_globs(context, value, what));
  }
  return {};
}

void load_directive(ReadContext& context, const Value& value, std::span<const DirectiveSpec* const> specs,
                    Strategy& out) {
  const Value* op = value.kind == Value::Kind::kMap ? value.find("op") : nullptr;
  if (op == nullptr) {
    context.diags.error("P0206", value.span).help("for example {op: place, filter: {PP: 0}, devices: [0]}")
        << (value.kind == Value::Kind::kMap ? std::string("a directive needs 'op'")
                                            : "a directive must be a mapping, not " + describe(value));
    return;
  }
  std::vector<std::string> names;
  for (const DirectiveSpec* spec : specs) names.emplace_back(spec->name);
  const auto found = std::find(names.begin(), names.end(), op->text);
  if (op->kind != Value::Kind::kString || found == names.end()) {
    auto error = context.diags.error("P0205", op->span);
    error << "unknown directive " << (op->kind == Value::Kind::kString ? "'" + op->text + "'" : describe(*op));
    error.note("the directives are " + one_of(names));
    const std::string near = diag::nearest(op->text, names);
    if (!near.empty()) error.help("did you mean '" + near + "'?");
    return;
  }
  Directive directive;
  directive.spec = specs[static_cast<size_t>(found - names.begin())];
  directive.span = value.span;
  MapReader reader(context, value, "a '" + op->text + "' directive");
  reader.get("op");
  for (const ArgSpec& arg : directive.spec->args) {
    const Value* alias = context.bare_list && arg.name == "devices" ? reader.get("device") : nullptr;
    const bool has_alias = alias != nullptr;
    if (has_alias && value.find("devices") != nullptr && value.find("devices")->kind != Value::Kind::kNull)
      reader.alternatives({"device", "devices"});
    const std::string_view key = has_alias ? std::string_view("device") : arg.name;
    if (has_alias) reader.get("devices");
    const Value* given =
        arg.required ? reader.require(key, "for example " + std::string(directive.spec->example)) : reader.get(key);
    directive.args.push_back(given == nullptr ? ArgValue() : read_argument(context, *directive.spec, arg, *given));
    directive.arg_spans.push_back(given == nullptr ? value.span : given->span);
  }
  reader.finish();
  out.directives.push_back(std::move(directive));
}

// The filters of an order's groups; none of other directives.
std::vector<const Filter*> ordered_filters(const Directive& directive) {
  std::vector<const Filter*> filters;
  for (const ArgValue& arg : directive.args)
    if (const auto* groups = std::get_if<FilterGroups>(&arg))
      for (const auto& group : *groups)
        for (const Filter& filter : group) filters.push_back(&filter);
  return filters;
}

bool names_tag(const Filter& filter, const std::string& tag) {
  return std::any_of(filter.terms.begin(), filter.terms.end(), [&](const FilterTerm& term) { return term.tag == tag; });
}

// Visits every device list with the directive that it belongs to, nullptr for those of the schedule.
template <class Visit>
void for_all_devices(Strategy& strategy, Visit&& visit) {
  for (Directive& directive : strategy.directives) {
    for (ArgValue& arg : directive.args) {
      if (auto* devices = std::get_if<Devices>(&arg)) visit(&directive, *devices);
      if (auto* groups = std::get_if<std::vector<Devices>>(&arg)) {
        for (Devices& group : *groups) visit(&directive, group);
      }
    }
  }
  if (strategy.schedule) {
    for (Devices& group : strategy.schedule->ranks) visit(static_cast<Directive*>(nullptr), group);
  }
}

}  // namespace

std::optional<Devices> read_devices(ReadContext& context, const Value& value, const std::string& what) {
  if (value.kind == Value::Kind::kString || value.kind == Value::Kind::kMap) {
    const auto list = list_of_ranks(context, value, what);
    if (!list) return std::nullopt;
    return read_devices(context, *list, what);
  }
  if (value.kind != Value::Kind::kList) {
    auto error = context.diags.error("P0202", value.span);
    error << what << " must be a list of ranks, not " << describe(value);
    if (value.kind == Value::Kind::kInt) error.help("write [" + value.text + "]");
    return std::nullopt;
  }
  if (value.items.empty()) {
    context.diags.error("P0213", value.span) << what << " is empty; name at least one rank";
    return std::nullopt;
  }
  Devices devices;
  devices.span = value.span;
  std::map<int32_t, diag::Span> seen;
  bool good = true;
  for (const Value& item : value.items) {
    const auto rank = read_int(context, item, "a rank in " + what, std::numeric_limits<int32_t>::min(), kMaxRank);
    if (!rank) {
      good = false;
      continue;
    }
    const auto [first, is_new] = seen.emplace(static_cast<int32_t>(*rank), item.span);
    if (*rank < 0) {
      context.diags.error("P0213", item.span) << "rank " << *rank << " is negative; ranks count from 0";
      good = false;
    } else if (!is_new) {
      context.diags.error("P0213", item.span).note("the first is here", first->second)
          << "rank " << *rank << " appears twice in " << what;
      good = false;
    }
    devices.ranks.push_back(static_cast<int32_t>(*rank));
  }
  if (!good) return std::nullopt;
  return devices;
}

std::vector<Devices> read_device_groups(ReadContext& context, const Value& value, const std::string& what,
                                        bool of_schedule) {
  std::vector<Devices> groups;
  if (value.kind == Value::Kind::kString || value.kind == Value::Kind::kMap) {
    const auto list = groups_of_ranks(context, value, what);
    if (list) groups = read_device_groups(context, *list, what, of_schedule);
    return groups;
  }
  const auto is_group = [](const Value& item) {
    return item.kind == Value::Kind::kList || item.kind == Value::Kind::kMap ||
           (item.kind == Value::Kind::kString && item.text.find("..") != std::string::npos);
  };
  const bool nested = value.kind == Value::Kind::kList &&
                      (of_schedule || std::any_of(value.items.begin(), value.items.end(), is_group));
  if (!nested) {
    if (auto devices = read_devices(context, value, what)) groups.push_back(std::move(*devices));
    return groups;
  }
  if (value.items.empty()) context.diags.error("P0213", value.span) << what << " is empty; name at least one rank";
  std::map<int32_t, diag::Span> seen;
  bool good = true;
  for (const Value& item : value.items) {
    Value single;
    if (of_schedule && item.kind == Value::Kind::kInt) {
      single.kind = Value::Kind::kList;
      single.span = item.span;
      single.items.push_back(item);
    }
    auto devices = read_devices(context, single.items.empty() ? item : single, "a group of " + what);
    if (!devices) {
      good = false;
      continue;
    }
    for (int32_t rank : devices->ranks) {
      const auto [first, is_new] = seen.emplace(rank, devices->span);
      if (is_new) continue;
      context.diags.error("P0213", devices->span).note("the other group is here", first->second)
          << "rank " << rank << " is in two groups of " << what;
      good = false;
    }
    if (!of_schedule && !groups.empty() && groups[0].ranks.size() != devices->ranks.size()) {
      context.diags.error("P0213", devices->span).note("the first group is here", groups[0].span)
          << "the groups of " << what << " must have the same size: " << devices->ranks.size() << " here, "
          << groups[0].ranks.size() << " in the first";
      good = false;
    }
    groups.push_back(std::move(*devices));
  }
  if (!good) groups.clear();
  return groups;
}

void load_directives(ReadContext& context, const Value& value, std::span<const DirectiveSpec* const> specs,
                     Strategy& out) {
  if (value.kind != Value::Kind::kList) {
    context.diags.error("P0202", value.span) << "'directives' must be a list, not " << describe(value);
    return;
  }
  for (const Value& item : value.items) load_directive(context, item, specs, out);
}

void check_directives(ReadContext& context, const Strategy& strategy) {
  const Filter* input_half = nullptr;
  const Filter* weight_half = nullptr;
  for (const Directive& directive : strategy.directives) {
    const std::vector<const Filter*> filters = ordered_filters(directive);
    if (strategy.schedule) {
      const bool is_split = directive.spec->name == "split";
      const auto of_stages = [&](const Filter* filter) { return names_tag(*filter, strategy.schedule->stages_tag); };
      if (is_split || std::any_of(filters.begin(), filters.end(), of_stages)) {
        context.diags.error("P0226", directive.span)
                .note("the schedule is here", strategy.schedule->span)
                .help("delete the '" + std::string(directive.spec->name) + "', or the schedule")
            << "'" << directive.spec->name << "' together with a schedule, which already sets it"
            << (is_split ? "" : " for '" + strategy.schedule->stages_tag + "'");
      }
    }
    for (const Filter* filter : filters) {
      if (filter->pass == Pass::kBI && input_half == nullptr) input_half = filter;
      if (filter->pass == Pass::kBW && weight_half == nullptr) weight_half = filter;
    }
  }
  if ((input_half == nullptr) != (weight_half == nullptr)) {
    const bool has_input = input_half != nullptr;
    context.diags.error("P0222", (has_input ? input_half : weight_half)->span)
            .help(has_input ? "order the BW half too, or write B" : "order the BI half before it, or write B")
        << (has_input ? "the order names BI, but not BW" : "the order names BW, but not BI");
  }
}

void check_mesh(ReadContext& context, Strategy& strategy) {
  if (context.mesh == nullptr) return;
  if (!context.mesh_was_read) {
    context.diags.error("P0244", context.mesh->span).help("write devices: {AXIS: index}, or leave 'mesh' out")
        << "no device list names an axis of 'mesh'";
    return;
  }
  std::set<int32_t> named;
  for_all_devices(
      strategy, [&](const Directive*, Devices& devices) { named.insert(devices.ranks.begin(), devices.ranks.end()); });
  for (const Directive& directive : strategy.directives)
    for (const ArgValue& arg : directive.args)
      if (const auto* over = std::get_if<RankGroups>(&arg))
        for (const Devices& group : over->groups) named.insert(group.ranks.begin(), group.ranks.end());
  for (int32_t rank = 0; rank < context.mesh->num_ranks(); ++rank) {
    if (named.count(rank) > 0) continue;
    context.diags.error("P0248", context.mesh->span)
        << "the mesh has " << context.mesh->num_ranks() << " ranks, and no device list names rank " << rank << ", "
        << context.mesh->coordinates(rank);
    return;
  }
}

void align_replicas(ReadContext& context, Strategy& strategy) {
  const auto sorted = [](std::vector<int32_t> ranks) {
    std::sort(ranks.begin(), ranks.end());
    return ranks;
  };
  std::map<std::vector<int32_t>, std::vector<int32_t>> placed;  // sorted ranks -> as the first place lists them
  for_all_devices(strategy, [&](const Directive* directive, const Devices& devices) {
    if (directive != nullptr && directive->spec->name == "place") placed.emplace(sorted(devices.ranks), devices.ranks);
  });
  for_all_devices(strategy, [&](const Directive*, Devices& devices) {
    const auto found = placed.find(sorted(devices.ranks));
    if (found == placed.end() || found->second == devices.ranks) return;
    const std::string before = to_string(devices);
    devices.ranks = found->second;
    context.diags.remark("a device list of a bare list is a set: " + before + " is read as " + to_string(devices) +
                             ", the order in which that group is placed first",
                         devices.span);
  });
}

void renumber_devices(ReadContext& context, Strategy& strategy) {
  std::set<int32_t> labels;
  for_all_devices(
      strategy, [&](const Directive*, Devices& devices) { labels.insert(devices.ranks.begin(), devices.ranks.end()); });
  if (labels.empty() || *labels.rbegin() + 1 == static_cast<int32_t>(labels.size())) return;
  std::map<int32_t, int32_t> dense;
  std::string text;
  for (int32_t label : labels) {
    const int32_t rank = static_cast<int32_t>(dense.size());
    dense[label] = rank;
    text += (text.empty() ? "" : ", ") + std::to_string(label) + " -> " + std::to_string(rank);
  }
  for_all_devices(strategy, [&](const Directive*, Devices& devices) {
    for (int32_t& rank : devices.ranks) rank = dense[rank];
  });
  for (Directive& directive : strategy.directives)
    for (ArgValue& arg : directive.args)
      if (auto* over = std::get_if<RankGroups>(&arg))
        for (Devices& group : over->groups)
          for (int32_t& rank : group.ranks)
            if (const auto known = dense.find(rank); known != dense.end()) rank = known->second;
  context.diags.remark("the device labels of a bare list are renumbered to ranks: " + text,
                       strategy.directives.empty() ? diag::Span{} : strategy.directives[0].span);
}

}  // namespace piper::strategy
