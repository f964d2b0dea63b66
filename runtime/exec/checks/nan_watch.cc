#include "runtime/exec/checks/nan_watch.h"

#include <algorithm>
#include <utility>

namespace piper::exec {

namespace {

trace::NotFinite both(const trace::NotFinite& a, const trace::NotFinite& b) {
  return {a.nan || b.nan, a.infinite || b.infinite};
}

bool starts_where_an_output_does(const StepPiece& piece, const PlacedValue& input) {
  return std::any_of(piece.outputs.begin(), piece.outputs.end(),
                     [&](const PlacedValue& output) { return output.at == input.at; });
}

}  // namespace

Result<trace::NotFinite> NanWatch::look_at(const PlacedValue& value) {
  if (!is_floating(value.type.dtype)) return trace::NotFinite();
  PIPER_ASSIGN(const std::vector<std::byte> bytes, read_value(device_, value));
  return trace::find_not_finite(value.type, bytes.data());
}

Status NanWatch::before(const StepPiece& piece) {
  overwritten_ = {};
  if (piece.reads_outputs)
    for (const PlacedValue& output : piece.outputs) {
      PIPER_ASSIGN(const trace::NotFinite found, look_at(output));
      overwritten_ = both(overwritten_, found);
    }
  for (const PlacedValue& input : piece.inputs)
    if (starts_where_an_output_does(piece, input)) {
      PIPER_ASSIGN(const trace::NotFinite found, look_at(input));
      overwritten_ = both(overwritten_, found);
    }
  return {};
}

Result<trace::NotFinite> NanWatch::look_at_inputs(const StepPiece& piece) {
  trace::NotFinite all = overwritten_;
  for (const PlacedValue& input : piece.inputs) {
    if (starts_where_an_output_does(piece, input)) continue;
    PIPER_ASSIGN(const trace::NotFinite found, look_at(input));
    all = both(all, found);
  }
  return all;
}

Status NanWatch::after(const StepPiece& piece) {
  constexpr std::string_view kConstant = "fill";
  if (piece.kernel != nullptr && piece.kernel->kernel == kConstant) return {};
  // A message brings what another rank has made.
  if (piece.kernel == nullptr && piece.inputs.empty()) return {};
  for (const PlacedValue& output : piece.outputs) {
    PIPER_ASSIGN(const trace::NotFinite made, look_at(output));
    if (!made.any()) continue;
    PIPER_ASSIGN(const trace::NotFinite read, look_at_inputs(piece));
    const bool nan = made.nan && !read.nan, infinite = made.infinite && !read.any();
    if (nan || infinite) found_.push_back({{piece.instruction, piece.call, output.output}, nan, nan && read.infinite});
  }
  return {};
}

}  // namespace piper::exec
