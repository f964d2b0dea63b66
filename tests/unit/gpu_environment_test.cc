// What CUDA and NCCL are given by variables, and that the user's own values stay.
#include "runtime/hal/gpu_environment.h"

#include <catch2/catch.hpp>

#include <cstdlib>
#include <string>

namespace piper::hal {
namespace {

constexpr const char *kConnections = "CUDA_DEVICE_MAX_CONNECTIONS", *kOrder = "NCCL_LAUNCH_ORDER_IMPLICIT",
                     *kMixing = "NCCL_GRAPH_MIXING_SUPPORT", *kTrees = "NCCL_PAT_ENABLE";

std::string value_of(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "unset" : value;
}
void forget() {
  for (const char* name : {kConnections, kOrder, kMixing, kTrees}) unsetenv(name);
}

TEST_CASE("variables of CUDA and NCCL are set where the user has not") {
  forget();
  set_gpu_environment();
  CHECK(value_of(kConnections) == "32");
  CHECK(value_of(kOrder) == "1");
  CHECK(value_of(kTrees) == "0");
  CHECK(value_of(kMixing) == "unset");
  forget();
  setenv(kConnections, "1", 1);
  setenv(kOrder, "0", 1);
  setenv(kTrees, "1", 1);
  set_gpu_environment();
  CHECK(value_of(kTrees) == "1");
  CHECK(value_of(kConnections) == "1");
  CHECK(value_of(kOrder) == "0");
}

TEST_CASE("graphs and other calls of a communicator are ordered only where a step has both") {
  forget();
  set_nccl_graph_mixing(false);
  CHECK(value_of(kMixing) == "unset");
  set_nccl_graph_mixing(true);
  CHECK(value_of(kMixing) == "0");
  setenv(kMixing, "1", 1);
  set_nccl_graph_mixing(true);
  CHECK(value_of(kMixing) == "1");
}

}  // namespace
}  // namespace piper::hal
