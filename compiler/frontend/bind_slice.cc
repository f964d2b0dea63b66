#include "compiler/frontend/bind_slice.h"

#include <algorithm>

#include "compiler/frontend/instantiate.h"
#include "compiler/frontend/patterns/recognise.h"
#include "compiler/frontend/slice_of_step.h"

namespace piper::frontend {
namespace {

// The fewest samples at which a line through an extent begins.
constexpr int64_t kFew = 3;

// The samples that the file allows.
struct Allowed {
  int64_t least = 1, most = INT64_MAX;
};
Allowed allowed_samples(const ModelValues& values) {
  Allowed allowed;
  for (const ModelInput& input : values.inputs) {
    const auto range = input.symbols.empty() ? values.ranges.end() : values.ranges.find(input.symbols[0]);
    if (range == values.ranges.end()) continue;
    allowed.least = std::max(allowed.least, range->second.least);
    allowed.most = std::min(allowed.most, range->second.most);
  }
  return allowed;
}

BindRequest with_samples(BindRequest request, int64_t samples) {
  request.local_batch = samples;
  return request;
}

// Of a model at `samples`, against the whole.
Result<ir::Graph> slice_at(const BindRequest& request, int64_t samples, int64_t most, const Import& import,
                           diag::Diagnostics& diags) {
  PIPER_ASSIGN(ir::Graph piece, import(with_samples(request, samples), diags));
  SliceOfStep step{samples, std::min(request.step_batch, most), request.step_batch, request.per_piece};
  if (step.whole == samples && step.whole == step.step) return recognise(std::move(piece));
  if (step.whole == samples) --step.whole;  // what differs from the next lower number differs from the step's, too
  PIPER_ASSIGN(const ir::Graph whole, import(with_samples(request, step.whole), diags));
  PIPER_ASSIGN(piece, slice_of_step(std::move(piece), whole, step, diags));
  return recognise(std::move(piece));
}

}  // namespace

int64_t samples_like(const ModelValues& values, int64_t piece, int64_t step_batch) {
  const Allowed allowed = allowed_samples(values);
  if (piece >= step_batch || values.fixed_batch >= 0 || piece >= std::max<int64_t>(allowed.least, 2)) return piece;
  const int64_t few = std::max(kFew, allowed.least), wanted = few == step_batch ? few + 1 : few;
  return wanted + 2 <= allowed.most ? wanted : piece;
}

Result<ir::Graph> bind_slice(const ModelValues& values, const BindRequest& request, const Import& import,
                             diag::Diagnostics& diags) {
  const int64_t most = allowed_samples(values).most, piece = request.local_batch;
  if (request.step_batch <= piece || values.fixed_batch >= 0 || most < 2) {
    PIPER_ASSIGN(ir::Graph graph, import(request, diags));
    return recognise(std::move(graph));
  }
  const int64_t few = samples_like(values, piece, request.step_batch);
  if (few == piece) return slice_at(request, piece, most, import, diags);
  const int64_t many = few + 1 == request.step_batch ? few + 2 : few + 1;
  PIPER_ASSIGN(ir::Graph fewer, slice_at(request, few, most, import, diags));
  PIPER_ASSIGN(const ir::Graph more, slice_at(request, many, most, import, diags));
  std::optional<ir::Graph> one = instantiate(std::move(fewer), few, more, many, piece);
  if (one) return std::move(*one);
  auto error = diags.error("P0336");
  error << "the operators of " << values.base_name << ", or their extents, depend on the number of samples in a way "
        << "that does not say what a piece of " << piece << (piece == 1 ? " sample is" : " samples is");
  error.help("cut the batch into fewer pieces");
  return error;
}

}  // namespace piper::frontend
