// A point of the space that a search goes through: a whole strategy as numbers. Plain data and its words; what it means
// as directives is in write_strategy.h, which points there are in space.h.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace piper::search {

// What the replicas of a stage divide among them: nothing, or the states of the optimizer, gradients as well,
// parameters as well.
enum class Divided : uint8_t { kNothing, kOptimizer, kGradients, kParameters };
// What a forward drops and a backward repeats, in the order of what it costs.
enum class Repeated : uint8_t { kNothing, kAttention, kAllButProducts, kAll };

struct Point {
  int32_t pp = 1;           // device groups of the pipeline
  int32_t dp = 1;           // replicas of them, beside those along ep
  int32_t ep = 1;           // replicas that divide experts among them
  int32_t tp = 1;           // devices that divide the weights of a layer
  bool sequence = false;    // these divide values between layers, too
  bool vocabulary = false;  // and tables and logits
  Divided divided = Divided::kNothing;
  int32_t parts_over = 0;  // replicas that keep one set of parts; 0: all of them
  Repeated repeated = Repeated::kNothing;
  int32_t quarters = 4;  // the first ones of the stages, that repeat this; the others repeat the next lesser
  std::string family = "1f1b";
  int32_t stages_of_group = 1;
  int32_t microbatches = 1;
  bool pipeline_inside = false;  // neighbours of the pipeline are next to each other, else replicas are

  int32_t replicas() const { return dp * ep; }
  int32_t ranks() const { return pp * dp * ep * tp; }
  int32_t stages() const { return pp * stages_of_group; }
  bool mixed() const { return quarters < 4; }
  // How many stages of a mixed point repeat `repeated`: the first ones.
  int32_t stages_repeated() const { return stages() / 4 * quarters; }
  friend auto operator<=>(const Point&, const Point&) = default;
};

// The kind of repetition before it; it has one.
Repeated lesser(Repeated repeated);
// The points with the same repetition in all stages, whose stages a point consists of: itself, or two.
std::vector<Point> plain_points(const Point& point);

// "pp 4, dp 2, tp 4 with sequence, ZeRO-1, 1f1b of 16 microbatches, attention recomputed".
std::string describe(const Point& point);

// The choices of a point by name, as `--fix` takes them and as tables show them: {"pp", "4"}, {"zero", "1"}, ...
std::vector<std::pair<std::string, std::string>> choices(const Point& point);

}  // namespace piper::search
