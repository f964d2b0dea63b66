#include "compiler/strategy/mesh.h"

#include <algorithm>
#include <map>

#include "compiler/strategy/filter.h"

namespace piper::strategy {
namespace {

constexpr int64_t kMostRanks = 1 << 20;
constexpr std::string_view kEach = "each";

std::vector<std::string> names_of(const Mesh& mesh) {
  std::vector<std::string> names;
  for (const MeshAxis& axis : mesh.axes) names.push_back(axis.name);
  return names;
}

const MeshAxis* find_axis(ReadContext& context, const Mesh& mesh, const std::string& name, diag::Span span) {
  for (const MeshAxis& axis : mesh.axes)
    if (axis.name == name) return &axis;
  auto error = context.diags.error("P0249", span);
  error << "the mesh has no axis '" << name << "'";
  error.note("its axes are " + one_of(names_of(mesh)), mesh.span);
  const std::string near = diag::nearest(name, names_of(mesh));
  if (!near.empty()) error.help("did you mean '" + near + "'?");
  return nullptr;
}

Value list_at(diag::Span span) {
  Value list;
  list.kind = Value::Kind::kList;
  list.span = span;
  return list;
}

Value number_at(int64_t number, diag::Span span) {
  Value value;
  value.kind = Value::Kind::kInt;
  value.integer = number;
  value.number = static_cast<double>(number);
  value.text = std::to_string(number);
  value.span = span;
  return value;
}

// Strides in the order from the fastest axis on: those that stay inside of a node, then the others.
void number_ranks(Mesh& mesh, const std::vector<std::string>& inside) {
  int32_t stride = 1;
  for (const bool in_node : {true, false})
    for (auto axis = mesh.axes.rbegin(); axis != mesh.axes.rend(); ++axis) {
      if ((std::find(inside.begin(), inside.end(), axis->name) != inside.end()) != in_node) continue;
      axis->stride = stride;
      stride *= axis->size;
    }
}

// Says how many ranks a node has. The axes that `node` keeps inside; nothing where they are wrong.
std::optional<std::vector<std::string>> read_node(ReadContext& context, Mesh& mesh, const Value& value) {
  MapReader reader(context, value, "'node'");
  const Value* ranks = reader.require("ranks", "for example {ranks: 8, inside: [tp]}");
  const Value* inside = reader.require("inside", "for example {ranks: 8, inside: [tp]}");
  reader.finish();
  if (ranks == nullptr || inside == nullptr) return std::nullopt;
  const auto room = read_int(context, *ranks, "'ranks' of a node", 1, kMostRanks);
  std::vector<std::string> names = read_strings(context, *inside, "'inside'");
  if (!room || inside->kind != Value::Kind::kList || names.size() != inside->items.size()) return std::nullopt;
  mesh.ranks_per_node = static_cast<int32_t>(*room);
  int64_t group = 1;
  for (size_t i = 0; i < names.size(); ++i) {
    const MeshAxis* axis = find_axis(context, mesh, names[i], inside->items[i].span);
    if (axis == nullptr) return std::nullopt;
    if (std::find(names.begin(), names.begin() + static_cast<int64_t>(i), names[i]) ==
        names.begin() + static_cast<int64_t>(i))
      group *= axis->size;
  }
  if (*room % group == 0) return names;
  context.diags.error("P0248", inside->span)
          .help("keep fewer axes inside, or make 'ranks' a multiple of " + std::to_string(group))
      << "the axes that stay inside a node have " << group << " ranks together, of which a node of " << *room
      << " cannot hold whole groups";
  return std::nullopt;
}

// What a choice of ranks says of each axis of the mesh.
struct Choice {
  std::vector<FilterTerm> terms;  // by axis; any index where the choice does not name it
  std::vector<bool> each;         // by axis: a group for every index
};

bool check_indices(ReadContext& context, const FilterTerm& term, const MeshAxis& axis) {
  const bool outside = term.absent || std::any_of(term.ranges.begin(), term.ranges.end(),
                                                  [&](const auto& range) { return range.second >= axis.size; });
  if (outside) {
    context.diags.error("P0249", term.span) << "the axis '" << axis.name << "' has the indices 0 to " << axis.size - 1;
  }
  return !outside;
}

std::optional<Choice> read_choice_of_ranks(ReadContext& context, const Value& value, const std::string& what,
                                           bool groups_allowed) {
  const Mesh& mesh = *context.mesh;
  Choice choice;
  choice.each.assign(mesh.axes.size(), false);
  choice.terms.resize(mesh.axes.size());
  for (FilterTerm& term : choice.terms) term.any = true;
  Value without_each = value;
  without_each.keys.clear();
  without_each.items.clear();
  bool good = true;
  for (size_t i = 0; i < value.keys.size(); ++i) {
    const MeshAxis* axis = find_axis(context, mesh, value.keys[i].text, value.keys[i].span);
    good = good && axis != nullptr;
    if (axis == nullptr) continue;
    if (value.items[i].kind != Value::Kind::kString || value.items[i].text != kEach) {
      without_each.keys.push_back(value.keys[i]);
      without_each.items.push_back(value.items[i]);
      continue;
    }
    choice.each[static_cast<size_t>(axis - mesh.axes.data())] = true;
    if (groups_allowed) continue;
    context.diags.error("P0249", value.items[i].span)
            .help("write an index, or leave the axis out for all ranks along it")
        << "'each' makes a group for every index of '" << axis->name << "', and " << what << " is one group";
    good = false;
  }
  const auto filter = good ? read_filter(context, without_each, {"PASS"}, what) : std::nullopt;
  if (!filter) return std::nullopt;
  for (const FilterTerm& term : filter->terms) {
    const MeshAxis* axis = find_axis(context, mesh, term.tag, term.tag_span);
    if (axis == nullptr || !check_indices(context, term, *axis)) return std::nullopt;
    choice.terms[static_cast<size_t>(axis - mesh.axes.data())] = term;
  }
  return choice;
}

// A list for every combination of indices along the axes with `each`, in their order; one list where none has.
std::vector<Value> chosen_lists(const Mesh& mesh, const Choice& choice, diag::Span span) {
  std::map<std::vector<int32_t>, Value> lists;
  std::vector<int32_t> index(mesh.axes.size());
  while (true) {
    bool matches = true;
    int32_t rank = 0;
    std::vector<int32_t> group;
    for (size_t a = 0; a < index.size(); ++a) {
      matches = matches && choice.terms[a].matches(index[a]);
      rank += index[a] * mesh.axes[a].stride;
      if (choice.each[a]) group.push_back(index[a]);
    }
    if (matches) lists.emplace(group, list_at(span)).first->second.items.push_back(number_at(rank, span));
    size_t axis = index.size();
    while (axis > 0 && ++index[axis - 1] == mesh.axes[axis - 1].size) index[--axis] = 0;
    if (axis == 0) break;
  }
  std::vector<Value> in_order;
  for (auto& [group, list] : lists) in_order.push_back(std::move(list));
  return in_order;
}

std::optional<Value> range_of_ranks(ReadContext& context, const Value& value, const std::string& what) {
  std::pair<int64_t, int64_t> range;
  bool is_range = false;
  if (!parse_range(value.text, range, is_range) || !is_range) {
    context.diags.error("P0202", value.span).help("for example [0, 1] or \"0..3\"")
        << what << " must be a list of ranks, a range \"0..3\" or ranks of the mesh, not " << describe(value);
    return std::nullopt;
  }
  if (range.first < 0 || range.second < range.first || range.second >= kMostRanks) {
    context.diags.error("P0213", value.span)
        << "a range of ranks counts from 0 and goes from the smaller to the larger; " << value.text << " does not";
    return std::nullopt;
  }
  Value list = list_at(value.span);
  for (int64_t rank = range.first; rank <= range.second; ++rank) list.items.push_back(number_at(rank, value.span));
  return list;
}

bool has_mesh(ReadContext& context, diag::Span span, const std::string& what) {
  context.mesh_was_read = true;
  if (context.mesh != nullptr) return true;
  if (context.mesh_is_wrong) return false;  // its error is enough
  context.diags.error("P0249", span).help("add mesh: {pp: 8, dp: 4} with axes of your own, or list the ranks")
      << what << " names axes, but the strategy has no 'mesh'";
  return false;
}

std::optional<Value> read_ranks(ReadContext& context, const Value& value, const std::string& what,
                                bool groups_allowed) {
  if (value.kind == Value::Kind::kList) return value;
  if (value.kind != Value::Kind::kMap) return range_of_ranks(context, value, what);
  if (!has_mesh(context, value.span, what)) return std::nullopt;
  const auto choice = read_choice_of_ranks(context, value, what, groups_allowed);
  if (!choice) return std::nullopt;
  std::vector<Value> lists = chosen_lists(*context.mesh, *choice, value.span);
  if (std::find(choice->each.begin(), choice->each.end(), true) == choice->each.end()) return std::move(lists[0]);
  Value groups = list_at(value.span);
  groups.items = std::move(lists);
  return groups;
}

}  // namespace

int32_t Mesh::num_ranks() const {
  int32_t count = 1;
  for (const MeshAxis& axis : axes) count *= axis.size;
  return count;
}

std::string Mesh::coordinates(int32_t rank) const {
  std::string text;
  for (const MeshAxis& axis : axes)
    text += (text.empty() ? "{" : ", ") + axis.name + ": " + std::to_string(rank / axis.stride % axis.size);
  return text + "}";
}

std::optional<Mesh> read_mesh(ReadContext& context, const Value& value, const Value* node) {
  Mesh mesh;
  mesh.span = value.span;
  if (value.kind != Value::Kind::kMap) {
    context.diags.error("P0202", value.span).help("for example {pp: 8, dp: 4}; the last axis varies fastest")
        << "'mesh' must be a mapping from axes to sizes, not " << describe(value);
    return std::nullopt;
  }
  int64_t ranks = 1;
  bool good = true;
  for (size_t i = 0; i < value.keys.size(); ++i) {
    const auto size = read_int(context, value.items[i], "the size of '" + value.keys[i].text + "'", 1, kMostRanks);
    good = good && size.has_value();
    mesh.axes.push_back({value.keys[i].text, static_cast<int32_t>(size.value_or(1)), 1});
    ranks = std::min(ranks * size.value_or(1), kMostRanks + 1);
  }
  if (good && (mesh.axes.empty() || ranks > kMostRanks)) {
    context.diags.error("P0248", value.span)
        << (mesh.axes.empty() ? "a mesh needs an axis" : "a mesh has at most 2^20 ranks");
    good = false;
  }
  std::optional<std::vector<std::string>> inside = std::vector<std::string>{};
  if (good && node != nullptr) inside = read_node(context, mesh, *node);
  if (!good || !inside) return std::nullopt;
  number_ranks(mesh, *inside);
  return mesh;
}

std::optional<Value> list_of_ranks(ReadContext& context, const Value& value, const std::string& what) {
  return read_ranks(context, value, what, false);
}

std::optional<Value> groups_of_ranks(ReadContext& context, const Value& value, const std::string& what) {
  return read_ranks(context, value, what, true);
}

std::optional<Value> groups_along(ReadContext& context, const Value& axes, const std::string& what) {
  if (!has_mesh(context, axes.span, what)) return std::nullopt;
  const Mesh& mesh = *context.mesh;
  Choice choice;
  choice.each.assign(mesh.axes.size(), true);
  choice.terms.resize(mesh.axes.size());
  for (FilterTerm& term : choice.terms) term.any = true;
  for (const Value& name : axes.kind == Value::Kind::kList ? axes.items : std::vector<Value>{axes}) {
    const MeshAxis* axis = find_axis(context, mesh, name.text, name.span);
    if (axis == nullptr) return std::nullopt;
    choice.each[static_cast<size_t>(axis - mesh.axes.data())] = false;
  }
  Value groups = list_at(axes.span);
  groups.items = chosen_lists(mesh, choice, axes.span);
  return groups;
}

}  // namespace piper::strategy
