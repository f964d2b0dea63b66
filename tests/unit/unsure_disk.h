// A disk that loses its power, for tests of what is read afterwards.
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "runtime/checkpoint/storage.h"

namespace piper::checkpoint {

// Folders, each before what is in it, and files with their bytes.
using Left = std::vector<std::pair<std::filesystem::path, std::optional<std::string>>>;

inline void lay(const Left& left, const std::filesystem::path& folder) {
  for (const auto& [path, bytes] : left)
    if (bytes) std::ofstream(folder / path, std::ios::binary) << *bytes;
    else std::filesystem::create_directory(folder / path);
}

// A disk in memory that knows what is surely on it: bytes that were synced, names whose directory was. A crash keeps
// any of the other changes of a directory, in their order, and any part of unsynced bytes, or garbage.
class UnsureDisk : public Storage {
 public:
  int make_directory(const std::string& path) override {
    const int number = enter("mkdir");
    return number != 0 ? number : add(path, true);
  }
  int create_file(const std::string& path, int& file) override {
    if (const int number = enter("create")) return number;
    const int number = add(path, false);
    file = static_cast<int>(nodes_.size()) - 1;
    return number;
  }
  int write(int file, const char* data, size_t bytes, size_t& written) override {
    written = 0;
    if (const int number = enter("write")) return number;
    written = writes_nothing ? 0 : short_writes ? (bytes + 1) / 2 : bytes;
    node(file).data.append(data, written);
    return 0;
  }
  int sync_file(int file) override {
    if (const int number = enter("fsync")) return number;
    node(file).synced = node(file).data.size();
    return 0;
  }
  int close_file(int) override { return enter("close"); }
  int rename(const std::string& from, const std::string& to) override {
    if (const int number = enter("rename")) return number;
    const auto [parent, name] = split(from);
    const auto [other, target] = split(to);
    if (parent != other) return EXDEV;
    if (node(parent).now.count(name) == 0) return ENOENT;
    if (node(parent).now.count(target) != 0) return EEXIST;
    return change(parent, {name, target, node(parent).now.at(name)});
  }
  int sync_directory(const std::string& path) override {
    if (const int number = enter("fsync of a directory")) return number;
    const int found = find(path);
    if (found < 0) return ENOENT;
    node(found).sure = node(found).now;
    node(found).unsure.clear();
    return 0;
  }
  int list(const std::string& path, std::vector<std::string>& names) override {
    if (const int number = enter("list")) return number;
    const int found = find(path);
    if (found < 0) return ENOENT;
    names.clear();
    for (const auto& [name, of] : node(found).now) names.push_back(name);
    return 0;
  }
  int remove_file(const std::string& path) override { return remove(path); }
  int remove_directory(const std::string& path) override {
    const int found = find(path);
    if (found >= 0 && !node(found).now.empty()) return ENOTEMPTY;
    return remove(path);
  }

  // What a crash at this moment leaves; without `random` what is there while the power is on.
  Left left(std::mt19937* random) const {
    Left found;
    leave(0, "", random, found);
    return found;
  }

  int calls = 0;
  int off_at = -1;   // from this call on the power is off
  int fail_at = -1;  // this call fails, and no other
  int fail_with = EIO;
  std::string always;  // calls of this kind fail
  bool short_writes = false, writes_nothing = false;

 private:
  struct Change {
    std::string from, to;  // empty: it is made or removed
    int node;
  };
  struct Node {
    bool directory = false;
    std::string data;
    size_t synced = 0;
    std::map<std::string, int> now, sure;
    std::vector<Change> unsure;
  };

  int enter(const std::string& kind) {
    const int call = calls++;
    if (off_at >= 0 && call >= off_at) return EIO;
    return call == fail_at || kind == always ? fail_with : 0;
  }
  Node& node(int index) { return nodes_.at(static_cast<size_t>(index)); }
  const Node& node(int index) const { return nodes_.at(static_cast<size_t>(index)); }
  int find(const std::string& path) const {
    if (path == ".") return 0;
    int at = 0;
    for (const std::filesystem::path& name : std::filesystem::path(path)) {
      const auto found = node(at).now.find(name.string());
      if (found == node(at).now.end()) return -1;
      at = found->second;
    }
    return at;
  }
  std::pair<int, std::string> split(const std::string& path) const {
    const size_t slash = path.rfind('/');
    if (slash == std::string::npos) return {0, path};
    return {find(path.substr(0, slash)), path.substr(slash + 1)};
  }
  static void apply(std::map<std::string, int>& names, const Change& change) {
    if (change.from.empty()) {
      names[change.to] = change.node;
    } else if (names.erase(change.from) > 0 && !change.to.empty()) {
      names[change.to] = change.node;
    }
  }
  int change(int parent, const Change& change) {
    node(parent).unsure.push_back(change);
    apply(node(parent).now, change);
    return 0;
  }
  int add(const std::string& path, bool directory) {
    const auto [parent, name] = split(path);
    if (parent < 0) return ENOENT;
    if (node(parent).now.count(name) != 0) return EEXIST;
    nodes_.push_back({directory, {}, 0, {}, {}, {}});
    return change(parent, {"", name, static_cast<int>(nodes_.size()) - 1});
  }
  int remove(const std::string& path) {
    if (const int number = enter("unlink")) return number;
    const auto [parent, name] = split(path);
    if (parent < 0 || node(parent).now.count(name) == 0) return ENOENT;
    return change(parent, {name, "", 0});
  }
  void leave(int index, const std::filesystem::path& path, std::mt19937* random, Left& found) const {
    const Node& of = node(index);
    if (of.directory) {
      found.emplace_back(path, std::nullopt);
      std::map<std::string, int> names = random == nullptr ? of.now : of.sure;
      for (const Change& change : of.unsure)
        if (random != nullptr && (*random)() % 2 == 0) apply(names, change);
      for (const auto& [name, child] : names) leave(child, path / name, random, found);
      return;
    }
    std::string data = of.data;
    if (random != nullptr && data.size() > of.synced) {
      const size_t kept = of.synced + (*random)() % (data.size() - of.synced + 1);
      if ((*random)() % 2 == 0) data.resize(kept);
      else std::fill(data.begin() + static_cast<std::ptrdiff_t>(kept), data.end(), '\0');
    }
    found.emplace_back(path, std::move(data));
  }

  std::vector<Node> nodes_ = {{true, {}, 0, {}, {}, {}}};
};

}  // namespace piper::checkpoint
