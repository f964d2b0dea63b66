#include "compiler/driver/make_reference.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "compiler/directives/shard.h"
#include "compiler/driver/pipeline.h"
#include "compiler/emit/reference_program.h"
#include "compiler/strategy/directive_args.h"

namespace piper::driver {
namespace {

// Sizes of pieces of which neither is a multiple of the other, each one of two of its step: so that sums over a piece
// and over the step differ, and so do numbers that depend on the samples.
constexpr int32_t kPieces = 2;
constexpr int64_t kFewer = 3, kMore = 5;

// A step of so many pieces of so many samples.
struct Bound {
  int64_t samples = 0, pieces = 0;
  int64_t batch() const { return samples * pieces; }
};

Compilation one_device(const Compilation& c, const Bound& step) {
  Compilation one;
  one.strategy = c.strategy;
  leave_one_device(one.strategy);
  one.strategy.model.batch = step.batch();
  one.target = c.target;
  one.model = c.model;
  return one;
}

// The model through the passes in front of leave_exchanges.
struct Differentiated {
  ir::Graph graph;
  std::optional<ir::Graph> uncast;  // where the strategy has a precision: without insert_casts
};
Result<Differentiated> differentiated(const Compilation& c, const Bound& step, diag::Diagnostics& diags) {
  Compilation one = one_device(c, step), other = one_device(c, step);
  const ir::Precision& precision = one.module.precision;
  bool casts = false;
  for (const Pass& pass : pipeline()) {
    if (pass.name == "leave_exchanges") break;
    if (casts) PIPER_RETURN_IF_ERROR(pass.run(other, diags));
    if (pass.name == "insert_casts" && (precision.compute || precision.master)) {
      casts = true;
      other.module = one.module;
      // The scale of the loss is a factor in the model's step, and no rounding.
      for (ir::ModelVariant& variant : other.module.variants)
        if (precision.scales()) (void)variant.chunked.graph.loss_scale();
    }
    PIPER_RETURN_IF_ERROR(pass.run(one, diags));
    if (pass.name == "choose_step") one.module.step.num_microbatches = static_cast<int32_t>(step.pieces);
  }
  if (one.module.variants.size() != 1) return Status::failure("", "it has no piece of its own");
  Differentiated result{std::move(one.module.variants[0].chunked.graph), std::nullopt};
  if (casts) result.uncast = std::move(other.module.variants[0].chunked.graph);
  return result;
}

struct References {
  plan::Reference reference;
  std::optional<plan::Reference> uncast;
};
// A capacity drops rows of a piece, on one device as on many.
bool bounds_rows(const strategy::Directive& directive) {
  return directive.spec == &directives::shard_spec() &&
         strategy::find_arg<strategy::Capacity>(directive, "capacity") != nullptr;
}

// For any number of samples.
Result<References> of_samples(const Compilation& c, diag::Diagnostics& diags) {
  if (c.model->fixed_batch() > 0) return Status::failure("", "the model's batch is fixed");
  if (!c.strategy.per_microbatch.empty()) return Status::failure("", "per_microbatch makes the loss one of pieces");
  if (std::any_of(c.strategy.directives.begin(), c.strategy.directives.end(), bounds_rows))
    return Status::failure("", "a capacity drops rows of pieces");
  const int64_t least = std::max<int64_t>(c.model->declared_min_batch(), 1) - 1;
  const Bound few{kFewer + least, kPieces}, many{kMore + least, kPieces};
  PIPER_ASSIGN(const Differentiated fewer, differentiated(c, few, diags));
  PIPER_ASSIGN(const Differentiated more, differentiated(c, many, diags));
  const auto merged = [&](const ir::Graph& a, const ir::Graph& b) {
    return emit::merge_references(emit::reference_program(a, few.samples, few.batch()),
                                  emit::reference_program(b, many.samples, many.batch()));
  };
  References result;
  PIPER_ASSIGN(result.reference, merged(fewer.graph, more.graph));
  if (fewer.uncast) {
    PIPER_ASSIGN(result.uncast, merged(*fewer.uncast, *more.uncast));
  }
  return result;
}

// A reference for the strategy's own pieces: for models whose results depend on which samples share a piece, as batch
// statistics do.
Result<References> of_pieces(const Compilation& c, diag::Diagnostics& diags) {
  if (c.module.variants.size() != 1) return Status::failure("", "pieces are of several sizes");
  const int64_t samples = c.module.variants[0].local_batch;
  const Bound step{samples, c.module.step.batch / samples};
  PIPER_ASSIGN(const Differentiated made, differentiated(c, step, diags));
  const auto reference = [&](const ir::Graph& graph) {
    return emit::reference_for_pieces(emit::reference_program(graph, samples, step.batch()));
  };
  References result;
  PIPER_ASSIGN(result.reference, reference(made.graph));
  if (made.uncast) {
    PIPER_ASSIGN(result.uncast, reference(*made.uncast));
  }
  return result;
}

// What of a token stream the manifest feeds to the inputs that the model reads.
std::vector<plan::Reference::Input> feeds_of(const plan::Program& program, const plan::Manifest& manifest) {
  std::vector<plan::Reference::Input> feeds;
  for (size_t s = 0; s < program.slots.size(); ++s)
    for (const plan::InputDecl& input : manifest.inputs)
      if (program.slots[s].role == plan::SlotRole::kInput && input.name == program.slots[s].name &&
          input.feed != plan::Feed::kNone)
        feeds.push_back({static_cast<int32_t>(s), input.feed});
  return feeds;
}

}  // namespace

void leave_one_device(strategy::Strategy& strategy) {
  std::erase_if(strategy.directives, [](const strategy::Directive& directive) { return !bounds_rows(directive); });
  for (strategy::Directive& shard : strategy.directives) {
    shard.args[strategy::arg_index(*shard.spec, "devices")] = std::vector<strategy::Devices>{{{0}, shard.span}};
    shard.args[strategy::arg_index(*shard.spec, "stream")] = std::monostate();
  }
  if (strategy.directives.empty()) strategy.annotations.clear();
  strategy.streams.clear();
  strategy.schedule.reset();
}

Status make_reference(Compilation& c, diag::Diagnostics& diags) {
  if (c.model == nullptr) return {};  // a module read from text
  diag::Diagnostics unheard = diags;  // what can be said of the model was said when the plans were made
  auto made = of_samples(c, unheard);
  if (!made.ok()) {
    const std::string why = made.error().message;
    made = of_pieces(c, unheard);
    if (!made.ok()) {
      diags.remark("the bundle has no reference, and equality with the model is not proved: " + why + "; " +
                   made.error().message);
      return {};
    }
  }
  plan::Bundle& bundle = c.emitted.bundle;
  PIPER_ASSIGN(bundle.constants, plan::constant_contents(c.emitted.constants));
  made->reference.inputs = feeds_of(made->reference.program, bundle.manifest);
  bundle.reference.push_back(std::move(made->reference));
  if (made->uncast) bundle.reference.push_back(std::move(*made->uncast));
  return {};
}

}  // namespace piper::driver
