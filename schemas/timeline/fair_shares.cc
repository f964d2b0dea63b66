#include "schemas/timeline/fair_shares.h"

#include <algorithm>

#include "schemas/base/check.h"

namespace piper::timeline {

void FairShares::add(int32_t activity, std::vector<Use> uses) {
  const auto index = static_cast<size_t>(activity);
  if (active_.size() <= index) active_.resize(index + 1);
  for (const Use& use : uses) {
    users_[static_cast<size_t>(use.resource)].push_back({activity, use.part});
    changed_.push_back(use.resource);
  }
  active_[index] = {std::move(uses), 1, false, false};
}

void FairShares::remove(int32_t activity) {
  for (const Use& use : active_[static_cast<size_t>(activity)].uses) {
    auto& users = users_[static_cast<size_t>(use.resource)];
    users.erase(std::find_if(users.begin(), users.end(), [&](const User& user) { return user.activity == activity; }));
    changed_.push_back(use.resource);
  }
}

void FairShares::settle() {
  spread();
  changed_.clear();
  fill();
}

void FairShares::spread() {
  reached_.resize(users_.size());
  for (const int32_t r : resources_) reached_[static_cast<size_t>(r)] = 0;
  for (const int32_t a : touched_) active_[static_cast<size_t>(a)].seen = false;
  touched_.clear();
  resources_.clear();
  const auto reach = [&](int32_t resource) {
    if (reached_[static_cast<size_t>(resource)] != 0) return;
    reached_[static_cast<size_t>(resource)] = 1;
    resources_.push_back(resource);
  };
  for (const int32_t resource : changed_) reach(resource);
  for (size_t k = 0; k < resources_.size(); ++k)
    for (const User& user : users_[static_cast<size_t>(resources_[k])]) {
      Active& active = active_[static_cast<size_t>(user.activity)];
      if (active.seen) continue;
      active.seen = true;
      touched_.push_back(user.activity);
      for (const Use& use : active.uses) reach(use.resource);
    }
}

void FairShares::fill() {
  for (const int32_t a : touched_) active_[static_cast<size_t>(a)].fixed = false;
  size_t open = touched_.size();
  while (open > 0) {
    // The resource that is full first, and the rate at which it is.
    double rate = 1;
    int32_t full = -1;
    for (const int32_t r : resources_) {
      double left = 1, wanted = 0;
      for (const User& user : users_[static_cast<size_t>(r)]) {
        const Active& active = active_[static_cast<size_t>(user.activity)];
        if (active.fixed) left -= active.rate * user.part;
        else wanted += user.part;
      }
      if (wanted > 0 && std::max(left, 0.0) < rate * wanted) {
        rate = std::max(left, 0.0) / wanted;
        full = r;
      }
    }
    const auto fix = [&](int32_t activity) {
      Active& active = active_[static_cast<size_t>(activity)];
      if (active.fixed) return;
      active.fixed = true;
      active.rate = rate;
      --open;
    };
    if (full < 0) std::for_each(touched_.begin(), touched_.end(), fix);
    else
      for (const User& user : users_[static_cast<size_t>(full)]) fix(user.activity);
  }
  for (const int32_t a : touched_) PIPER_CHECK(active_[static_cast<size_t>(a)].rate > 0, "an activity that never ends");
}

}  // namespace piper::timeline
