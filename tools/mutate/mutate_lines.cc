// One line of one text: dropped, doubled, exchanged with the next, or with another number, word or flag in it.
#include <algorithm>
#include <cctype>
#include <string>

#include "schemas/plan/bundle_files.h"
#include "tools/mutate/mutation.h"

namespace piper::mutate {
namespace {

enum class File : uint8_t { kProgram, kRank, kManifest };

bool is_kind(const std::string& path, File kind) {
  const auto begins = [&](std::string_view folder) { return path.compare(0, folder.size(), folder) == 0; };
  switch (kind) {
    case File::kProgram: return begins(plan::kProgramFolder);
    case File::kRank: return begins(plan::kRankFolder);
    case File::kManifest: return path == plan::kManifestFile;
  }
  return false;
}

// Lines without the commas between them, which are put back when the lines are joined.
struct Line {
  std::string text;
  bool entry = false;  // of a list
};

std::vector<Line> split(const std::string& text) {
  std::vector<Line> lines;
  bool in_list = false;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    Line line{text.substr(at, end - at), in_list};
    at = end + 1;
    if (in_list && !line.text.empty() && line.text[0] == ']') in_list = line.entry = false;
    if (line.entry && line.text.back() == ',') line.text.pop_back();
    if (!line.text.empty() && line.text.back() == '[') in_list = true;
    lines.push_back(std::move(line));
  }
  return lines;
}

std::string join(const std::vector<Line>& lines) {
  std::string text;
  for (size_t i = 0; i < lines.size(); ++i) {
    text += lines[i].text;
    if (lines[i].entry && i + 1 < lines.size() && lines[i + 1].entry) text += ',';
    text += '\n';
  }
  return text;
}

// What the user asked for, and what only describes the rest.
bool is_request(const std::string& line) {
  static const char* const kKeys[] = {
      "\"optimizer\":", "\"optimizer_groups\":", "{\"group\":",    "\"lr_schedule\":", "\"clip_grad_norm\":",
      "\"run\":",       "\"loss_scale\":",       "\"model\":",     "\"strategy\":",    "\"format\":",
      "\"version\":",   "\"device\":",           "\"reduction\":", "\"eval\":",        "{\"file\":",
      "\"proved\":"};
  return std::any_of(std::begin(kKeys), std::end(kKeys), [&](const char* key) { return line.rfind(key, 0) == 0; });
}

// Further names of a tied tensor are for those who read what a run saves: no number depends on them.
std::string further_names(const std::string& line) {
  const size_t begin = line.find("\"aliases\":");
  return begin == std::string::npos ? "" : line.substr(begin, line.find(']', begin) - begin);
}

struct Chosen {
  std::string path;
  std::vector<Line> lines;
  size_t at = 0;
};
// A line of a file of this kind; entries of lists only where `entry`.
bool choose(Draft& draft, File kind, bool entry, Chosen& chosen) {
  if (draft.texts.empty()) draft.texts = draft.changed ? print_texts(draft.bundle) : draft.subject.texts();
  std::vector<std::string> paths;
  for (const auto& [path, text] : draft.texts)
    if (is_kind(path, kind)) paths.push_back(path);
  if (paths.empty()) return false;
  chosen.path = draft.random.of(paths);
  chosen.lines = split(draft.texts.at(chosen.path));
  std::vector<size_t> candidates;
  for (size_t i = 0; i < chosen.lines.size(); ++i)
    if ((!entry || chosen.lines[i].entry) && !is_request(chosen.lines[i].text)) candidates.push_back(i);
  if (candidates.empty()) return false;
  chosen.at = draft.random.of(candidates);
  return true;
}
bool put(Draft& draft, const Chosen& chosen) {
  draft.texts[chosen.path] = join(chosen.lines);
  return true;
}

template <File kind>
bool dropped(Draft& draft) {
  Chosen chosen;
  if (!choose(draft, kind, true, chosen)) return false;
  chosen.lines.erase(chosen.lines.begin() + static_cast<std::ptrdiff_t>(chosen.at));
  return put(draft, chosen);
}
template <File kind>
bool doubled(Draft& draft) {
  Chosen chosen;
  if (!choose(draft, kind, true, chosen)) return false;
  const Line line = chosen.lines[chosen.at];
  chosen.lines.insert(chosen.lines.begin() + static_cast<std::ptrdiff_t>(chosen.at), line);
  return put(draft, chosen);
}
template <File kind>
bool exchanged(Draft& draft) {
  Chosen chosen;
  if (!choose(draft, kind, true, chosen) || chosen.at + 1 >= chosen.lines.size()) return false;
  if (!chosen.lines[chosen.at + 1].entry) return false;
  std::swap(chosen.lines[chosen.at].text, chosen.lines[chosen.at + 1].text);
  return put(draft, chosen);
}

struct Token {
  size_t begin = 0, size = 0;
};
// Runs of characters for which `belongs` holds.
template <class Belongs>
std::vector<Token> tokens(const std::string& line, Belongs belongs) {
  std::vector<Token> found;
  for (size_t at = 0; at < line.size();) {
    size_t end = at;
    while (end < line.size() && belongs(line[end])) ++end;
    if (end > at) found.push_back({at, end - at});
    at = std::max(end, at + 1);
  }
  return found;
}

// One number: by one, a power of two, or another one of the file.
template <File kind>
bool number_changed(Draft& draft) {
  Chosen chosen;
  if (!choose(draft, kind, false, chosen)) return false;
  const auto is_digit = [](char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; };
  std::string& line = chosen.lines[chosen.at].text;
  const auto numbers = tokens(line, is_digit);
  if (numbers.empty()) return false;
  const Token token = draft.random.of(numbers);
  if (token.size > 9) return false;
  const long before = std::stol(line.substr(token.begin, token.size));
  long after = before;
  switch (draft.random.below(6)) {
    case 0: after = before + 1; break;
    case 1: after = before - 1; break;
    case 2: after = before * 2; break;
    case 3: after = before / 2; break;
    case 4: after = 0; break;
    default: {
      const std::string& other = draft.random.of(chosen.lines).text;
      const auto others = tokens(other, is_digit);
      if (others.empty()) return false;
      const Token from = draft.random.of(others);
      if (from.size > 9) return false;
      after = std::stol(other.substr(from.begin, from.size));
    }
  }
  if (after < 0 || after == before) return false;
  const std::string names = further_names(line);
  line.replace(token.begin, token.size, std::to_string(after));
  return further_names(line) == names && put(draft, chosen);
}

// One text in quotes, or one word: the like of another line.
template <File kind>
bool word_changed(Draft& draft) {
  Chosen chosen;
  if (!choose(draft, kind, false, chosen)) return false;
  const bool quoted = draft.random.coin();
  const auto belongs = [quoted](char c) {
    return quoted ? c != '"' : std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
  };
  std::string& line = chosen.lines[chosen.at].text;
  const std::string& other = draft.random.of(chosen.lines).text;
  const auto words = tokens(line, belongs), others = tokens(other, belongs);
  if (words.empty() || others.empty()) return false;
  const size_t at = draft.random.below(words.size());
  // The like mostly is at the same place of a line.
  const size_t from = draft.random.coin() && at < others.size() ? at : draft.random.below(others.size());
  const std::string word = other.substr(others[from].begin, others[from].size);
  if (line.compare(words[at].begin, words[at].size, word) == 0) return false;
  const std::string names = further_names(line);
  line.replace(words[at].begin, words[at].size, word);
  return further_names(line) == names && put(draft, chosen);
}

template <File kind>
bool flag_changed(Draft& draft) {
  Chosen chosen;
  if (!choose(draft, kind, false, chosen)) return false;
  std::string& line = chosen.lines[chosen.at].text;
  const size_t yes = line.find("true"), no = line.find("false");
  if (yes == std::string::npos && no == std::string::npos) return false;
  if (yes != std::string::npos) line.replace(yes, 4, "false");
  else line.replace(no, 5, "true");
  return put(draft, chosen);
}

}  // namespace

std::vector<Mutation> of_lines() {
  std::vector<Mutation> kinds = {
      {"a program's line dropped", dropped<File::kProgram>},
      {"a program's line doubled", doubled<File::kProgram>},
      {"a program's lines exchanged", exchanged<File::kProgram>},
      {"a program's number changed", number_changed<File::kProgram>},
      {"a program's word changed", word_changed<File::kProgram>},
      {"a rank's line dropped", dropped<File::kRank>},
      {"a rank's line doubled", doubled<File::kRank>},
      {"a rank's lines exchanged", exchanged<File::kRank>},
      {"a rank's number changed", number_changed<File::kRank>},
      {"a rank's word changed", word_changed<File::kRank>},
      {"a rank's flag changed", flag_changed<File::kRank>},
      {"the manifest's line dropped", dropped<File::kManifest>},
      {"the manifest's line doubled", doubled<File::kManifest>},
      {"the manifest's lines exchanged", exchanged<File::kManifest>},
      {"the manifest's number changed", number_changed<File::kManifest>},
      {"the manifest's word changed", word_changed<File::kManifest>},
      {"the manifest's flag changed", flag_changed<File::kManifest>},
  };
  for (Mutation& kind : kinds) kind.of_texts = true;
  return kinds;
}

}  // namespace piper::mutate
