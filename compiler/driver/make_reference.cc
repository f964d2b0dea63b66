#include "compiler/driver/make_reference.h"

#include <algorithm>

#include "compiler/driver/pipeline.h"
#include "compiler/emit/reference_program.h"

namespace piper::driver {
namespace {

// Sizes of pieces of which neither is a multiple of the other, each one of two of its step: so that sums over a piece
// and over the step differ, and so do numbers that depend on the samples.
constexpr int32_t kPieces = 2;
constexpr int64_t kFewer = 3, kMore = 5;

// The model through the passes in front of leave_exchanges.
Result<ir::Graph> differentiated(const Compilation& c, int64_t samples, diag::Diagnostics& diags) {
  Compilation one;
  one.strategy = c.strategy;
  leave_one_device(one.strategy);
  one.strategy.model.batch = kPieces * samples;
  one.target = c.target;
  one.model = c.model;
  for (const Pass& pass : pipeline()) {
    if (pass.name == "leave_exchanges") break;
    PIPER_RETURN_IF_ERROR(pass.run(one, diags));
    if (pass.name == "choose_step") one.module.step.num_microbatches = kPieces;
  }
  if (one.module.variants.size() != 1) return Status::failure("", "it has no piece of its own");
  return std::move(one.module.variants[0].chunked.graph);
}

Result<plan::Reference> reference_of(const Compilation& c, const diag::Diagnostics& diags) {
  if (c.model->fixed_batch() > 0) return Status::failure("", "the model's batch is fixed");
  if (!c.strategy.per_microbatch.empty()) return Status::failure("", "per_microbatch makes the loss one of pieces");
  const int64_t least = std::max<int64_t>(c.model->declared_min_batch(), 1) - 1;
  diag::Diagnostics unheard = diags;  // what can be said of the model was said when the plans were made
  PIPER_ASSIGN(const ir::Graph fewer, differentiated(c, kFewer + least, unheard));
  PIPER_ASSIGN(const ir::Graph more, differentiated(c, kMore + least, unheard));
  return emit::merge_references(emit::reference_program(fewer, kFewer + least, kPieces * (kFewer + least)),
                                emit::reference_program(more, kMore + least, kPieces * (kMore + least)));
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
  strategy.directives.clear();
  strategy.annotations.clear();
  strategy.streams.clear();
  strategy.schedule.reset();
}

Status make_reference(Compilation& c, diag::Diagnostics& diags) {
  if (c.model == nullptr) return {};  // a module read from text
  auto reference = reference_of(c, diags);
  if (!reference.ok()) {
    diags.remark("the bundle has no reference, and equality with the model is not proved: " +
                 reference.error().message);
    return {};
  }
  PIPER_ASSIGN(c.emitted.bundle.constants, plan::constant_contents(c.emitted.constants));
  reference->inputs = feeds_of(reference->program, c.emitted.bundle.manifest);
  c.emitted.bundle.reference.push_back(std::move(reference).value());
  return {};
}

}  // namespace piper::driver
