// Goes through a space, the most promising point first (best-first branch and bound): a point has its bound by the
// model, then the ones by its cut and by its stages, and only then its plans are made and priced. It ends when no bound
// that is left is below the best that was found; some of what is left may be faster than the second. The same input
// makes the same steps, whatever the machine; only `stop` ends it earlier.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "compiler/search/bounds.h"
#include "compiler/search/pricer.h"

namespace piper::search {

struct Found {
  Point point;
  Cost cost;
};
struct ExploreOptions {
  int64_t memory_limit = 0;  // bytes a rank
  double worth = 0;          // what is faster by less than this part of a step is not looked for
  size_t keep = 1;
  std::function<bool()> stop;  // asked between points
  // What was done so far, and the best step in microseconds, or 0.
  std::function<void(size_t points_done, size_t points, double best_us)> progress;
};
struct Explored {
  std::vector<Found> fit;                       // priced, within the limit, the fastest first
  std::vector<Found> too_large;                 // priced, not within the limit, what needs least first
  double least_us = 0;                          // no point of the space takes less, where one fits
  Point least_point;                            // of those that bounds show not to fit the one whose bound is the least
  int64_t least_bytes = 0;                      // that bound; 0: there is none
  size_t priced = 0, bounded = 0, refused = 0;  // points whose plans were made; by stages; that do not compile
  std::string why_refused;                      // the first of these
  bool complete = false;                        // nothing stopped it
};

Explored explore(const std::vector<Point>& points, Pricer& pricer, Bounds& bounds,
                 const std::function<std::string(const Point&)>& text_of, const ExploreOptions& options);

}  // namespace piper::search
