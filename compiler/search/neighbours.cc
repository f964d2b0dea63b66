#include "compiler/search/neighbours.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "compiler/search/space.h"
#include "schemas/base/byte_text.h"

namespace piper::search {
namespace {

// Being made by whoever is free; not at all where it is not wanted.
struct Price {
  std::optional<Result<Cost>> cost;
  MadeAhead::Handle work;
  ~Price() {
    if (work != nullptr) MadeAhead::abandon(work);
  }
};

struct Times {
  double busy, exposed, waiting;  // microseconds of a mean rank
};
Times times_of(const Cost& cost) {
  return {cost.step_us * (1 - cost.exposed - cost.waiting), cost.step_us * cost.exposed, cost.step_us * cost.waiting};
}

// What grows most, where the step does.
std::string cause(const Cost& best, const Cost& other) {
  const Times before = times_of(best), after = times_of(other);
  const double busy = after.busy - before.busy, exposed = after.exposed - before.exposed,
               waiting = after.waiting - before.waiting;
  if (busy >= exposed && busy >= waiting)
    return fmt::format("kernels take {:+.1f} %", 100 * (after.busy / before.busy - 1));
  if (exposed >= waiting)
    return fmt::format("exposed communication {:.1f} % -> {:.1f} % of a step", 100 * best.exposed, 100 * other.exposed);
  return fmt::format("ranks wait {:.1f} % -> {:.1f} % of a step", 100 * best.waiting, 100 * other.waiting);
}

std::string why(const Cost& best, const Cost& other, int64_t limit) {
  std::string text = fmt::format("{:+.1f} %", 100 * (other.step_us / best.step_us - 1));
  if (other.peak_bytes > limit) return text + ", and " + human_bytes(other.peak_bytes - limit) + " too much";
  if (other.step_us == best.step_us) return text + ": as fast";
  if (other.step_us < best.step_us) return text + ": faster";
  return text + ": " + cause(best, other);
}

}  // namespace

std::vector<Neighbour> price_neighbours(const Found& best, const Searched& found, Pricer& pricer, Bounds& bounds,
                                        const std::function<std::string(const Point&)>& text_of,
                                        const std::function<bool()>& stop) {
  std::map<Point, Cost> known;
  for (const auto* list : {&found.explored.fit, &found.explored.too_large})
    for (const Found& one : *list) known.emplace(one.point, one.cost);
  // The one of several that promises most; what does not fit, or does not compile, comes last.
  constexpr double kLast = 1e18;
  auto points = neighbours_of(best.point, found.points, [&](const Point& point) {
    if (stop && stop()) return kLast;
    const Bound bound = bounds.by_stages(point);
    if (!bound.why_not.empty()) return 2 * kLast;
    return bound.step_us + (bound.peak_bytes > found.memory_limit ? kLast : 0);
  });
  const int32_t node = pricer.machine().ranks_per_node;
  if (best.point.tp == node && best.point.dp % 2 == 0 && best.point.parts_over == 0) {
    Point wider = best.point;
    wider.tp *= 2;
    wider.dp /= 2;
    if (wider.replicas() == 1) wider.divided = Divided::kNothing;
    points.emplace_back(fmt::format("tp: {}, which leaves the node", wider.tp), wider);
  }
  std::vector<Price> prices(points.size());
  for (size_t i = 0; i < points.size(); ++i)
    if (!(stop && stop()) && known.find(points[i].second) == known.end())
      prices[i].work = pricer.ahead().offer([&pricer, &text_of, &price = prices[i], &point = points[i].second] {
        price.cost = pricer.price(text_of(point));
      });
  std::vector<Neighbour> neighbours;
  for (size_t i = 0; i < points.size() && !(stop && stop()); ++i) {
    const auto& [choice, point] = points[i];
    Neighbour one{choice, point, std::nullopt, ""};
    if (const auto at = known.find(point); at != known.end()) {
      one.cost = at->second;
    } else {
      if (prices[i].work == nullptr) break;  // stopped
      pricer.ahead().finish(prices[i].work);
      if (prices[i].cost->ok()) one.cost = **std::move(prices[i].cost);
      else one.why = "does not compile: " + prices[i].cost->error().message;
    }
    if (one.cost) one.why = why(best.cost, *one.cost, found.memory_limit);
    neighbours.push_back(std::move(one));
  }
  return neighbours;
}

}  // namespace piper::search
