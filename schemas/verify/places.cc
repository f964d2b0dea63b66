#include "schemas/verify/places.h"

#include <algorithm>

#include "schemas/plan/names.h"

namespace piper::verify {

using namespace plan;

// Ids: the whole; of each place of each cut a part and a share; what ranks keep.
Places::Places(const Manifest& manifest) : manifest_(manifest) {
  int64_t places = 0;
  for (const Cut& cut : manifest.cuts) {
    auto& members = members_.emplace_back();
    for (size_t g = 0; g < cut.groups.size(); ++g)
      for (size_t p = 0; p < cut.groups[g].size(); ++p)
        members.emplace(cut.groups[g][p], Member{static_cast<int32_t>(g), static_cast<int32_t>(p)});
    first_.push_back(static_cast<int32_t>(std::min<int64_t>(places, kMost)));
    places += cut.groups.empty() ? 0 : cut.places();
  }
  num_named_ = static_cast<int32_t>(1 + 2 * std::min<int64_t>(places, kMost));
}

std::vector<int64_t> Places::of_cuts() const {
  std::vector<int64_t> places;
  for (const Cut& cut : manifest_.cuts) places.push_back(cut.groups.empty() ? 0 : cut.places());
  return places;
}

int32_t Places::place(int32_t cut, int32_t rank) const {
  if (cut < 0 || static_cast<size_t>(cut) >= members_.size()) return -1;
  const auto found = members_[static_cast<size_t>(cut)].find(rank);
  return found == members_[static_cast<size_t>(cut)].end() ? -1 : found->second.place;
}

const std::vector<int32_t>* Places::group(int32_t cut, int32_t rank) const {
  if (place(cut, rank) < 0) return nullptr;
  const auto c = static_cast<size_t>(cut);
  return &manifest_.cuts[c].groups[static_cast<size_t>(members_[c].at(rank).group)];
}

bool Places::is_at(int64_t place, int32_t rank) const {
  bool any = false;
  for (const auto& members : members_) {
    const auto found = members.find(rank);
    if (found == members.end()) continue;
    if (found->second.place != place) return false;
    any = true;
  }
  return any;
}

int32_t Places::id(plan::Spread spread, int32_t cut, int32_t rank) const {
  if (spread == plan::Spread::kSame) return kWhole;
  const int32_t at = place(cut, rank);
  if (at < 0) return -1;
  return 1 + 2 * (first_[static_cast<size_t>(cut)] + at) + (spread == plan::Spread::kShare ? 1 : 0);
}

int32_t Places::kept(int32_t rank) {
  std::vector<int32_t> places;
  for (size_t cut = 0; cut < members_.size(); ++cut) places.push_back(place(static_cast<int32_t>(cut), rank));
  if (std::all_of(places.begin(), places.end(), [](int32_t at) { return at < 0; })) return kWhole;
  return kept_.emplace(std::move(places), num_named_ + static_cast<int32_t>(kept_.size())).first->second;
}

int32_t Places::cut_of(int32_t id) const {
  const auto after = std::upper_bound(first_.begin(), first_.end(), (id - 1) / 2);
  return static_cast<int32_t>(after - first_.begin()) - 1;
}

int32_t Places::place_of(int32_t id) const { return (id - 1) / 2 - first_[static_cast<size_t>(cut_of(id))]; }

std::string Places::text(int32_t id) const {
  if (id == kWhole) return "the whole of";
  if (id >= num_named_) return "what ranks at other places keep of";
  return std::string(is_share(id) ? "the share" : "the part") + " of place " + std::to_string(place_of(id)) +
         " of cut " + in_quotes(manifest_.cuts[static_cast<size_t>(cut_of(id))].name) + " of";
}

}  // namespace piper::verify
