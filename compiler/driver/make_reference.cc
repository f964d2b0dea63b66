#include "compiler/driver/make_reference.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "compiler/directives/place.h"
#include "compiler/directives/shard.h"
#include "compiler/driver/pipeline.h"
#include "compiler/emit/reference_program.h"
#include "compiler/evaluation/keep_forwards.h"
#include "compiler/passes/normalise_losses.h"
#include "compiler/analysis/track_batch.h"
#include "compiler/strategy/directive_args.h"
#include "schemas/plan/attrs.h"

namespace piper::driver {

// A step of so many pieces of so many samples. Of one piece nothing is cut, and nothing is asked of which axis of a
// value numbers the samples.
struct Bound {
  int64_t samples = 0, pieces = 1;
  int64_t batch() const { return samples * pieces; }
};
// The model through the passes before leave_exchanges.
struct Differentiated {
  ir::Graph graph;
  std::optional<ir::Graph> uncast;  // where the strategy has a precision: without insert_casts
  bool adds_up = true;              // the loss is a sum over samples
};
// The model for whole steps of two sizes.
struct TwoSizes {
  Bound few, many;
  Differentiated fewer, more;
};

struct WholeSteps {
  Result<TwoSizes> of_two_sizes;
};

namespace {

// Steps of so many samples, neither a multiple of the other, so that numbers that depend on the samples differ.
constexpr int64_t kFewer = 3, kMore = 5;

Compilation one_device(const Compilation& c, const Bound& step) {
  Compilation one;
  one.strategy = c.strategy;
  leave_one_device(one.strategy);
  one.strategy.model.batch = step.batch();
  one.target = c.target;
  one.model = c.model;
  return one;
}

// Whether the loss, and so each gradient, is a sum over samples. It decides only which reference a step of one piece
// has.
bool adds_up(const ir::Module& module) {
  const ir::ModelVariant& variant = module.variants[0];
  ir::Graph graph = variant.chunked.graph;
  diag::Diagnostics unheard;
  return passes::normalise_losses(graph, analysis::track_batch(variant), {2, true, {}}, {}, unheard).ok();
}

// Where experts are divided over the places of a cut, each place bounds the rows of its own part of the tokens. How
// many places do, where all bounds of the strategy are of as many; 1: none does.
int64_t places_that_bound(const ir::Distribution& distribution) {
  int64_t places = 0;
  for (size_t shard = 0; shard < distribution.expert_groups.size(); ++shard) {
    if (!distribution.expert_groups[shard].bound) continue;
    const int32_t cut = distribution.cut_of_experts(static_cast<int32_t>(shard));
    const int64_t here = cut < 0 ? 1 : distribution.cuts[static_cast<size_t>(cut)].places();
    if (places > 0 && here != places) return 1;
    places = here;
  }
  return std::max<int64_t>(places, 1);
}

Result<Differentiated> differentiated(const Compilation& c, const Bound& step, const diag::Diagnostics& diags) {
  diag::Diagnostics unheard = diags;  // what can be said of the model was said when the plans were made
  Compilation one = one_device(c, step), other = one_device(c, step);
  const ir::Precision& precision = one.module.precision;
  const int64_t places = places_that_bound(c.module.distribution);
  bool casts = false, sum = true;
  for (const Pass& pass : pipeline()) {
    for (ir::Module* const module : {&one.module, &other.module})
      for (ir::ExpertGroups& shard : module->distribution.expert_groups)
        if (shard.bound) shard.bound->places = places;
    if (pass.name == "leave_exchanges") break;
    if (pass.name == "normalise_losses" && step.pieces == 1) sum = adds_up(one.module);
    if (casts) PIPER_RETURN_IF_ERROR(pass.run(other, unheard));
    if (pass.name == "insert_casts" && (precision.compute || precision.master)) {
      casts = true;
      other.module = one.module;
      // The scale of the loss is a factor in the model's step, and no rounding.
      for (ir::ModelVariant& variant : other.module.variants)
        if (precision.scales()) (void)variant.chunked.graph.loss_scale();
    }
    PIPER_RETURN_IF_ERROR(pass.run(one, unheard));
    if (pass.name == "choose_step") one.module.step.num_microbatches = static_cast<int32_t>(step.pieces);
  }
  if (one.module.variants.size() != 1)
    return Status::failure("", "the model is compiled for several numbers of samples");
  Differentiated result{std::move(one.module.variants[0].chunked.graph), std::nullopt, sum};
  if (casts) result.uncast = std::move(other.module.variants[0].chunked.graph);
  return result;
}

// What an evaluation of it computes.
Result<Differentiated> forwards_of(const Compilation& c, const Differentiated& model, int64_t samples,
                                   const diag::Diagnostics& diags) {
  diag::Diagnostics unheard = diags;
  Differentiated forwards;
  PIPER_ASSIGN(forwards.graph, evaluation::forwards_of(model.graph, samples, c.strategy.eval_span, unheard));
  if (model.uncast) {
    PIPER_ASSIGN(forwards.uncast, evaluation::forwards_of(*model.uncast, samples, c.strategy.eval_span, unheard));
  }
  return forwards;
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

Result<TwoSizes> of_two_sizes(const Compilation& c, const diag::Diagnostics& diags) {
  if (c.model->fixed_batch() > 0) return Status::failure("", "the model's batch is fixed");
  if (!c.strategy.per_microbatch.empty())
    return Status::failure("", "per_microbatch computes terms of the loss for each microbatch separately");
  if (std::any_of(c.strategy.directives.begin(), c.strategy.directives.end(), bounds_rows))
    return Status::failure("", "a capacity drops tokens of each microbatch separately");
  const int64_t least = std::max<int64_t>(c.model->declared_min_batch(), 1) - 1;
  TwoSizes model{{kFewer + least}, {kMore + least}, {}, {}};
  PIPER_ASSIGN(model.fewer, differentiated(c, model.few, diags));
  PIPER_ASSIGN(model.more, differentiated(c, model.many, diags));
  return model;
}

std::shared_ptr<const WholeSteps> whole_steps(const Compilation& c, const diag::Diagnostics& diags) {
  return std::make_shared<const WholeSteps>(WholeSteps{of_two_sizes(c, diags)});
}

// For any number of samples. `step`: the model at the strategy's own number, where constants are those of the step.
Result<References> of_samples(const TwoSizes& model, const Differentiated* step, int64_t batch) {
  const auto merged = [&](const ir::Graph& fewer, const ir::Graph& more, const ir::Graph* whole) {
    const auto few = emit::reference_program(fewer, model.few.samples);
    const auto many = emit::reference_program(more, model.many.samples);
    return whole == nullptr ? emit::merge_references(few, many)
                            : emit::merge_references(few, many, emit::reference_program(*whole, batch));
  };
  References result;
  PIPER_ASSIGN(result.reference, merged(model.fewer.graph, model.more.graph, step == nullptr ? nullptr : &step->graph));
  if (model.fewer.uncast) {
    PIPER_ASSIGN(result.uncast,
                 merged(*model.fewer.uncast, *model.more.uncast, step == nullptr ? nullptr : &*step->uncast));
  }
  return result;
}

// A reference for the strategy's own pieces. It says what they compute and not what the whole batch does, so it is for
// the steps of is_of_pieces alone.
Result<References> of_pieces(const Differentiated& model, const Bound& step) {
  const auto reference = [&](const ir::Graph& graph) {
    return emit::reference_for_pieces(emit::reference_program(graph, step.samples));
  };
  References result;
  PIPER_ASSIGN(result.reference, reference(model.graph));
  if (model.uncast) {
    PIPER_ASSIGN(result.uncast, reference(*model.uncast));
  }
  return result;
}

// Says so of the orders in a reference for pieces of so many samples.
void bound_parts(plan::Reference& reference, const ir::Distribution& distribution, int64_t samples) {
  const int64_t places = places_that_bound(distribution);
  if (places == 1) return;
  for (plan::KernelCall& call : reference.program.calls) {
    if (call.kernel != plan::Kernel::kExpertOrder) continue;
    const auto* const capacity = plan::find_attr<int64_t>(call, "capacity");
    const int64_t rows = call.inputs[0].shape[0];
    if (capacity == nullptr || *capacity >= rows || rows % (samples * places) != 0) continue;
    call.attrs.push_back({plan::kPartsOfRows, places});
    call.attrs.push_back({plan::kRowsOfPart, rows / samples / places});
  }
}

// Rows of a piece in the order of their experts are of all its samples together, and no number of samples says where.
bool orders_rows(const ir::Graph& graph) {
  for (size_t i = 0; i < graph.num_ops(); ++i)
    if (graph.op(ir::OpId(i)).kind == ir::OpKind::kExpertOrder) return true;
  return false;
}

// Whether pieces may be held to the model each by itself: the step is one piece, or the strategy, or the file, asks for
// a computation of pieces, which no step of the whole batch is, or experts order the rows of pieces.
bool is_of_pieces(const Compilation& c, const Bound& step) {
  return step.pieces == 1 || c.model->fixed_batch() > 0 || !c.strategy.per_microbatch.empty() ||
         std::any_of(c.strategy.directives.begin(), c.strategy.directives.end(), bounds_rows) ||
         orders_rows(c.module.variants[0].chunked.graph);
}

bool has_constants_of_samples(const References& references) {
  const auto& constants = references.reference.constants;
  return std::any_of(constants.begin(), constants.end(), [](const auto& constant) { return constant.has_samples(); });
}

enum class Part { kStep, kEvaluation };

Result<References> references(const Compilation& c, const Result<TwoSizes>& sizes, Part part,
                              const diag::Diagnostics& diags) {
  // All samples of a step that is one piece are there, so kernels may read them together.
  const int64_t batch = c.module.step.batch;
  const bool is_one_piece = std::all_of(c.module.variants.begin(), c.module.variants.end(),
                                        [&](const ir::ModelVariant& variant) { return variant.local_batch == batch; });
  const auto merged = [&](const TwoSizes& model) -> Result<References> {
    auto made = of_samples(model, nullptr, batch);
    if (is_one_piece && made.ok() && has_constants_of_samples(*made))
      return Status::failure("", "it has constants for each sample");
    if (is_one_piece || made.ok()) return made;
    PIPER_ASSIGN(Differentiated step, differentiated(c, {batch}, diags));
    if (part == Part::kEvaluation) {
      PIPER_ASSIGN(step, forwards_of(c, step, batch, diags));
    }
    return of_samples(model, &step, batch);
  };
  const auto made_of_samples = [&]() -> Result<References> {
    if (!sizes.ok()) return sizes.status();
    if (is_one_piece && !sizes->fewer.adds_up) return Status::failure("", "it reads samples together");
    if (part == Part::kStep) return merged(*sizes);
    TwoSizes forwards{sizes->few, sizes->many, {}, {}};
    PIPER_ASSIGN(forwards.fewer, forwards_of(c, sizes->fewer, sizes->few.samples, diags));
    PIPER_ASSIGN(forwards.more, forwards_of(c, sizes->more, sizes->many.samples, diags));
    return merged(forwards);
  };
  const auto made_of_pieces = [&]() -> Result<References> {
    if (c.module.variants.size() != 1)
      return Status::failure("", "replicas of different stages get different numbers of samples");
    const int64_t samples = c.module.variants[0].local_batch;
    const Bound step{samples, c.module.step.batch / samples};
    if (!is_of_pieces(c, step))
      return Status::failure("", "one microbatch alone does not compute what the model computes");
    PIPER_ASSIGN(Differentiated model, differentiated(c, step, diags));
    if (part == Part::kEvaluation) {
      PIPER_ASSIGN(model, forwards_of(c, model, samples, diags));
    }
    PIPER_ASSIGN(References made, of_pieces(model, step));
    bound_parts(made.reference, c.module.distribution, samples);
    if (made.uncast) bound_parts(*made.uncast, c.module.distribution, samples);
    return made;
  };
  auto made = made_of_samples();
  if (made.ok()) return made;
  auto of_one_size = made_of_pieces();
  if (of_one_size.ok()) return of_one_size;
  return Status::failure("", made.error().message + "; " + of_one_size.error().message);
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

// On device 0. Shards say it of their experts alone.
strategy::Directive place_all(const diag::Span& span) {
  strategy::Directive place;
  place.spec = &directives::place_spec();
  place.span = span;
  place.args.resize(place.spec->args.size());
  place.arg_spans.resize(place.spec->args.size(), span);
  place.args[strategy::arg_index(*place.spec, "filter")] = strategy::Filter();
  place.args[strategy::arg_index(*place.spec, "devices")] = strategy::Devices{{0}, span};
  return place;
}

}  // namespace

void leave_one_device(strategy::Strategy& strategy) {
  std::erase_if(strategy.directives, [](const strategy::Directive& directive) { return !bounds_rows(directive); });
  for (strategy::Directive& shard : strategy.directives) {
    shard.args[strategy::arg_index(*shard.spec, "devices")] = std::vector<strategy::Devices>{{{0}, shard.span}};
    shard.args[strategy::arg_index(*shard.spec, "over")] = std::monostate();
    shard.args[strategy::arg_index(*shard.spec, "stream")] = std::monostate();
  }
  if (strategy.directives.empty()) strategy.annotations.clear();
  else strategy.directives.push_back(place_all(strategy.directives.front().span));
  strategy.streams.clear();
  strategy.head = {true, 0};
  strategy.schedule.reset();
}

void begin_reference(Compilation& c, const diag::Diagnostics& diags) {
  auto of = std::make_shared<Compilation>();  // passes change what the strategy says
  of->strategy = c.strategy;
  of->target = c.target;
  of->model = c.model;
  c.whole_steps = Ahead<std::shared_ptr<const WholeSteps>>([of, diags] { return whole_steps(*of, diags); });
}

Status make_reference(Compilation& c, diag::Diagnostics& diags) {
  if (c.model == nullptr) return {};  // a module read from text
  const std::shared_ptr<const WholeSteps> steps = c.whole_steps.valid() ? c.whole_steps.get() : whole_steps(c, diags);
  const Result<TwoSizes>& sizes = steps->of_two_sizes;
  plan::Bundle& bundle = c.emitted.bundle;
  const auto put = [&](plan::Bundle& to, Part part, const std::string& of) -> Status {
    auto made = references(c, sizes, part, diags);
    if (!made.ok()) {
      c.no_reference = made.error().message;
      diags.remark("the " + of +
                   " has no reference, and equality with the model is not proved: " + made.error().message);
      return {};
    }
    PIPER_ASSIGN(to.constants, plan::constant_contents(c.emitted.constants));
    made->reference.inputs = feeds_of(made->reference.program, to.manifest);
    to.reference.push_back(std::move(made->reference));
    if (made->uncast) to.reference.push_back(std::move(*made->uncast));
    return {};
  };
  PIPER_RETURN_IF_ERROR(put(bundle, Part::kStep, "bundle"));
  for (plan::Bundle& evaluation : bundle.evaluation)
    PIPER_RETURN_IF_ERROR(put(evaluation, Part::kEvaluation, "evaluation"));
  return {};
}

}  // namespace piper::driver
