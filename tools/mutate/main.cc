// piper-mutate: changes bundles in one of many ways at a time and tells what becomes of each mutant. A mutant that is
// accepted and trains to other numbers is a hole in the proof: exit status 1. Not installed: it tests the proof.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <optional>

#include "tools/mutate/judge.h"

namespace {

namespace fs = std::filesystem;
using namespace piper;
using namespace piper::mutate;

struct Flags {
  std::vector<std::string> bundles;
  std::string work, kind;
  Judge::Options judge;
  uint64_t mutants = 2000, seed = 1;
  std::optional<uint64_t> only;
  bool verbose = false;
};

struct Bench {
  Subject subject;
  Judge judge;
};

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

// Mutant `number` of a seed is the same whatever else is asked for.
Result<Judgement> judge_one(std::vector<Bench>& benches, const Mutation& mutation, uint64_t seed, uint64_t number,
                            bool& applied, std::string& subject) {
  Random random(seed * 0x9E3779B97F4A7C15u + number);
  Bench& bench = benches[random.below(benches.size())];
  subject = bench.subject.name();
  Draft draft{bench.subject, random, bench.subject.bundle(), {}};
  applied = mutation.apply(draft);
  if (!applied) return Judgement{};
  return bench.judge.judge(bench.subject, draft, mutation.reorders_sums);
}

int run(const Flags& flags) {
  std::vector<Bench> benches;
  for (const std::string& bundle : flags.bundles) {
    const std::string name = fs::path(bundle).filename().string();
    auto subject = Subject::open(name, bundle, (fs::path(flags.work) / name).string());
    auto judge = subject.ok() ? Judge::make(*subject, flags.judge) : Result<Judge>(subject.status());
    if (!judge.ok()) {
      std::fprintf(stderr, "piper-mutate: %s: %s\n", bundle.c_str(), judge.error().message.c_str());
      return 2;
    }
    benches.push_back({std::move(*subject), std::move(*judge)});
  }
  const auto& kinds = mutations();
  std::vector<std::vector<uint64_t>> table(kinds.size(), std::vector<uint64_t>(kNumVerdicts));
  for (uint64_t number = 0, made = 0; made < flags.mutants; ++number) {
    if (number > 20 * flags.mutants) break;  // nothing to change
    const size_t kind = number % kinds.size();
    if (flags.only && number != *flags.only) continue;
    if (!flags.kind.empty() && kinds[kind].name != flags.kind) continue;
    bool applied = false;
    std::string subject;
    const auto judged = judge_one(benches, kinds[kind], flags.seed, number, applied, subject);
    if (!judged.ok()) {
      std::fprintf(stderr, "piper-mutate: mutant %llu: %s\n", static_cast<unsigned long long>(number),
                   judged.error().message.c_str());
      return 2;
    }
    if (!applied || judged->verdict == Verdict::kSame) {
      if (flags.only) break;
      continue;
    }
    ++made;
    ++table[kind][static_cast<size_t>(judged->verdict)];
    if (flags.verbose || judged->verdict == Verdict::kWrong)
      std::printf("%s: mutant %llu, %s, %s: %s\n", verdict_name(judged->verdict),
                  static_cast<unsigned long long>(number), subject.c_str(), kinds[kind].name,
                  first_line(judged->why).c_str());
    std::fflush(stdout);
    if (flags.only) break;
  }
  std::vector<uint64_t> sum(kNumVerdicts);
  std::printf("%-56s", "kind of change");
  for (int v = 1; v < kNumVerdicts; ++v) std::printf("%10s", verdict_name(static_cast<Verdict>(v)));
  std::printf("\n");
  const auto print_row = [](const char* name, const std::vector<uint64_t>& row) {
    std::printf("%-56s", name);
    for (int v = 1; v < kNumVerdicts; ++v)
      std::printf("%10llu", static_cast<unsigned long long>(row[static_cast<size_t>(v)]));
    std::printf("\n");
  };
  for (size_t k = 0; k < kinds.size(); ++k) {
    print_row(kinds[k].name, table[k]);
    for (size_t v = 0; v < sum.size(); ++v) sum[v] += table[k][v];
  }
  print_row("all", sum);
  return sum[static_cast<size_t>(Verdict::kWrong)] == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  Flags flags;
  CLI::App app("Changes plan bundles in many ways: each mutant must be refused, or train to the same numbers",
               "piper-mutate");
  app.add_option("BUNDLES", flags.bundles, "plan bundles, with weights")->required();
  app.add_option("--work", flags.work, "folder for changed copies")->required();
  app.add_option("--run", flags.judge.piper_run, "the program piper-run")->required();
  app.add_option("--mutants", flags.mutants, "how many");
  app.add_option("--seed", flags.seed, "another one draws other mutants");
  app.add_option("--only", flags.only, "one mutant, by the number that its line tells; its bundle stays in --work");
  app.add_option("--kind", flags.kind, "one kind of change, as the table calls it");
  app.add_flag("--verbose", flags.verbose, "a line for every mutant");
  try {
    app.parse(argc, argv);
    return run(flags);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bug in piper-mutate: %s\n", error.what());
    return 70;
  }
}
