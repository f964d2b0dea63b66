#include "tools/piper_plan/match_lines.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <utility>

#include "schemas/plan/provenance_text.h"

namespace piper::tools {
namespace {

using Place = std::pair<int32_t, int32_t>;  // line and column

// A text cut at each FILE:LINE:COLUMN in it.
struct Piece {
  std::string before, text;  // what is before the place, and the place
  Place place;
};
struct Cut {
  std::vector<Piece> places;
  std::string after;
};

Cut cut(const std::string& text) {
  Cut found;
  size_t begin = 0;
  for (size_t colon = text.find(':'); colon != std::string::npos; colon = text.find(':', colon + 1)) {
    Place place;
    const char* const last = text.data() + text.size();
    const auto line = std::from_chars(text.data() + colon + 1, last, place.first);
    if (line.ec != std::errc() || line.ptr == last || *line.ptr != ':') continue;
    const auto column = std::from_chars(line.ptr + 1, last, place.second);
    if (column.ec != std::errc()) continue;
    const size_t space = text.rfind(' ', colon), from = space == std::string::npos ? 0 : std::max(begin, space + 1);
    const auto to = static_cast<size_t>(column.ptr - text.data());
    found.places.push_back({text.substr(begin, from - begin), text.substr(from, to - from), place});
    begin = colon = to;
  }
  found.after = text.substr(begin);
  return found;
}

// The directive of a place: "place" of "and place at ".
std::string directive_of(const Piece& piece) {
  const std::string& text = piece.before;
  const size_t at = text.rfind(" at ");
  if (at == std::string::npos) return text;
  const size_t space = at == 0 ? std::string::npos : text.rfind(' ', at - 1);
  const size_t from = space == std::string::npos ? 0 : space + 1;
  return text.substr(from, at - from);
}

// [entry] what is the same in both bundles for matching ones: the entry's text, with which one of its kind a directive
// is for each place.
std::vector<std::string> identities(const std::vector<plan::ProvenanceEntry>& entries) {
  std::map<std::string, std::set<Place>> places;  // by directive
  for (const plan::ProvenanceEntry& entry : entries)
    for (const Piece& piece : cut(entry.text).places) places[directive_of(piece)].insert(piece.place);
  std::vector<std::string> names;
  for (const plan::ProvenanceEntry& entry : entries) {
    const Cut found = cut(entry.text);
    std::string name;
    for (const Piece& piece : found.places) {
      const auto& all = places[directive_of(piece)];
      name += piece.before + std::to_string(std::distance(all.begin(), all.find(piece.place)));
    }
    names.push_back(name + found.after + entry.why);
  }
  return names;
}

std::string both(const plan::ProvenanceEntry& a, const plan::ProvenanceEntry& b) {
  const Cut first = cut(a.text), second = cut(b.text);
  std::string text;
  for (size_t i = 0; i < first.places.size(); ++i) {
    const std::string &was = first.places[i].text, &is = second.places[i].text;
    text += first.places[i].before + was + (was == is ? "" : " -> " + is);
  }
  return text + first.after + (a.why.empty() ? "" : ": " + a.why);
}

}  // namespace

const std::string& MatchedLines::name(const std::vector<std::string>& names, int32_t provenance) {
  static const std::string kNone = "no line";
  return provenance < 0 ? kNone : names[static_cast<size_t>(provenance)];
}

MatchedLines::MatchedLines(const plan::Bundle& a, const plan::Bundle& b) : b_as_a_(b.provenance) {
  for (const plan::ProvenanceEntry& entry : a.provenance) names_[0].push_back(plan::whole_text(entry));
  for (const plan::ProvenanceEntry& entry : b.provenance) names_[1].push_back(plan::whole_text(entry));
  const auto of_a = identities(a.provenance), of_b = identities(b.provenance);
  std::map<std::string, size_t> known;
  for (size_t i = 0; i < of_a.size(); ++i) known.emplace(of_a[i], i);
  for (size_t i = 0; i < of_b.size(); ++i) {
    const auto found = known.find(of_b[i]);
    if (found == known.end()) continue;
    const plan::ProvenanceEntry& matching = a.provenance[found->second];
    names_[0][found->second] = names_[1][i] = both(matching, b.provenance[i]);
    b_as_a_[i] = matching;
  }
}

}  // namespace piper::tools
