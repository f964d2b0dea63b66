#include "compiler/frontend/bind_slice.h"

#include <algorithm>
#include <map>
#include <optional>

#include "compiler/frontend/experts/recognise_sorted.h"
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

// As imported at `samples`. A sort of all rows, which depends on them all, is an order of experts.
Result<ir::Graph> import_at(const BindRequest& request, int64_t samples, const Import& import,
                            diag::Diagnostics& diags) {
  PIPER_ASSIGN(ir::Graph graph, import(with_samples(request, samples), diags));
  return experts::recognise_sorted(std::move(graph));
}

// The whole step as imported, by its samples: pieces of two sizes are slices of one.
using Wholes = std::map<int64_t, ir::Graph>;

// For a model at `samples`, against the whole.
Result<ir::Graph> slice_at(const BindRequest& request, int64_t samples, int64_t most, const Import& import,
                           Wholes& wholes, diag::Diagnostics& diags) {
  PIPER_ASSIGN(ir::Graph piece, import_at(request, samples, import, diags));
  SliceOfStep step{samples, std::min(request.step_batch, most), request.step_batch, request.per_piece};
  if (step.whole == samples && step.whole == step.step && !request.cut) return recognise(std::move(piece));
  if (step.whole == samples) --step.whole;  // what differs from the next lower number differs from the step's, too
  auto whole = wholes.find(step.whole);
  if (whole == wholes.end()) {
    PIPER_ASSIGN(ir::Graph imported, import_at(request, step.whole, import, diags));
    whole = wholes.emplace(step.whole, std::move(imported)).first;
  }
  PIPER_ASSIGN(piece, slice_of_step(std::move(piece), whole->second, step, diags));
  return recognise(std::move(piece));
}

// As at two other numbers of samples, by a line through each extent; nullopt where that is none, or the file allows no
// such numbers. `least`: below it extents meet the batch's by chance.
Result<std::optional<BoundGraph>> like_larger_pieces(const BindRequest& request, int64_t least, int64_t most,
                                                     const Import& import, Wholes& wholes, diag::Diagnostics& diags) {
  const int64_t piece = request.local_batch, step = request.step_batch;
  const int64_t few = least == step ? least + 1 : least, many = few + 1 == step ? few + 2 : few + 1;
  if (many > most) return std::optional<BoundGraph>();
  PIPER_ASSIGN(ir::Graph fewer, slice_at(request, few, most, import, wholes, diags));
  PIPER_ASSIGN(const ir::Graph more, slice_at(request, many, most, import, wholes, diags));
  std::optional<ir::Graph> made = instantiate(fewer, few, more, many, piece);
  if (!made) return std::optional<BoundGraph>();
  return std::optional<BoundGraph>({std::move(*made), BoundGraph::Like{few, std::move(fewer)}});
}

Status not_on_a_line(const std::string& file, int64_t piece, diag::Diagnostics& diags) {
  auto error = diags.error("P0336");
  error << "the operators of " << file << ", or their extents, depend on the number of samples in a way "
        << "that does not say what " << piece << (piece == 1 ? " sample computes" : " samples compute");
  error.help("use fewer microbatches or fewer replicas");
  return error;
}

}  // namespace

Result<BoundGraph> bind_slice(const ModelValues& values, const BindRequest& request, const Import& import,
                              diag::Diagnostics& diags) {
  const auto [least, most] = allowed_samples(values);
  const int64_t piece = request.local_batch;
  if (request.step_batch <= 0 || request.step_batch == piece || values.fixed_batch >= 0 || most < 2) {
    // A piece of all samples beside smaller ones says which axes are the batch, as they do. Where it cannot, it is the
    // model as imported.
    if (request.cut && values.fixed_batch < 0 && piece > std::max(kFew, least)) {
      Wholes wholes;
      diag::Diagnostics heard = diags;
      if (Result<ir::Graph> graph = slice_at(request, piece, most, import, wholes, heard); graph.ok()) {
        diags = std::move(heard);
        return BoundGraph{std::move(graph).value(), std::nullopt};
      }
    }
    PIPER_ASSIGN(ir::Graph graph, import(request, diags));
    return BoundGraph{recognise(std::move(graph)), std::nullopt};
  }
  Wholes wholes;
  const int64_t larger = std::max({kFew, least, piece + 1});
  if (piece < std::max<int64_t>(least, 2) && larger + 2 <= most) {
    PIPER_ASSIGN(std::optional<BoundGraph> made, like_larger_pieces(request, larger, most, import, wholes, diags));
    if (made) return std::move(*made);
    return not_on_a_line(values.base_name, piece, diags);
  }
  diag::Diagnostics heard = diags, unheard = diags;
  Result<ir::Graph> graph = slice_at(request, piece, most, import, wholes, heard);
  // An extent of the model may be the piece's by chance, and an operator of the whole is none for the piece.
  if (!graph.ok() && graph.error().code == "P0336")
    if (auto made = like_larger_pieces(request, larger, most, import, wholes, unheard); made.ok() && made.value()) {
      diags = std::move(unheard);
      return std::move(*made.value());
    }
  diags = std::move(heard);
  PIPER_RETURN_IF_ERROR(graph.take_status());
  return BoundGraph{std::move(graph).value(), std::nullopt};
}

}  // namespace piper::frontend
