#include <algorithm>
#include <map>
#include <set>
#include <string_view>

#include "schemas/plan/bundle_files.h"
#include "schemas/plan/bundle_io.h"
#include "schemas/plan/file_bytes.h"
#include "tools/piper_plan/commands.h"
#include "tools/piper_plan/diff_meaning.h"
#include "tools/piper_plan/match_lines.h"
#include "tools/piper_plan/strategy_words.h"
#include "tools/piper_plan/text_table.h"

namespace piper::tools {
namespace {

using Lines = std::vector<std::string_view>;

Lines split(std::string_view text) {
  Lines lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    auto line = text.substr(0, end);
    // The comma before the next line is no part of what the line says.
    if (!line.empty() && line.back() == ',') line.remove_suffix(1);
    lines.push_back(line);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

struct Edit {
  char sign;    // '-' or '+'
  size_t line;  // from 1, in A or B
  std::string_view text;
};

// Lines of the shortest edit script (E. W. Myers, "An O(ND) difference algorithm", 1986). Beyond
// kMaxEdits it gives up and says false.
bool shortest_edit(const Lines& a, const Lines& b, std::vector<Edit>& edits) {
  constexpr int64_t kMaxEdits = 2000;
  const auto n = static_cast<int64_t>(a.size()), m = static_cast<int64_t>(b.size());
  const int64_t limit = std::min(n + m, kMaxEdits);
  std::vector<std::vector<int64_t>> trace;  // trace[d][d + k]: furthest x on diagonal k, |k| <= d
  const auto reach = [&trace](int64_t d, int64_t k) {
    return k < -d || k > d ? int64_t{-1} : trace[static_cast<size_t>(d)][static_cast<size_t>(d + k)];
  };
  int64_t found = -1;
  for (int64_t d = 0; d <= limit && found < 0; ++d) {
    trace.emplace_back(static_cast<size_t>(2 * d + 1), -1);
    for (int64_t k = -d; k <= d; k += 2) {
      int64_t x = 0;
      if (d > 0)
        x = k == -d || (k != d && reach(d - 1, k - 1) < reach(d - 1, k + 1)) ? reach(d - 1, k + 1)
                                                                             : reach(d - 1, k - 1) + 1;
      while (x < n && x - k < m && x - k >= 0 && a[static_cast<size_t>(x)] == b[static_cast<size_t>(x - k)]) ++x;
      trace.back()[static_cast<size_t>(d + k)] = x;
      if (x >= n && x - k >= m) {
        found = d;
        break;
      }
    }
  }
  if (found < 0) return false;
  int64_t k = n - m;
  for (int64_t d = found; d > 0; --d) {
    const bool down = k == -d || (k != d && reach(d - 1, k - 1) < reach(d - 1, k + 1));
    const int64_t before = down ? k + 1 : k - 1, x = reach(d - 1, before), y = x - before;
    if (down) edits.push_back({'+', static_cast<size_t>(y) + 1, b[static_cast<size_t>(y)]});
    else edits.push_back({'-', static_cast<size_t>(x) + 1, a[static_cast<size_t>(x)]});
    k = before;
  }
  std::reverse(edits.begin(), edits.end());
  return true;
}

// Lines that only one side has, for files that differ too much.
void unordered_edit(const Lines& a, const Lines& b, std::vector<Edit>& edits) {
  std::map<std::string_view, int64_t> surplus;
  for (const auto line : a) ++surplus[line];
  for (const auto line : b) --surplus[line];
  auto left = surplus;
  for (size_t i = 0; i < a.size(); ++i)
    if (auto& count = left[a[i]]; count > 0) {
      --count;
      edits.push_back({'-', i + 1, a[i]});
    }
  for (size_t i = 0; i < b.size(); ++i)
    if (auto& count = left[b[i]]; count < 0) {
      ++count;
      edits.push_back({'+', i + 1, b[i]});
    }
}

std::vector<Edit> compare(std::string_view old_text, std::string_view new_text) {
  auto a = split(old_text), b = split(new_text);
  size_t head = 0, tail = 0;
  while (head < a.size() && head < b.size() && a[head] == b[head]) ++head;
  while (tail + head < a.size() && tail + head < b.size() && a[a.size() - 1 - tail] == b[b.size() - 1 - tail]) ++tail;
  const Lines x(a.begin() + static_cast<std::ptrdiff_t>(head), a.end() - static_cast<std::ptrdiff_t>(tail));
  const Lines y(b.begin() + static_cast<std::ptrdiff_t>(head), b.end() - static_cast<std::ptrdiff_t>(tail));
  std::vector<Edit> edits;
  if (!shortest_edit(x, y, edits)) unordered_edit(x, y, edits);
  for (auto& edit : edits) edit.line += head;
  return edits;
}

class BundleDiff {
 public:
  BundleDiff(std::string a, std::string b, int64_t lines) : a_(std::move(a)), b_(std::move(b)), lines_(lines) {}

  Result<Difference> run() {
    PIPER_ASSIGN(auto opened_a, plan::open_bundle(a_));
    PIPER_ASSIGN(auto opened_b, plan::open_bundle(b_));
    auto &a = opened_a.manifest, &b = opened_b.manifest;
    std::map<std::string, std::string> old_files, new_files;
    for (const auto& file : a.files) old_files[file.path] = file.sha256;
    for (const auto& file : b.files) new_files[file.path] = file.sha256;
    std::set<std::string> paths;
    for (const auto& [path, digest] : old_files) paths.insert(path);
    for (const auto& [path, digest] : new_files) paths.insert(path);
    bool rank_files = false;  // whether any differs
    a.files.clear();
    b.files.clear();
    add("manifest.json", compare_texts(print_manifest(a), print_manifest(b)));
    for (const auto& path : paths) {
      const auto old_file = old_files.find(path), new_file = new_files.find(path);
      if (old_file == old_files.end()) alone_[1].push_back(path);
      else if (new_file == new_files.end()) alone_[0].push_back(path);
      else if (is_rank(path)) rank_files |= old_file->second != new_file->second;
      else if (old_file->second != new_file->second) PIPER_RETURN_IF_ERROR(file(path));
    }
    if (rank_files) PIPER_RETURN_IF_ERROR(rank_plans());
    return finish();
  }

 private:
  std::string compare_texts(std::string_view a, std::string_view b) {
    const auto edits = compare(a, b);
    std::string text;
    int64_t shown = 0;
    for (const auto& edit : edits) {
      (edit.sign == '-' ? removed_ : added_) += 1;
      if (lines_ > 0 && ++shown > lines_) continue;
      text += "  " + std::string(1, edit.sign) + std::to_string(edit.line) + ": " + std::string(edit.text) + "\n";
    }
    if (lines_ > 0 && shown > lines_)
      text += "  (" + std::to_string(shown - lines_) + " more lines; --lines 0 shows all)\n";
    return text;
  }
  Status file(const std::string& path) {
    if (path.compare(0, plan::kWeightFolder.size(), plan::kWeightFolder) == 0) {
      add(path, "  other weights\n");
      return {};
    }
    PIPER_ASSIGN(const auto a, plan::map_file(a_ + "/" + path));
    PIPER_ASSIGN(const auto b, plan::map_file(b_ + "/" + path));
    add(path, compare_texts(a.text(), b.text()));
    return {};
  }
  static bool is_rank(const std::string& path) {
    return path.compare(0, plan::kRankFolder.size(), plan::kRankFolder) == 0;
  }
  // What ranks do, wherever it is spelt out: as texts that refer to no other rank.
  Status rank_plans() {
    PIPER_ASSIGN(const auto a, plan::read_bundle(a_));
    PIPER_ASSIGN(const auto b, plan::read_bundle(b_));
    const MatchedLines matched(a, b);
    for (size_t rank = 0; rank < std::min(a.ranks.size(), b.ranks.size()); ++rank)
      add(plan::rank_file(static_cast<int32_t>(rank)),
          compare_texts(plan::print_rank_plan(a.ranks[rank], a.provenance, a.programs),
                        plan::print_rank_plan(b.ranks[rank], matched.b_as_a(), b.programs)));
    return {};
  }
  // Ranks that differ in the same way are reported once.
  void add(const std::string& path, const std::string& change) {
    if (change.empty()) return;
    ++files_;
    const std::string prefix = std::string(plan::kRankFolder) + "rank-";
    if (path.compare(0, prefix.size(), prefix) != 0) {
      text_ += path + "\n" + change;
      return;
    }
    const int32_t rank = std::stoi(path.substr(prefix.size()));
    const auto [found, added] = by_change_.emplace(change, by_change_.size());
    if (added) changes_.push_back({change, {}});
    changes_[found->second].second.push_back(rank);
  }
  void add_alone(const std::string& directory, const std::vector<std::string>& paths) {
    if (paths.empty()) return;
    files_ += static_cast<int64_t>(paths.size());
    text_ += "only in " + directory + "\n";
    for (size_t i = 0; i < paths.size(); ++i) {
      if (lines_ > 0 && i == static_cast<size_t>(lines_)) {
        text_ += "  (" + std::to_string(paths.size() - i) + " more files; --lines 0 shows all)\n";
        return;
      }
      text_ += "  " + paths[i] + "\n";
    }
  }
  Difference finish() {
    add_alone(a_, alone_[0]);
    add_alone(b_, alone_[1]);
    for (const auto& [change, ranks] : changes_)
      text_ += (ranks.size() == 1 ? "rank " : "ranks ") + rank_list(ranks) + "\n" + change;
    if (files_ == 0) return {"the bundles are equal\n", false};
    text_ += std::to_string(files_) + (files_ == 1 ? " file or plan differs: " : " files and plans differ: ") +
             std::to_string(removed_) + " lines removed, " + std::to_string(added_) + " added\n";
    return {text_, true};
  }

  std::string a_, b_, text_;
  int64_t lines_, files_ = 0, removed_ = 0, added_ = 0;
  std::vector<std::string> alone_[2];  // files that one side alone has
  std::map<std::string, size_t> by_change_;
  std::vector<std::pair<std::string, std::vector<int32_t>>> changes_;
};

}  // namespace

Result<Difference> diff(const std::string& a, const std::string& b, int64_t lines) {
  return BundleDiff(a, b, lines).run();
}

Result<Difference> diff_steps(const std::string& a, const std::string& b, const DiffOptions& options) {
  PIPER_ASSIGN(const auto opened_a, plan::open_bundle(a));
  PIPER_ASSIGN(const auto opened_b, plan::open_bundle(b));
  PIPER_ASSIGN(const auto bundle_a, plan::read_bundle(opened_a));
  PIPER_ASSIGN(const auto bundle_b, plan::read_bundle(opened_b));
  const StepCosts costs{options.units, options.target, options.kernel_times};
  PIPER_ASSIGN(Meaning meaning, compare_steps(bundle_a, bundle_b, costs));
  const auto strategy = [&](size_t side, const std::string& bundle, const plan::Manifest& manifest) {
    if (!options.strategies.empty()) return options.strategies.at(side);
    return find_strategy(bundle, manifest.strategy.name, manifest.strategy.sha256);
  };
  const std::string before = strategy(0, a, opened_a.manifest), after = strategy(1, b, opened_b.manifest);
  if (!before.empty() && !after.empty()) {
    PIPER_ASSIGN(meaning.strategy, changed_words(before, after));
  }
  const bool differs = opened_a.digest != opened_b.digest;
  switch (options.form) {
    case TableForm::kMarkdown: return Difference{meaning_as_markdown(meaning), differs};
    case TableForm::kJson: return Difference{meaning_as_json(meaning, differs), differs};
    case TableForm::kText: break;
  }
  return Difference{differs ? meaning_as_text(meaning) : "", differs};
}

}  // namespace piper::tools
