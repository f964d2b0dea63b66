#include "schemas/timeline/profile_times.h"

#include <map>
#include <vector>

#include "schemas/plan/actions.h"
#include "schemas/plan/call_key.h"

namespace piper::timeline {
namespace {

using namespace plan;

constexpr int kRounds = 100;

struct ProgramRuns {
  double runs = 0, us = 0;  // `us`: of all of them
};

std::vector<ProgramRuns> measured_programs(const Bundle& bundle, const Measured& measured) {
  std::vector<ProgramRuns> programs(bundle.programs.size());
  for (size_t p = 0; p < bundle.ranks.size(); ++p)
    for (size_t i = 0; i < bundle.ranks[p].instructions.size(); ++i) {
      const int32_t program = launch_of(bundle.ranks[p].instructions[i].action).program;
      if (program < 0) continue;
      ++programs[static_cast<size_t>(program)].runs;
      programs[static_cast<size_t>(program)].us += measured.cost_us[p][i];
    }
  return programs;
}

}  // namespace

ProfiledTimes times_by_profile(const Bundle& bundle, const Measured& measured, const Priced& prices) {
  const std::vector<ProgramRuns> programs = measured_programs(bundle, measured);
  std::map<std::string, size_t> numbers;
  std::vector<std::vector<size_t>> calls_of(programs.size());  // [program][call]: its number
  std::vector<double> times, places;                           // of each distinct call
  std::vector<const KernelCall*> distinct;
  for (size_t p = 0; p < programs.size(); ++p) {
    if (programs[p].runs == 0) continue;
    for (const KernelCall& call : bundle.programs[p].calls) {
      const auto [at, is_new] = numbers.emplace(call_key(call), numbers.size());
      if (is_new) {
        times.push_back(prices.call_us(call));
        places.push_back(0);
        distinct.push_back(&call);
      }
      calls_of[p].push_back(at->second);
      places[at->second] += programs[p].runs;
    }
  }
  for (int round = 0; round < kRounds; ++round) {
    std::vector<double> sums(times.size());
    for (size_t p = 0; p < programs.size(); ++p) {
      double whole = 0;
      for (const size_t call : calls_of[p]) whole += times[call];
      const auto count = static_cast<double>(calls_of[p].size());
      for (const size_t call : calls_of[p])
        sums[call] += programs[p].us * (whole > 0 ? times[call] / whole : 1 / count);
    }
    for (size_t call = 0; call < times.size(); ++call) times[call] = sums[call] / places[call];
  }
  ProfiledTimes profiled;
  for (const auto& [key, number] : numbers) profiled.times.emplace(key, times[number]);
  std::map<std::string, double> took, roofline;
  for (size_t call = 0; call < times.size(); ++call)
    for (const std::string& kernel : {distinct[call]->kernel.text(), std::string(kEveryKernel)}) {
      took[kernel] += places[call] * times[call];
      roofline[kernel] += places[call] * prices.roofline_us(*distinct[call]);
    }
  for (const auto& [kernel, us] : roofline)
    if (us > 0 && took[kernel] > 0) profiled.factors[kernel] = took[kernel] / us;
  return profiled;
}

}  // namespace piper::timeline
