// What the stages of a model cost, by probes: strategies of one or three microbatches with each stage on ranks of its
// own, which the compiler makes plans of as of any other. So there is no second model of the network. Kept for all
// points that have such stages.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "compiler/search/base_strategy.h"
#include "compiler/search/point.h"
#include "compiler/search/pricer.h"

namespace piper::search {

// The cost of one pass of a stage, in microseconds. `alone`: its kernels, and the exchanges that it makes between them
// (pass_exchanges.h), where nothing else goes on in the machine; `work`: its kernels. Of a rank that does one pass
// after the other a pass takes `alone` at least; where passes overlap, `work`.
struct PassCost {
  double alone = 0, work = 0;
};
struct StageMemory {
  int64_t persistent_bytes = 0;
  int64_t one_microbatch_bytes = 0;  // the peak with one microbatch, beside what is persistent
  int64_t in_passes_bytes = 0;       // of these, what is live at once while the microbatch's passes run
  int64_t saved_bytes = 0;           // more for each further microbatch whose backward is open
  int64_t between_halves_bytes = 0;  // of a microbatch of which the first half of the backward is done, for the other
  // What replicas can divide, of the persistent bytes.
  int64_t optimizer_bytes = 0, gradient_bytes = 0, parameter_bytes = 0;
  double gradients = 0;  // elements
  // Of what an earlier stage has, too: a rank with both keeps it, updates it and gathers it once.
  int64_t tied_bytes = 0;
  double tied_gradients = 0;
};
struct StageCost : StageMemory {
  PassCost forward, backward, backward_input, backward_weight;  // the halves are 0 where none were asked for
  double repeated_us = 0;  // of a backward: what of it may be done before the gradient that it reads has come, at most
  double update_us = 0;
  double in_blocks_us = 0;  // of passes: what the head takes more because its logits are made in blocks
  double once_us = 0;       // beside passes and updates, that a rank with several stages does not do for each of them
};
// What stages depend on.
struct Shape {
  int32_t stages = 1, ep = 1, tp = 1;
  bool sequence = false, vocabulary = false;
  Repeated repeated = Repeated::kNothing;
  int64_t samples = 1;  // of a microbatch on a replica
  bool halves = false;  // backwards in two halves
  // Of stages that repeat and have one device in a replica: there are several replicas. Their passes are then in
  // segments (passes/cut_segments.h), which repeat less, and keep less at a time, than the passes of one.
  bool replicated = false;
  friend auto operator<=>(const Shape&, const Shape&) = default;
};
struct StageCosts {
  std::string why_not;  // it does not compile
  std::vector<StageCost> stages;
  // Bytes of the largest head (passes/cut_heads.h) that may be made in blocks: all its logits, and a block where it is.
  int64_t logits_bytes = 0, block_bytes = 0;
  int64_t compiled = 0;  // plans that it took
};

bool splits_backwards(const std::string& family);
// Whether probes of stages that `devices` share need several replicas (Shape::replicated).
bool needs_replicas(const Shape& shape, int32_t devices);
Shape shape_of(const Point& point, int64_t batch);

class StageProbes {
 public:
  // `least_samples`: of a microbatch that the model takes; `only`: it takes no other number.
  StageProbes(Pricer& pricer, const BaseStrategy& base, const std::vector<std::string>& experts,
              int64_t least_samples = 1, bool only = false)
      : pricer_(pricer), base_(base), experts_(experts), least_samples_(least_samples), only_(only) {}
  ~StageProbes();
  StageProbes(const StageProbes&) = delete;
  StageProbes& operator=(const StageProbes&) = delete;

  // By a probe; of stages without exchanges or measured times, of large microbatches, by the line through the two
  // smallest ones: a kernel takes the larger of what its products and its bytes take, both of which grow with the
  // samples from what they are at none, so that what passes take, and save, lies above that line. Exchanges lie below
  // it: a library has faster algorithms for long ones.
  const StageCosts& of(const Shape& shape);
  // Has free threads make what of() will need; how many probes that are.
  size_t begin(const Shape& shape);
  bool known(const Shape& shape) const { return known_.contains(shape); }
  bool measured() const { return !pricer_.times().empty(); }
  // Plans that were made for what was asked of of().
  int64_t compiled() const { return compiled_; }

 private:
  struct Probe {
    StageCosts costs;
    MadeAhead::Handle work;
    bool taken = false;
  };
  bool on_one_node() const { return base_.ranks_of_node == 0; }
  bool by_line(const Shape& shape) const;
  StageCosts extrapolated(const Shape& shape);
  StageCosts measured_at(const Shape& shape);  // by probes of this shape
  size_t begin_probes(const Shape& shape);
  const StageCosts& probed(const Shape& shape);
  // By plans alone. Of a shape with halves: their times; what memory they need is that of the whole.
  StageCosts probe(const Shape& shape) const;
  Compiled compiled_for(const Shape& shape, int32_t microbatches, StageCosts& costs) const;
  Status read_one(const Shape& shape, StageCosts& costs) const;
  Status read_passes(const Shape& shape, Compiled compiled, StageCosts& costs) const;
  void read_memory(const Shape& shape, const plan::Bundle& bundle, StageCosts& costs) const;
  void read_between_halves(const Shape& shape, const plan::Bundle& bundle, StageCosts& costs) const;

  Pricer& pricer_;
  const BaseStrategy& base_;
  const std::vector<std::string>& experts_;
  int64_t least_samples_;
  bool only_;
  int64_t compiled_ = 0;
  std::map<Shape, Probe> probes_;
  std::map<Shape, StageCosts> known_;
};

}  // namespace piper::search
