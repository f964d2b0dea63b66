#include "compiler/search/explore.h"

#include <algorithm>
#include <limits>
#include <queue>
#include <tuple>

namespace piper::search {
namespace {

class Explorer {
 public:
  Explorer(const std::vector<Point>& points, Pricer& pricer, Bounds& bounds,
           const std::function<std::string(const Point&)>& text_of, const ExploreOptions& options)
      : points_(points), pricer_(pricer), bounds_(bounds), text_of_(text_of), options_(options) {}

  Explored run() {
    for (size_t i = 0; i < points_.size() && !stopped(); ++i) bound(i, Level::kModel, 0);
    while (!queue_.empty() && !stopped()) {
      const Next next = queue_.top();
      const bool enough = out_.fit.size() >= options_.keep;
      if (enough && next.bound_us >= best_us_ * (1 - options_.worth)) break;
      queue_.pop();
      if (next.level == Level::kStages) price(next.point);
      else bound(next.point, after(next.level, points_[next.point]), next.bound_us);
    }
    out_.complete = !stopped_;
    out_.least_us = queue_.empty() || best_us_ <= queue_.top().bound_us ? best_us_ : queue_.top().bound_us;
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
    // The priority queue has the greatest on top: the least bound, of equal ones the closer bound, then the first.
    bool operator<(const Next& other) const {
      return std::make_tuple(bound_us, other.level, point) > std::make_tuple(other.bound_us, level, other.point);
    }
  };

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
    queue_.push({std::max(before_us, found.step_us), level, at});
  }

  void price(size_t at) {
    const Point& point = points_[at];
    ++out_.priced;
    auto cost = pricer_.price(text_of_(point));
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
  std::priority_queue<Next> queue_;
  double best_us_ = 0;  // of what fits; 0: nothing does so far
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
