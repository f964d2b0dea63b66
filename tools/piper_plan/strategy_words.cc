#include "tools/piper_plan/strategy_words.h"

#include <algorithm>
#include <filesystem>
#include <map>

#include "compiler/strategy/value.h"
#include "schemas/plan/file_bytes.h"

namespace piper::tools {
namespace {

using strategy::Value;

bool is_list(const Value& value) { return value.kind == Value::Kind::kList; }
bool is_map(const Value& value) { return value.kind == Value::Kind::kMap; }

// What an entry of a list is called, so that one before it changes nothing about it; "" where it has no name.
std::string name_of(const Value& entry) {
  const Value* const op = entry.find("op");
  if (op == nullptr) {
    for (const char* key : {"tag", "path", "name"})
      if (const Value* named = entry.find(key)) return named->text;
    return "";
  }
  const Value* const filter = entry.find("filter");
  return op->text + (filter == nullptr ? "" : " " + strategy::flow_text(*filter));
}

// Dotted path -> value, in the order of the file. Maps are gone into, and lists of maps; other lists are one value.
using Leaves = std::vector<std::pair<std::string, std::string>>;
void add_leaves(const Value& value, const std::string& path, Leaves& leaves) {
  if (is_map(value) && !value.items.empty()) {
    for (size_t i = 0; i < value.items.size(); ++i)
      add_leaves(value.items[i], (path.empty() ? "" : path + ".") + value.keys[i].text, leaves);
    return;
  }
  const bool of_maps =
      is_list(value) && !value.items.empty() && std::all_of(value.items.begin(), value.items.end(), is_map);
  if (!of_maps) {
    leaves.emplace_back(path, strategy::flow_text(value));
    return;
  }
  std::map<std::string, int> seen;
  for (const Value& entry : value.items) {
    const std::string name = name_of(entry);
    const int before = seen[name]++;
    const std::string which =
        name + (before == 0 && !name.empty() ? "" : (name.empty() ? "" : " ") + std::to_string(before + 1));
    leaves.emplace_back(path + "[" + which + "]", strategy::flow_text(entry));
  }
}

Result<Leaves> read_leaves(const std::string& path) {
  const auto file = plan::map_file(path);
  if (!file.ok()) return Status::failure("P0101", file.error().message);
  diag::Diagnostics diags;
  const auto value =
      strategy::read_yaml(diags.add_file(path, std::string(file->text())), std::string(file->text()), 0, diags);
  if (!value.ok()) return Status::failure("P0102", diags.render_text(false));
  Leaves leaves;
  add_leaves(*value, "", leaves);
  return leaves;
}

const std::string* find(const Leaves& leaves, const std::string& path) {
  const auto found = std::find_if(leaves.begin(), leaves.end(), [&](const auto& leaf) { return leaf.first == path; });
  return found == leaves.end() ? nullptr : &found->second;
}

}  // namespace

Result<std::vector<std::string>> changed_words(const std::string& a, const std::string& b) {
  PIPER_ASSIGN(const Leaves before, read_leaves(a));
  PIPER_ASSIGN(const Leaves after, read_leaves(b));
  std::vector<std::string> lines;
  for (const auto& [path, value] : before) {
    const std::string* const now = find(after, path);
    if (now == nullptr) lines.push_back(path + ": " + value + ", removed");
    else if (*now != value) lines.push_back(path + ": " + value + " -> " + *now);
  }
  for (const auto& [path, value] : after)
    if (find(before, path) == nullptr) lines.push_back(path + ": " + value + ", added");
  return lines;
}

std::string find_strategy(const std::string& bundle, const std::string& name, const std::string& sha256) {
  namespace fs = std::filesystem;
  for (const fs::path& folder : {fs::path("."), fs::path(bundle) / "..", fs::path("strategies")}) {
    const std::string path = (folder / name).lexically_normal().string();
    std::error_code error;
    if (!fs::is_regular_file(path, error)) continue;
    const auto file = plan::map_file(path);
    if (file.ok() && plan::sha256(file->text()) == sha256) return path;
  }
  return "";
}

}  // namespace piper::tools
