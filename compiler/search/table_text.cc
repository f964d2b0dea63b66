#include <fmt/format.h>

#include "compiler/search/search_texts.h"
#include "schemas/base/byte_text.h"

namespace piper::search {
namespace {

// The peak of the rank that needs least, and that of the one that needs most.
std::string peaks_text(const Cost& cost) {
  if (cost.peak_of_kind.size() <= 1) return human_bytes(cost.peak_bytes);
  int64_t least = cost.peak_bytes;
  for (const int64_t bytes : cost.peak_of_kind) least = std::min(least, bytes);
  return human_bytes(least) + " to " + human_bytes(cost.peak_bytes);
}

std::string dollars_text(const Report& report, const Found& one) {
  if (report.dollars_per_hour <= 0) return "";
  const double of_step = dollars_of_step(report, one);
  if (one.cost.tokens_per_s <= 0) return fmt::format(" {:.4g} a step |", of_step);
  const double tokens = one.cost.tokens_per_s * one.cost.step_us / 1e6;
  return fmt::format(" {:.4g} |", 1e9 * of_step / tokens);
}

}  // namespace

double dollars_of_step(const Report& report, const Found& one) {
  return report.dollars_per_hour * one.point.ranks() * one.cost.step_us / 3.6e9;
}

std::string time_text(double us) {
  if (us >= 1e6) return fmt::format("{:.3f} s", us / 1e6);
  return us >= 1e3 ? fmt::format("{:.4g} ms", us / 1e3) : fmt::format("{:.4g} us", us);
}

std::string bound_text(const Explored& explored) {
  if (explored.fit.empty()) return "";
  const double best = explored.fit.front().cost.step_us;
  const double faster = 100 * (best / explored.least_us - 1);
  const std::string how =
      faster < 0.005 ? "No strategy of this space is faster than the first."
                     : fmt::format("The best of this space is at most {:.2f} % faster than the first.", faster);
  return how + (explored.complete ? "" : " The search was ended before its end.");
}

std::string nearest_text(const Searched& found) {
  const Explored& explored = found.explored;
  if (!explored.complete)
    return fmt::format(
        "the search was ended before it found a strategy that fits: {} were compiled whole, {} have a bound by their "
        "stages",
        explored.priced, explored.bounded);
  const std::string limit = human_bytes(found.memory_limit) + " a rank";
  const int32_t ranks = found.points.front().ranks();
  std::string text = fmt::format("none of the {} strategies that were tried fits {} in {}", found.points.size(),
                                 ranks == 1 ? "one rank" : fmt::format("{} ranks", ranks), limit);
  const bool priced = !explored.too_large.empty();
  if (priced && (explored.least_bytes == 0 || explored.too_large.front().cost.peak_bytes <= explored.least_bytes)) {
    const Found& one = explored.too_large.front();
    return text + "; the nearest needs " + human_bytes(one.cost.peak_bytes) + ", " +
           human_bytes(one.cost.peak_bytes - found.memory_limit) + " more than the limit: " + describe(one.point);
  }
  if (explored.least_bytes > 0)
    return text + "; the nearest needs at least " + human_bytes(explored.least_bytes) + ", at least " +
           human_bytes(explored.least_bytes - found.memory_limit) +
           " more than the limit: " + describe(explored.least_point);
  return explored.refused > 0
             ? text + "; of " + std::to_string(explored.refused) + " the first error was: " + explored.why_refused
             : text;
}

std::string head_text(const Searched& found, const Found& one, size_t place, const std::string& machine,
                      const std::vector<Neighbour>& neighbours) {
  std::string text = fmt::format("# {}. {}\n# On {} ranks of {}: {} a step", place + 1, describe(one.point),
                                 one.point.ranks(), machine, time_text(one.cost.step_us));
  if (one.cost.mfu > 0) text += fmt::format(", MFU {:.1f} %", 100 * one.cost.mfu);
  text += ", at most " + human_bytes(one.cost.peak_bytes) + " of " + human_bytes(found.memory_limit) + " per rank.\n";
  if (neighbours.empty()) return text;
  text += "# One choice changed:\n";
  for (const Neighbour& other : neighbours)
    if (other.cost) text += "#   " + other.choice + ": " + other.why + "\n";
  return text;
}

std::string table_text(const Report& report) {
  const bool priced = report.dollars_per_hour > 0;
  std::string text =
      fmt::format("# {} strategies on {} ranks of {}, at most {} a rank\n\n", report.written.size(),
                  report.written.front().found.point.ranks(), report.machine, human_bytes(report.found.memory_limit));
  text += "| file | strategy | step | tokens/s | tokens/s per rank | MFU | peak memory | waiting ";
  text += std::string("| exposed communication |") + (priced ? " dollars for 1e9 tokens |" : "");
  text += std::string("\n|---|---|---|---|---|---|---|---|---|") + (priced ? "---|" : "") + "\n";
  for (const Written& file : report.written) {
    const Cost& cost = file.found.cost;
    text += fmt::format("| {} | {} | {} | {:.5g} | {:.5g} | {:.1f} % | {} | {:.1f} % | {:.1f} % |{}\n", file.name,
                        describe(file.found.point), time_text(cost.step_us), cost.tokens_per_s,
                        cost.tokens_per_s / file.found.point.ranks(), 100 * cost.mfu, peaks_text(cost),
                        100 * cost.waiting, 100 * cost.exposed, dollars_text(report, file.found));
  }
  const Explored& explored = report.found.explored;
  text += fmt::format(
      "\n{} Of {} strategies {} were compiled whole, {} have a bound by their stages, {} do not compile; {} "
      "compilations "
      "in all. Every file is proved.\n",
      bound_text(explored), report.found.points.size(), explored.priced, explored.bounded, explored.refused,
      report.found.compiled);
  if (explored.refused > 0) text += "The first that does not compile: " + explored.why_refused + "\n";
  for (const Written& file : report.written)
    if (!file.tuned.empty()) text += "\n`" + file.name + "`, tuned:\n\n" + file.tuned;
  return text;
}

std::string rejected_text(const Report& report) {
  const Written& best = report.written.front();
  std::string text = "# One choice changed\n\n" + best.name + ": " + describe(best.found.point) + ", " +
                     time_text(best.found.cost.step_us) +
                     ". What follows from a choice (what divides the same ranks or the same batch) changes with it.\n\n"
                     "| choice | strategy | step | peak memory | against the first |\n|---|---|---|---|---|\n";
  for (const Neighbour& one : report.neighbours)
    text += "| " + one.choice + " | " + describe(one.point) + " | " + (one.cost ? time_text(one.cost->step_us) : "") +
            " | " + (one.cost ? human_bytes(one.cost->peak_bytes) : "") + " | " + one.why + " |\n";
  if (!report.found.explored.complete) text += "\nThe search was ended before it priced these.\n";
  return text;
}

}  // namespace piper::search
