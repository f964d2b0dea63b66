#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "compiler/directives/replicate.h"
#include "compiler/strategy/directive_args.h"
#include "compiler/tune/pass_table.h"
#include "compiler/tune/proposals.h"
#include "compiler/tune/strategy_text.h"

namespace piper::tune {
namespace {

constexpr int kMostAhead = 8;

std::optional<double> number_of(const std::string& text) {
  double value = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
  return read.ec == std::errc() && read.ptr == text.data() + text.size() ? std::optional<double>(value) : std::nullopt;
}

std::vector<size_t> found(const std::string& text, std::string_view op) {
  auto directives = directives_of(text, op);
  return directives.ok() ? std::move(directives).value() : std::vector<size_t>();
}

// One key of several directives. The last one first, so that the places of the others stay.
Result<std::string> with_keys(const std::string& text, const std::vector<size_t>& directives, std::string_view key,
                              const std::vector<std::string>& values, const std::string& comment) {
  std::string edited = text;
  for (size_t k = directives.size(); k-- > 0;) {
    PIPER_ASSIGN(edited, with_key(edited, directives[k], key, values[k], k == 0 ? comment : ""));
  }
  return edited;
}

// A key of several `replicate`s, each from its own value on; `change` says nothing where there is no other value.
template <class Change>
std::optional<Proposal> changed(const std::string& text, const std::vector<size_t>& replicates, std::string_view key,
                                const Change& change) {
  std::vector<std::string> values;
  std::string what;
  for (const size_t directive : replicates) {
    const auto written = key_of(text, directive, key);
    if (!written.ok()) return std::nullopt;
    const auto old = written->empty() ? std::optional(strategy::default_of<double>(directives::replicate_spec(), key))
                                      : number_of(*written);
    const auto now = old ? change(*old) : std::nullopt;
    if (!now) return std::nullopt;
    values.push_back(fmt::format("{}", *now));
    const std::string one = fmt::format("{} {} -> {}", key, *old, *now);
    if (what.find(one) == std::string::npos) what += (what.empty() ? "" : ", ") + one;
  }
  if (values.empty()) return std::nullopt;
  return Proposal{what, [=](const std::string& comment) { return with_keys(text, replicates, key, values, comment); }};
}

}  // namespace

std::vector<Proposal> buckets(const Trial& trial) {
  const auto replicates = found(trial.text, "replicate");
  std::vector<Proposal> proposals;
  // A bucket that is larger than all gradients is one whatever its size is: small steps would end there.
  for (const double factor : {0.25, 0.0625, 1.0 / 64, 1.0 / 256, 1.0 / 1024, 4.0, 16.0}) {
    auto proposal = changed(trial.text, replicates, "bucket_size",
                            [&](double old) { return old > 0 ? std::optional<double>(old * factor) : std::nullopt; });
    if (proposal) proposals.push_back(std::move(*proposal));
  }
  return proposals;
}

std::vector<Proposal> prefetches(const Trial& trial) {
  std::vector<size_t> sharded;
  for (const size_t directive : found(trial.text, "replicate"))
    if (const auto flag = key_of(trial.text, directive, "shard_params"); flag.ok() && *flag == "true")
      sharded.push_back(directive);
  std::vector<Proposal> proposals;
  for (const int by : {1, -1}) {
    auto proposal = changed(trial.text, sharded, "prefetch", [&](double old) {
      const double now = old + by;
      return now >= 0 && now <= kMostAhead ? std::optional<double>(now) : std::nullopt;
    });
    if (proposal) proposals.push_back(std::move(*proposal));
  }
  return proposals;
}

std::vector<Proposal> recomputations(const Trial& trial) {
  std::vector<Proposal> proposals;
  std::vector<std::string> told;
  for (const strategy::Directive& directive : trial.compilation->strategy.directives)
    if (directive.spec->name == "recompute") told.push_back(strategy::to_string(directive));
  const auto directives = found(trial.text, "recompute");
  for (size_t k = 0; k < std::min(directives.size(), told.size()); ++k)
    proposals.push_back({"without " + told[k], [&trial, at = directives[k]](const std::string& comment) {
                           return without_directive(trial.text, at, comment);
                         }});
  if (trial.excess_bytes == 0) return proposals;
  std::vector<std::string> filters;
  if (const auto passes = pass_table_of(*trial.compilation))
    for (size_t s = 0; s < passes->table.stage_rank.size(); ++s)
      if (!passes->tag.empty()) filters.push_back(fmt::format("{{{}: {}}}", passes->tag, s));
  filters.push_back("{}");
  for (const std::string& filter : filters) {
    const std::string yaml = "{op: recompute, filter: " + filter + "}";
    proposals.push_back({"recompute " + filter, [&trial, yaml](const std::string& comment) {
                           return with_directives(trial.text, {yaml}, comment);
                         }});
  }
  return proposals;
}

}  // namespace piper::tune
