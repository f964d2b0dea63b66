#include "compiler/search/space.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>
#include <set>
#include <tuple>

#include "compiler/strategy/families.h"

namespace piper::search {
namespace {

std::vector<int64_t> divisors(int64_t number) {
  std::vector<int64_t> list;
  for (int64_t d = 1; d <= number; ++d)
    if (number % d == 0) list.push_back(d);
  return list;
}

class Space {
 public:
  explicit Space(const SpaceLimits& limits) : limits_(limits) {}

  std::vector<Point> all() {
    Point point;
    for (const int64_t tp : divisors(limits_.ranks_of_node)) {
      if (limits_.ranks % tp != 0) continue;
      point.tp = static_cast<int32_t>(tp);
      for (const bool sequence : {false, true})
        for (const bool vocabulary : {false, true}) {
          if (tp == 1 && (sequence || vocabulary)) continue;
          point.sequence = sequence;
          point.vocabulary = vocabulary;
          with_experts(point);
        }
    }
    return std::move(points_);
  }

 private:
  void with_experts(Point point) {
    const int64_t rest = limits_.ranks / point.tp;
    for (const int64_t ep : divisors(rest)) {
      if (ep > 1 && (limits_.experts == 0 || limits_.experts % ep != 0)) continue;
      point.ep = static_cast<int32_t>(ep);
      for (const int64_t pp : divisors(rest / ep)) {
        if (pp > limits_.most_stages) continue;
        point.pp = static_cast<int32_t>(pp);
        point.dp = static_cast<int32_t>(rest / ep / pp);
        if (limits_.batch % point.replicas() == 0) with_layout(point);
      }
    }
  }

  void with_layout(Point point) {
    with_replicas(point);
    // Where all are in one node, or nothing is beside the pipeline, both layouts are one.
    if (point.pp == 1 || point.dp == 1 || limits_.ranks <= limits_.ranks_of_node) return;
    // Or where replicas of a layer fill whole nodes.
    if (limits_.ranks_of_node % (point.tp * point.ep) != 0 || limits_.ranks_of_node == point.tp * point.ep) return;
    point.pipeline_inside = true;
    with_replicas(point);
  }

  void with_replicas(Point point) {
    for (const Divided divided : {Divided::kNothing, Divided::kOptimizer, Divided::kGradients, Divided::kParameters}) {
      if (divided != Divided::kNothing && point.replicas() == 1) continue;
      point.divided = divided;
      point.parts_over = 0;
      with_microbatches(point);
      const int32_t inside = replicas_inside(point);
      if (divided == Divided::kNothing || point.ep > 1 || inside <= 1 || inside >= point.dp) continue;
      point.parts_over = inside;
      with_microbatches(point);
    }
  }
  // Replicas of a stage that are in one node.
  int32_t replicas_inside(const Point& point) const {
    const int32_t next = point.tp * (point.pipeline_inside ? point.pp : 1);
    if (limits_.ranks_of_node % next != 0) return 1;
    return std::gcd(point.dp, limits_.ranks_of_node / next);
  }

  void with_microbatches(Point point) {
    for (const int64_t count : divisors(limits_.batch / point.replicas())) {
      if (limits_.samples > 0 && limits_.batch / point.replicas() / count != limits_.samples) continue;
      point.microbatches = static_cast<int32_t>(count);
      for (const std::string_view family : strategy::family_names()) with_family(point, std::string(family));
    }
  }

  void with_family(Point point, const std::string& family) {
    // Without a pipeline the schedules differ in nothing but what stays open.
    if (point.pp == 1 && family != "1f1b") return;
    point.family = family;
    for (const int32_t stages : kStagesOfGroup) {
      point.stages_of_group = stages;
      if (point.stages() > limits_.most_stages) continue;
      if (stages == 1 && family.starts_with("interleaved")) continue;  // that is the family without the word
      if (!expands(point)) continue;
      for (const Repeated repeated :
           {Repeated::kNothing, Repeated::kAttention, Repeated::kAllButProducts, Repeated::kAll}) {
        point.repeated = repeated;
        for (point.quarters = 1; point.quarters <= 4; ++point.quarters)
          if (!point.mixed() || (repeated != Repeated::kNothing && point.stages() % 4 == 0)) keep(point);
      }
    }
  }

  // Whether the family has a table for the point; it does not depend on the replicas.
  bool expands(const Point& point) {
    const auto [known, fresh] =
        expands_.try_emplace({point.family, point.pp, point.stages_of_group, point.microbatches}, false);
    if (!fresh) return known->second;
    strategy::FamilyRequest request;
    request.ranks = point.pp;
    request.stages = point.stages();
    request.microbatches = point.microbatches;
    return known->second = strategy::expand_family(point.family, request).ok();
  }

  void keep(const Point& point) {
    if (!limits_.fixed.empty())
      for (const auto& [name, value] : choices(point)) {
        const auto fixed = limits_.fixed.find(name);
        if (fixed != limits_.fixed.end() && fixed->second != value) return;
      }
    points_.push_back(point);
  }

  const SpaceLimits& limits_;
  std::map<std::tuple<std::string, int32_t, int32_t, int32_t>, bool> expands_;
  std::vector<Point> points_;
};

}  // namespace

std::vector<Point> points_of(const SpaceLimits& limits) { return Space(limits).all(); }

Status fix(const std::string& text, std::map<std::string, std::string>& fixed) {
  const size_t equals = text.find('=');
  std::string names;
  if (equals != std::string::npos && text.substr(0, equals) == kCapacity) {
    const std::string factor = text.substr(equals + 1);
    double number = 0;
    const auto [end, failed] = std::from_chars(factor.data(), factor.data() + factor.size(), number);
    if (failed == std::errc() && end == factor.data() + factor.size() && number > 0 && std::isfinite(number)) {
      fixed[kCapacity] = factor;
      return {};
    }
    return Status::failure("P0272", "'" + text + "': a capacity is a factor greater than 0, such as capacity=1.25");
  }
  for (const auto& [name, value] : choices(Point())) {
    if (equals != std::string::npos && text.substr(0, equals) == name) {
      fixed[name] = text.substr(equals + 1);
      return {};
    }
    names += (names.empty() ? "" : ", ") + name;
  }
  return Status::failure(
      "P0272", "'" + text + "' is no choice of a search; write NAME=VALUE, such as pp=4, with one of these names: " +
                   names + ", " + kCapacity);
}

Status check_fixed(const SpaceLimits& limits) {
  SpaceLimits free = limits;
  free.fixed.clear();
  std::map<std::string, std::set<std::string>> values;  // of each choice
  for (const Point& point : points_of(free))
    for (const auto& [name, value] : choices(point)) values[name].insert(value);
  for (const auto& [name, value] : limits.fixed) {
    const std::set<std::string>& offered = values[name];
    if (offered.empty() || offered.count(value) > 0) continue;
    std::string list;
    for (const std::string& one : offered) list += (list.empty() ? "" : ", ") + one;
    return Status::failure("P0272", "no strategy of this space has '" + name + "=" + value + "'; " + name +
                                        (offered.size() > 1 ? " may be " : " is ") + list);
  }
  return {};
}

std::vector<std::pair<std::string, Point>> neighbours_of(const Point& point, const std::vector<Point>& all,
                                                         const std::function<double(const Point&)>& cost) {
  // What may follow from each choice.
  const std::map<std::string, std::set<std::string>> follow = {
      {"pp", {"dp", "family", "virtual", "microbatches", "parts_over", "pipeline_inside", "zero", "recompute_in"}},
      {"tp", {"dp", "sequence", "vocabulary", "microbatches", "parts_over", "pipeline_inside", "zero"}},
      {"ep", {"dp", "parts_over", "pipeline_inside"}},
      {"zero", {"parts_over"}},
      {"recompute", {"recompute_in"}},
      {"virtual", {"recompute_in"}},
      {"family", {"virtual"}}};
  const auto own = choices(point);
  std::map<std::pair<std::string, std::string>, std::pair<double, Point>> nearest;  // by choice and value
  for (const Point& other : all) {
    const auto theirs = choices(other);
    std::vector<size_t> differ;
    for (size_t i = 0; i < own.size(); ++i)
      if (own[i].second != theirs[i].second) differ.push_back(i);
    for (const size_t i : differ) {
      const auto found = follow.find(own[i].first);
      const bool follows = std::all_of(differ.begin(), differ.end(), [&](size_t k) {
        return k == i || (found != follow.end() && found->second.count(own[k].first) > 0);
      });
      if (!follows) continue;
      const std::pair<std::string, std::string> choice{own[i].first, theirs[i].second};
      const double us = cost(other);
      const auto at = nearest.find(choice);
      if (at == nearest.end()) nearest.emplace(choice, std::make_pair(us, other));
      else if (us < at->second.first) at->second = {us, other};
    }
  }
  std::vector<std::pair<std::string, Point>> neighbours;
  for (const auto& [choice, found] : nearest)
    neighbours.emplace_back(choice.first + ": " + choice.second, found.second);
  return neighbours;
}

}  // namespace piper::search
