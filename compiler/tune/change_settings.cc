#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "compiler/directives/replicate.h"
#include "compiler/strategy/directive_args.h"
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

std::vector<Proposal> shardings(const Trial& trial) {
  if (trial.excess_bytes == 0) return {};
  // Each level implies those before it.
  static constexpr std::string_view kLevels[] = {"shard_optimizer", "shard_grads", "shard_params"};
  const auto replicates = found(trial.text, "replicate");
  size_t from = std::size(kLevels);  // the least that all have already
  for (const size_t directive : replicates) {
    size_t has = 0;
    for (size_t level = 0; level < std::size(kLevels); ++level)
      if (const auto flag = key_of(trial.text, directive, kLevels[level]); flag.ok() && *flag == "true")
        has = level + 1;
    from = std::min(from, has);
  }
  std::vector<Proposal> proposals;
  for (size_t level = from; level < std::size(kLevels); ++level) {
    const std::string key(kLevels[level]);
    proposals.push_back({"replicas with " + key, [&trial, replicates, key](const std::string& comment) {
                           return with_keys(trial.text, replicates, key,
                                            std::vector<std::string>(replicates.size(), "true"), comment);
                         }});
  }
  return proposals;
}

}  // namespace piper::tune
