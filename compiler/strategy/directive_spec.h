// The declaration of a directive: its name, arguments and documentation, from which the loader, the
// JSON Schema, the reference page and `piperc --help-directive` are made. One constant of this type
// per directive is in compiler/directives/<name>.cc; the table is directive_table.def.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace piper::strategy {

enum class ArgKind : uint8_t {
  kFilter,        // Filter
  kFilterGroups,  // FilterGroups: at least two groups
  kDevices,       // Devices: non-empty, distinct, non-negative ranks, in order
  kDeviceGroups,  // std::vector<Devices>: one list, or a list of equal lists
  kRankGroups,    // RankGroups: an axis of the mesh, a list of axes, or a list of equal lists of ranks
  kName,          // std::string: a stream or dimension name
  kChoice,        // std::string: one of `choices`
  kCount,         // int64_t >= ArgSpec::least
  kMebibytes,     // double >= 0
  kShare,         // double above 0, at most 1
  kFlag,          // bool
  kCapacity,      // Capacity
  kGlobs,         // Globs: one, or a list that is not empty
};
struct ArgSpec {
  std::string_view name;
  ArgKind kind;
  bool required = false;
  std::string_view default_text;  // as a strategy would say it; "" = none. Read by default_of (directive_args.h)
  std::string_view doc;
  std::vector<std::string_view> choices;
  int64_t least = 1;  // kCount
};
struct DirectiveSpec {
  std::string_view name;
  std::string_view summary;  // one line
  std::string_view doc;      // paragraphs
  std::vector<ArgSpec> args;
  std::string_view example;                      // one directive as YAML
  std::vector<std::string_view> filter_forbids;  // tags the filter must not name, e.g. {"MB", "PASS"}
  bool gives_devices = false;                    // it says which devices run its regions
};

}  // namespace piper::strategy
