// A strategy program after loading: typed, checked against the key tables, every piece with its
// span. The loader makes it; the driver, the directives and the schedule families read it.
// It knows nothing of graphs: whether a tag exists is checked when a directive is resolved.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "compiler/diag/diagnostics.h"
#include "schemas/plan/plan.h"

namespace piper::strategy {

using diag::Span;

// ------------------------------------------------------------------ filters
// PASS values. kB in a filter also matches kBI and kBW of a split backward.
enum class Pass : uint8_t { kF, kB, kBI, kBW };

// Names of chunks hold tags, and are parts of lines of text and in file names.
inline bool has_control_character(std::string_view tag) {
  return std::any_of(tag.begin(), tag.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
}

struct FilterTerm {
  std::string tag;                                  // "PP", "MB", "EP", ...; PASS is in Filter::pass
  bool any = false;                                 // "*"
  bool absent = false;                              // "-": matches what lacks the tag, and nothing else
  std::vector<std::pair<int64_t, int64_t>> ranges;  // inclusive; an index is a range of one
  Span span;                                        // of the value
  Span tag_span;
  bool matches(int64_t index) const;
};
struct Filter {
  std::vector<FilterTerm> terms;  // a conjunction; empty and no pass = everything
  std::optional<Pass> pass;
  bool in_sequence = false;  // in a group of an order: written in a nested list, so the order of the list is kept
  Span span;
};

// ------------------------------------------------------------------ directives
// The value of one directive argument; which alternative is fixed by the argument's kind.
using FilterGroups = std::vector<std::vector<Filter>>;
struct Devices {
  std::vector<int32_t> ranks;
  Span span;
};
// Groups of ranks out of which a directive takes those of its own devices.
struct RankGroups {
  std::vector<Devices> groups;
};
// Patterns of names, each with its place.
struct Globs {
  std::vector<std::string> globs;
  std::vector<Span> spans;
};
struct Capacity {
  double factor = 1.0;
  std::string overflow = "drop";
};
using ArgValue = std::variant<std::monostate, Filter, FilterGroups, Devices, std::vector<Devices>, std::string, int64_t,
                              double, bool, Capacity, RankGroups, Globs>;

struct DirectiveSpec;
struct Directive {
  const DirectiveSpec* spec = nullptr;
  std::vector<ArgValue> args;  // by the spec's argument order; monostate = not given
  std::vector<Span> arg_spans;
  Span span;            // of the directive in the file
  std::string made_by;  // "" = the user's; else the schedule family's expansion
};

// ------------------------------------------------------------------ the rest of the file
struct LossChoice {
  enum class Kind : uint8_t { kDefault, kOutput, kCrossEntropy, kMse } kind = Kind::kDefault;
  std::string output;          // kOutput
  std::string logits, labels;  // kCrossEntropy; kMse: prediction, target
  // Of kCrossEntropy. z_loss: the factor on the mean square of log(sum(exp(logits))) over the counted labels, which is
  // added (Chowdhery et al., "PaLM" (2022), section 5).
  int64_t ignore_index = -100;
  double label_smoothing = 0, z_loss = 0;
  Span span;
};
struct InputRole {
  plan::Feed feed = plan::Feed::kTokens;
  Span span;
};
struct ModelConfig {
  std::optional<int64_t> batch;
  std::map<std::string, int64_t> dims;
  LossChoice loss;
  std::map<std::string, InputRole> inputs;  // by graph input
  std::vector<std::string> freeze, train;   // globs
  bool masks_documents = false;  // attention stays within documents, by the one input of the role `documents`
  std::vector<Span> freeze_spans, train_spans;
  Span span, batch_span, documents_span;
};
struct Annotation {
  std::string tag;
  enum class Kind : uint8_t { kStarts, kStages, kModules } kind = Kind::kStarts;
  std::vector<std::string> globs;  // kStarts, kModules
  std::vector<Span> glob_spans;
  int64_t stages = 0;  // kStages: number of stages
  Span span;
};
struct Schedule {
  std::string family;  // "" where csv is given
  std::string csv;     // path, relative to the strategy file
  std::optional<int64_t> microbatches, virtual_stages;
  std::string stages_tag = "PP";
  std::vector<Devices> ranks;  // empty: from place
  Span span, family_span;
};
// Parameters that are updated with numbers of their own; what is unset is the optimizer's.
struct GroupConfig {
  std::vector<std::string> match;  // globs
  std::vector<Span> match_spans;
  double lr_factor = 1;
  std::optional<double> weight_decay, beta1, beta2;
};
struct UpdateConfig {
  plan::OptimizerNumbers values;
  double weight_decay = 0;
  std::vector<std::string> no_decay;  // globs
  std::vector<Span> no_decay_spans;
  std::vector<GroupConfig> groups;  // the first that matches a parameter has it
};
struct OptimizerConfig : UpdateConfig {
  // For one that takes matrices: what updates the other parameters, and globs of those that it leaves to that.
  std::optional<UpdateConfig> rest;
  std::vector<std::string> except;
  std::vector<Span> except_spans;
  Span span;
};
struct PrecisionConfig {
  std::optional<DType> compute, master, reduce;
  bool dynamic = false;              // the loss scale follows the gradients
  std::optional<double> loss_scale;  // at the start; unset: not scaled
  std::vector<std::string> keep;     // globs
  std::vector<Span> keep_spans;
  Span span;
};
struct HeadConfig {
  bool off = false;
  int64_t blocks = 0;  // 0: where it pays
};
struct StreamConfig {  // resources, which CPU ranks do not have
  std::string name;
  plan::Priority priority = plan::Priority::kNormal;
  int64_t max_ctas = 0;  // 0: not said
  Span span;
};

struct Strategy {
  std::string file_name;  // base name
  std::string digested;   // the file's bytes and the --set overrides: what sha256() is of
  std::string sha256() const;
  bool bare_list = false;
  ModelConfig model;
  std::vector<Annotation> annotations;
  std::vector<Directive> directives;
  std::optional<std::string> needs_tag;  // needed_tag.h, of the directives as they were loaded
  int32_t ranks_per_node = 0;            // 0: not said
  std::optional<Schedule> schedule;
  std::vector<StreamConfig> streams;
  std::vector<Span> per_microbatch_spans;
  std::vector<std::string> per_microbatch;
  std::optional<OptimizerConfig> optimizer;
  plan::LrSchedule lr_schedule;
  double clip_grad_norm = 0;
  std::optional<PrecisionConfig> precision;
  HeadConfig head;
  plan::RunDefaults run;
  std::optional<plan::Evaluation> eval;  // what `perplexity` is, the model says
  Span clip_span, document_end_span, eval_span;
};

}  // namespace piper::strategy
