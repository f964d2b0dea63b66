#include "compiler/search/explore.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>

namespace piper::search {
namespace {

constexpr size_t kMostLookedAt = 1000;  // of the queue, for what free threads may do

class Explorer {
 public:
  Explorer(const std::vector<Point>& points, Pricer& pricer, Bounds& bounds,
           const std::function<std::string(const Point&)>& text_of, const ExploreOptions& options)
      : points_(points), pricer_(pricer), bounds_(bounds), text_of_(text_of), options_(options) {}

  ~Explorer() {
    for (const auto& [point, price] : prices_) MadeAhead::abandon(price.work);
  }
  Explorer(const Explorer&) = delete;
  Explorer& operator=(const Explorer&) = delete;

  Explored run() {
    // All of these are needed.
    for (const Point& point : points_) begin_probes(Level::kModel, point);
    for (size_t i = 0; i < points_.size() && !stopped(); ++i) bound(i, Level::kModel, 0);
    while (!queue_.empty() && !stopped()) {
      const Next next = *queue_.begin();
      if (ends_at(next)) break;
      queue_.erase(queue_.begin());
      if (next.level == Level::kStages) price(next.point);
      else bound(next.point, after(next.level, points_[next.point]), next.bound_us);
    }
    out_.complete = !stopped_;
    out_.least_us = queue_.empty() || best_us_ <= queue_.begin()->bound_us ? best_us_ : queue_.begin()->bound_us;
    return finished();
  }

 private:
  enum class Level : uint8_t { kModel, kCut, kStages };
  // Without a cut it says nothing new.
  static Level after(Level level, const Point& point) {
    return level == Level::kModel && point.tp > 1 ? Level::kCut : Level::kStages;
  }
  struct Next {
    double bound_us = 0;
    Level level = Level::kModel;
    size_t point = 0;
    // The least bound comes first, of equal ones the closer bound, then the first point.
    bool operator<(const Next& other) const {
      return std::make_tuple(bound_us, other.level, point) < std::make_tuple(other.bound_us, level, other.point);
    }
  };
  struct Price {
    std::optional<Result<Cost>> cost;
    MadeAhead::Handle work;
  };

  // Whether nothing from here on is worth a look.
  bool ends_at(const Next& next) const {
    return out_.fit.size() >= options_.keep && next.bound_us >= best_us_ * (1 - options_.worth);
  }
  Shape shape_at(Level level, const Point& point) const {
    return level == Level::kModel ? bounds_.model_shape(point)
           : level == Level::kCut ? bounds_.cut_shape(point)
                                  : bounds_.stages_shape(point);
  }

  size_t begin_probes(Level level, const Point& point) {
    size_t begun = 0;
    for (const Point& plain : plain_points(point)) begun += bounds_.probes().begin(shape_at(level, plain));
    return begun;
  }

  // Has free threads make what the next ones need, if what comes first does not say otherwise.
  void look_ahead() {
    size_t room = pricer_.ahead().room(), looked = 0;
    for (auto next = queue_.begin(); room > 0 && next != queue_.end() && looked < kMostLookedAt; ++next, ++looked) {
      if (ends_at(*next)) return;
      const Point& point = points_[next->point];
      const size_t begun =
          next->level == Level::kStages ? begin_price(next->point) : begin_probes(after(next->level, point), point);
      room -= std::min(room, begun);
    }
  }
  size_t begin_price(size_t at) {
    const auto [found, fresh] = prices_.try_emplace(at);
    if (!fresh) return 0;
    Price& price = found->second;
    price.work = pricer_.ahead().offer([this, at, &price] { price.cost = pricer_.price(text_of_(points_[at])); });
    return 1;
  }

  bool stopped() {
    stopped_ = stopped_ || (options_.stop && options_.stop());
    return stopped_;
  }

  void refuse(const std::string& why) {
    if (out_.refused++ == 0) out_.why_refused = why;
    done();
  }
  void done() {
    ++done_;
    if (options_.progress) options_.progress(done_, points_.size(), best_us_);
  }

  void bound(size_t at, Level level, double before_us) {
    const Point& point = points_[at];
    for (const Point& plain : plain_points(point)) {
      const Shape shape = shape_at(level, plain);
      if (bounds_.probes().known(shape)) continue;
      bounds_.probes().begin(shape);
      look_ahead();
    }
    const Bound found = level == Level::kModel ? bounds_.by_model(point)
                        : level == Level::kCut ? bounds_.by_cut(point)
                                               : bounds_.by_stages(point);
    if (level == Level::kStages) ++out_.bounded;
    if (!found.why_not.empty()) return refuse(found.why_not);
    if (found.peak_bytes > options_.memory_limit) {
      if (out_.least_bytes == 0 || found.peak_bytes < out_.least_bytes) {
        out_.least_bytes = found.peak_bytes;
        out_.least_point = point;
      }
      return done();
    }
    queue_.insert({std::max(before_us, found.step_us), level, at});
  }

  void price(size_t at) {
    const Point& point = points_[at];
    ++out_.priced;
    begin_price(at);
    look_ahead();
    Price& price = prices_.at(at);
    pricer_.ahead().finish(price.work);
    Result<Cost> cost = *std::move(price.cost);
    if (!cost.ok()) return refuse(cost.error().message);
    const bool fits = cost->peak_bytes <= options_.memory_limit;
    if (fits && (best_us_ == 0 || cost->step_us < best_us_)) best_us_ = cost->step_us;
    (fits ? out_.fit : out_.too_large).push_back({point, *std::move(cost)});
    done();
  }

  Explored finished() {
    std::stable_sort(out_.fit.begin(), out_.fit.end(), [](const Found& a, const Found& b) {
      // Where there is nothing of a kind, repeating it changes nothing.
      return std::tie(a.cost.step_us, a.point.repeated) < std::tie(b.cost.step_us, b.point.repeated);
    });
    std::stable_sort(out_.too_large.begin(), out_.too_large.end(),
                     [](const Found& a, const Found& b) { return a.cost.peak_bytes < b.cost.peak_bytes; });
    return std::move(out_);
  }

  const std::vector<Point>& points_;
  Pricer& pricer_;
  Bounds& bounds_;
  const std::function<std::string(const Point&)>& text_of_;
  const ExploreOptions& options_;
  std::set<Next> queue_;
  std::map<size_t, Price> prices_;  // by point
  double best_us_ = 0;              // of what fits; 0: nothing does so far
  size_t done_ = 0;
  bool stopped_ = false;
  Explored out_;
};

}  // namespace

Explored explore(const std::vector<Point>& points, Pricer& pricer, Bounds& bounds,
                 const std::function<std::string(const Point&)>& text_of, const ExploreOptions& options) {
  return Explorer(points, pricer, bounds, text_of, options).run();
}

}  // namespace piper::search
