// How activities that go on at one time share what they use: links, processors, memory. Max-min fairness by progressive
// filling (Bertsekas and Gallager, Data Networks, 6.5.2): all rates grow alike until a resource is full, its users keep
// what they have, the others go on. A rate is the part of the speed that an activity has alone, 0 to 1, so two equal
// messages on one link take twice their time. Used by the simulation only; deterministic.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace piper::timeline {

struct Use {
  int32_t resource = 0;
  double part = 0;  // of the resource that the activity takes when it runs alone, above 0, at most 1
};

class FairShares {
 public:
  explicit FairShares(size_t resources) : users_(resources) {}

  // `activity`: a small number of the caller's that is not in use. `uses` names a resource at most once. Rates are
  // those of the last settle(): what begins and ends at one time is settled at once.
  void add(int32_t activity, std::vector<Use> uses);
  void remove(int32_t activity);
  // New rates, if anything was added or removed.
  void settle();
  // The activities whose rates the last settle() may have changed: all that are linked to what was added or removed by
  // shared resources.
  const std::vector<int32_t>& touched() const { return touched_; }
  double rate(int32_t activity) const { return active_[static_cast<size_t>(activity)].rate; }

 private:
  struct Active {
    std::vector<Use> uses;
    double rate = 1;
    bool fixed = false, seen = false;
  };
  struct User {
    int32_t activity = 0;
    double part = 0;  // of its use
  };
  void spread();  // fills touched_ and resources_ with what changed_ reaches
  void fill();    // new rates for touched_

  std::vector<std::vector<User>> users_;  // [resource]
  std::vector<Active> active_;            // by activity
  std::vector<int32_t> touched_, resources_;
  std::vector<int32_t> changed_;  // resources whose users are others than at the last settle()
  std::vector<char> reached_;     // [resource]
};

}  // namespace piper::timeline
