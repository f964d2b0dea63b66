#include "schemas/plan/actions.h"
#include "schemas/verify/verify.h"

#include <cstdio>
#include <set>

#include "schemas/plan/bundle_io.h"
#include "schemas/plan/json_writer.h"
#include "tools/piper_plan/commands.h"

namespace piper::tools {

namespace {

// Sums over ranks whose elements travel, or are added up, as another type than theirs: the strategy's word for it,
// which no rule compares with the model.
std::string sums_as_other_types(const plan::Bundle& bundle) {
  std::set<std::string> lines;
  const auto note = [&](const plan::SumTypes& types) {
    const auto name = [](DType dtype) { return std::string(dtype_name(dtype)); };
    if (types != plan::SumTypes(types.data))
      lines.insert("sums over ranks: of " + name(types.data) + ", sent as " + name(types.message) + ", added up in " +
                   name(types.sum) + "\n");
  };
  std::set<const void*> looked_at;  // ranks that do the same work share their instructions
  for (const plan::RankPlan& rank : bundle.ranks)
    if (looked_at.insert(rank.instructions.storage()).second)
      for (const plan::Instruction& instruction : rank.instructions)
        if (const auto types = plan::sum_types_of(instruction.action)) note(*types);
  std::string text;
  for (const std::string& line : lines) text += line;
  return text;
}

}  // namespace

Result<std::string> verify_bundle(const std::string& directory, const VerifyOptions& options) {
  PIPER_ASSIGN(const auto opened, plan::open_bundle(directory));
  PIPER_ASSIGN(const auto bundle, plan::read_bundle(opened));
  PIPER_ASSIGN(const auto report, verify::verify(bundle));
  PIPER_RETURN_IF_ERROR(plan::check_weights(opened));
  std::string parts;
  for (const verify::PartOfProof& part : report.parts) {
    char line[160];
    std::snprintf(line, sizeof line, "%-50s%10.1f ms %12lld %s\n", part.rules.c_str(), 1000 * part.seconds,
                  static_cast<long long>(part.looked_at), part.of_what);
    if (options.verbose) parts += line;
  }
  std::string evaluations;
  for (const verify::EqualityReport& evaluation : report.evaluations)
    evaluations += "evaluation: proved, too; " + verify::describe(evaluation);
  return parts + "proved for " + std::to_string(report.ranks) + " ranks, " + std::to_string(report.instructions) +
         " instructions: " + std::to_string(report.messages) + " messages and " + std::to_string(report.collectives) +
         " collectives match; no deadlock, by streams, by communication and in issue order (D0, D1, D2); no data race "
         "among " +
         std::to_string(report.accesses) +
         " accesses; what is read was written; every sum holds each sample once, every run reads what "
         "its slots name, every copy of a parameter is updated once\n" +
         verify::describe(report.equality) + sums_as_other_types(bundle) + evaluations +
         (report.sum_order.empty() ? "" : "order of sums " + report.sum_order + "\n");
}

Result<Difference> verify_as_json(const std::string& directory) {
  plan::JsonWriter json;
  const auto refuted = [&](const Error& error) {
    json.raw("{");
    json.key("proved");
    json.boolean(false);
    json.key("code");
    json.string(error.code);
    json.key("message");
    json.string(error.message);
    json.raw("}\n");
    return Difference{json.str(), true};
  };
  const auto opened = plan::open_bundle(directory);
  if (!opened.ok()) return refuted(opened.error());
  const auto bundle = plan::read_bundle(*opened);
  if (!bundle.ok()) return refuted(bundle.error());
  const auto report = verify::verify(*bundle);
  if (!report.ok()) return refuted(report.error());
  if (const Status weights = plan::check_weights(*opened); !weights.ok()) return refuted(weights.error());
  json.raw("{");
  json.key("proved");
  json.boolean(true);
  for (const auto& [key, value] : {std::pair{"ranks", static_cast<int64_t>(report->ranks)},
                                   {"instructions", static_cast<int64_t>(report->instructions)},
                                   {"messages", static_cast<int64_t>(report->messages)},
                                   {"collectives", static_cast<int64_t>(report->collectives)},
                                   {"accesses", static_cast<int64_t>(report->accesses)}}) {
    json.key(key);
    json.number(value);
  }
  json.key("order_of_sums");
  json.string(report->sum_order);
  json.raw("}\n");
  return Difference{json.str(), false};
}

}  // namespace piper::tools
