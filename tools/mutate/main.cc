// piper-mutate: changes bundles in one of many ways, or several after each other, and says what becomes of each
// mutant. A mutant that is accepted and trains to other numbers is a hole in the proof: exit status 1. Not installed:
// it tests the proof.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <optional>
#include <thread>

#include "schemas/command_line/command_line.h"
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
  unsigned jobs = 1, changes = 1;
  std::optional<uint64_t> only;
  bool evaluations = false, verbose = false;
};

struct Bench {
  Subject subject;
  Judge judge;
};

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

// For one thread: a copy of every bundle.
Result<std::vector<Bench>> open_benches(const Flags& flags, unsigned job, const Trainer& trainer) {
  std::vector<Bench> benches;
  for (const std::string& bundle : flags.bundles) {
    const std::string name = fs::path(bundle).filename().string();
    const fs::path copy = fs::path(flags.work) / std::to_string(job) / name;
    auto subject =
        Subject::open(name, bundle, copy.string(), flags.evaluations ? Changed::kEvaluation : Changed::kTraining);
    auto judge = subject.ok() ? Judge::make(*subject, trainer, flags.judge) : Result<Judge>(subject.status());
    if (!judge.ok()) return Status::failure("", bundle + ": " + judge.error().message);
    benches.push_back({std::move(*subject), std::move(*judge)});
  }
  return benches;
}

struct Outcome {
  std::string subject;
  Judgement judgement;  // kSame, too, where the kind has nothing to change
  std::string kinds;    // of all changes
  Status status;
};

// Mutant `number` of a seed is the same whatever else is asked for. A harmless one is changed again, `changes` times in
// all: what a single change cannot break, one that prepares for it may.
Outcome make_and_judge(std::vector<Bench>& benches, const Flags& flags, uint64_t number) {
  Random random(flags.seed * 0x9E3779B97F4A7C15u + number);
  Bench& bench = benches[random.below(benches.size())];
  Draft draft{bench.subject, random, bench.subject.bundle(), {}};
  Outcome outcome{bench.subject.name(), {}, {}, {}};
  bool reorders_sums = false;
  for (unsigned change = 0; change < flags.changes; ++change) {
    const Mutation& mutation =
        mutations()[change == 0 ? number % mutations().size() : random.below(mutations().size())];
    if (!draft.texts.empty() && !mutation.of_texts) continue;
    if (!mutation.apply(draft)) continue;
    reorders_sums = reorders_sums || mutation.reorders_sums;
    outcome.kinds += (outcome.kinds.empty() ? "" : "; ") + std::string(mutation.name);
    draft.changed = true;
    auto judged = bench.judge.judge(bench.subject, draft, reorders_sums);
    if (!judged.ok()) {
      outcome.status = judged.status();
      return outcome;
    }
    if (judged->verdict == Verdict::kSame) continue;
    outcome.judgement = std::move(*judged);
    if (outcome.judgement.verdict != Verdict::kHarmless) break;
  }
  return outcome;
}

// Outcomes of mutants, in their order, by as many threads as there are sets of benches.
std::vector<Outcome> judge_all(std::vector<std::vector<Bench>>& benches, const Flags& flags,
                               const std::vector<uint64_t>& numbers) {
  std::vector<Outcome> outcomes(numbers.size());
  std::atomic<size_t> next = 0;
  std::vector<std::thread> threads;
  for (std::vector<Bench>& own : benches)
    threads.emplace_back([&] {
      for (size_t i = next++; i < numbers.size(); i = next++) outcomes[i] = make_and_judge(own, flags, numbers[i]);
    });
  for (std::thread& thread : threads) thread.join();
  return outcomes;
}

// What became of the mutants of each kind.
class Table {
 public:
  void count(uint64_t number, Verdict verdict) {
    ++rows_[number % rows_.size()][static_cast<size_t>(verdict)];
    ++sum_[static_cast<size_t>(verdict)];
  }
  uint64_t wrong() const { return sum_[static_cast<size_t>(Verdict::kWrong)]; }
  void print() const {
    std::printf("%-56s", "kind of change");
    for (int v = 1; v < kNumVerdicts; ++v) std::printf("%10s", verdict_name(static_cast<Verdict>(v)));
    std::printf("\n");
    for (size_t k = 0; k < rows_.size(); ++k) print_row(mutations()[k].name, rows_[k]);
    print_row("all", sum_);
  }

 private:
  using Row = std::array<uint64_t, kNumVerdicts>;
  static void print_row(const char* name, const Row& row) {
    std::printf("%-56s", name);
    for (size_t v = 1; v < row.size(); ++v) std::printf("%10llu", static_cast<unsigned long long>(row[v]));
    std::printf("\n");
  }

  std::vector<Row> rows_ = std::vector<Row>(mutations().size());
  Row sum_{};
};

int failed(const Error& error) {
  std::fprintf(stderr, "piper-mutate: %s\n", error.message.c_str());
  return 2;
}

int run(const Flags& flags) {
  std::vector<Trainer> trainers;
  std::vector<std::vector<Bench>> benches;
  for (unsigned job = 0; job < flags.jobs; ++job) {
    auto trainer = Trainer::start();
    if (!trainer.ok()) return failed(trainer.error());
    trainers.push_back(std::move(*trainer));
  }
  for (unsigned job = 0; job < flags.jobs; ++job) {
    auto own = open_benches(flags, job, trainers[job]);
    if (!own.ok()) return failed(own.error());
    benches.push_back(std::move(*own));
  }
  constexpr uint64_t kAtOnce = 1024;
  const uint64_t first = flags.only.value_or(0), end = flags.only ? first + 1 : 20 * flags.mutants;
  Table table;
  uint64_t made = 0;
  for (uint64_t from = first; from < end && made < flags.mutants; from += kAtOnce) {
    std::vector<uint64_t> numbers;
    for (uint64_t number = from; number < std::min(from + kAtOnce, end); ++number)
      if (flags.kind.empty() || mutations()[number % mutations().size()].name == flags.kind) numbers.push_back(number);
    const std::vector<Outcome> outcomes = judge_all(benches, flags, numbers);
    for (size_t i = 0; i < numbers.size() && made < flags.mutants; ++i) {
      const auto& [subject, judgement, kinds, status] = outcomes[i];
      const auto number = static_cast<unsigned long long>(numbers[i]);
      if (!status.ok()) {
        std::fprintf(stderr, "piper-mutate: mutant %llu: %s\n", number, status.error().message.c_str());
        return 2;
      }
      if (judgement.verdict == Verdict::kSame) continue;
      ++made;
      table.count(numbers[i], judgement.verdict);
      if (flags.verbose || judgement.verdict == Verdict::kWrong)
        std::printf("%s: mutant %llu, %s, %s: %s\n", verdict_name(judgement.verdict), number, subject.c_str(),
                    kinds.c_str(), first_line(judgement.why).c_str());
      std::fflush(stdout);
    }
  }
  table.print();
  return table.wrong() == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  Flags flags;
  CLI::App app(
      "Changes plan bundles, proved as a whole, in many ways: each mutant must be refused, or train to the same "
      "numbers",
      "piper-mutate");
  app.add_option("BUNDLES", flags.bundles, "plan bundles, with weights")->required();
  app.add_option("--work", flags.work, "folder for changed copies")->required();
  app.add_option("--mutants", flags.mutants, "how many");
  app.add_option("--seed", flags.seed, "another one draws other mutants");
  app.add_option("--jobs", flags.jobs, "threads, each with its own copies of the bundles")->check(CLI::Range(1, 64));
  app.add_option("--changes", flags.changes, "a mutant that does no harm is changed again, so often in all")
      ->check(CLI::Range(1, 100));
  app.add_option("--turns", flags.judge.turns, "how often an accepted mutant trains: a race shows by chance")
      ->check(CLI::Range(1, 100));
  app.add_option("--only", flags.only, "one mutant, by the number in its line; its bundle stays in --work/0");
  app.add_option("--kind", flags.kind, "one kind of change, as the table calls it");
  app.add_flag("--evaluations", flags.evaluations, "changes the bundles' evaluations, not their trainings");
  app.add_flag("--verbose", flags.verbose, "a line for every mutant");
  piper::command_line::add_version(app);
  try {
    app.parse(argc, argv);
    return run(flags);
  } catch (const CLI::ParseError& error) {
    return piper::command_line::end(app, error, 2);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bug in piper-mutate: %s\n", error.what());
    return 70;
  }
}
