// A space of strategies for a small model on a small machine, with all that a search asks of it. For tests.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "compiler/frontend/model_file.h"
#include "compiler/machine/load_machine.h"
#include "compiler/search/explore.h"
#include "compiler/search/model_limits.h"
#include "compiler/search/space.h"
#include "compiler/search/write_strategy.h"
#include "tests/source_path.h"
#include "tests/unit/temp_folder.h"

namespace piper::search {

// Ranks in nodes of two or four, which share nothing. `links`: "fast links", "slow links", or another name.
inline std::string machine_text(const std::string& links, int32_t ranks, const std::string& device = "cpu") {
  const bool slow = links == "slow links";
  return "name: " + links + "\ndevice: " + device + "\nranks_per_node: " + std::to_string(ranks / 2) +
         "\nflops: {f32: 1.0e9}\nmemory_bytes: 1.0e9\nmemory_bytes_per_second: 4.0e9\n"
         "efficiency: {product: 0.8, grouped_product: 0.8, attention: 0.5, memory: 0.9}\nkernel_us: 0.2\nhost_us: 0\n"
         "inside_node: {latency_us: 1, bytes_per_second: " +
         std::string(slow ? "5.0e7" : "2.0e9") + "}\nbetween_nodes: {latency_us: " + (slow ? "8" : "2") +
         ", bytes_per_second: " + (slow ? "1.0e7" : "1.0e9") + ", ports_per_node: " + std::to_string(ranks / 2) + "}\n";
}

inline timeline::Machine machine_of(const std::string& links, int32_t ranks, const std::string& device = "cpu") {
  const TempFolder folder;
  diag::Diagnostics diags;
  return machine::load_machine(folder.write("m.yaml", machine_text(links, ranks, device)), diags).value();
}

inline std::shared_ptr<frontend::ModelFile> model_of(const std::string& name) {
  diag::Diagnostics diags;
  return frontend::open_model(test::source_path("tests/models/" + name), "auto", diags).value();
}

struct SearchedSpace {
  SearchedSpace(const std::string& model, const std::string& links, int32_t ranks,
                plan::DeviceKind device = plan::DeviceKind::kCpu)
      : pricer(options(device), model_of(model),
               machine_of(links, ranks, device == plan::DeviceKind::kCuda ? "cuda" : "cpu")),
        limits(limits_of(pricer, base, most_stages_on(ranks), 1).value()),
        probes(pricer, base, limits.expert_globs),
        bounds(probes, pricer.machine(), base.batch, {}, limits.most_stages) {
    SpaceLimits space;
    space.ranks = ranks;
    space.ranks_of_node = base.ranks_of_node = ranks / 2;
    space.batch = base.batch;
    space.most_stages = limits.most_stages;
    space.experts = limits.experts;
    points = points_of(space);
  }

  static driver::CompileOptions options(plan::DeviceKind device = plan::DeviceKind::kCpu) {
    driver::CompileOptions options;
    options.strategy = "s.yaml";
    options.target.device = device;
    return options;
  }
  std::string text_of(const Point& point) const { return strategy_of(point, base, limits.expert_globs); }
  Explored explored(size_t keep = 1) {
    ExploreOptions explore_options;
    explore_options.memory_limit = memory_limit;
    explore_options.keep = keep;
    return explore(points, pricer, bounds, [&](const Point& point) { return text_of(point); }, explore_options);
  }

  BaseStrategy base{"piper: 1\nmodel: {batch: 8}\noptimizer: {adamw: {lr: 1.0e-3}}\n", 8};
  Pricer pricer;
  ModelLimits limits;
  StageProbes probes;
  Bounds bounds;
  std::vector<Point> points;
  int64_t memory_limit = int64_t{1} << 40;
};

}  // namespace piper::search
