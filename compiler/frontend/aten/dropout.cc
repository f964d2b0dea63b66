#include "compiler/frontend/aten/dropout.h"

#include <xxhash.h>

#include <cmath>
#include <cstring>

#include "compiler/frontend/aten/table.h"

namespace piper::frontend::aten {

ValueId dropped(Call& c, ValueId x, double p) {
  ImportState& state = c.state();
  const std::string key = c.module() + "/" + std::to_string(state.dropouts[c.module()]++);
  const uint64_t hash = XXH64(key.data(), key.size(), 0);
  ir::DropoutAttrs attrs;
  attrs.p = p;
  std::memcpy(&attrs.key, &hash, sizeof attrs.key);
  return c.op(OpKind::kDropout, {x, state.graph->seed_step(), state.graph->sample_offset()}, attrs);
}

Item dropout(Call& c) {
  const ValueId x = c.tensor("input");
  const double p = c.real("p");
  const bool train = !c.has("train") || c.flag("train");
  if (p < 0 || p >= 1) return c.refuse("P0325", "dropout with probability " + std::to_string(p));
  return Item::of_tensor(train && p > 0 ? dropped(c, x, p) : x);
}
namespace {

// Ones and zeros of each element, or of each channel of a sample: multiplied by them, x is dropped. By comparison, so
// that they have the axes of x.
ValueId kept(Call& c, ValueId x, double p, bool channels) {
  if (channels && c.rank(x) < 2) c.fail("dropout of channels wants [N, C, ..]");
  for (int64_t axis = 2; channels && axis < c.rank(x); ++axis) x = c.slice(x, axis, 0, 1);
  const ValueId ones = c.cast(c.binary(OpKind::kEq, x, x), c.dtype(x));
  return c.binary(OpKind::kMul, dropped(c, c.op(OpKind::kDetach, {ones}), p), 1 - p);
}

// What is dropped becomes SELU's limit; mean and variance stay (ATen's _alpha_dropout_impl).
ValueId alpha_dropped(Call& c, ValueId x, double p, bool channels) {
  constexpr double kAlpha = 1.7580993408473766;
  const double a = 1 / std::sqrt((kAlpha * kAlpha * p + 1) * (1 - p));
  const ValueId keep = kept(c, x, p, channels);
  const ValueId shift = c.binary(OpKind::kMul, c.binary(OpKind::kSub, keep, 1 - p), kAlpha * a);
  return c.binary(OpKind::kAdd, c.binary(OpKind::kMul, x, c.binary(OpKind::kMul, keep, a)), shift);
}

template <class Dropped>
Item dropped_in_training(Call& c, const Dropped& with) {
  const ValueId x = c.tensor("input");
  const double p = c.real("p");
  if (!c.flag("train") || p == 0) return made(x);
  if (p < 0 || p >= 1) return c.refuse("P0325", "dropout with probability " + std::to_string(p));
  return made(with(x, p));
}

}  // namespace

Item feature_dropout(Call& c) {
  return dropped_in_training(c, [&](ValueId x, double p) {
    return c.binary(OpKind::kMul, x, c.binary(OpKind::kMul, kept(c, x, p, true), 1 / (1 - p)));
  });
}
Item alpha_dropout(Call& c) {
  return dropped_in_training(c, [&](ValueId x, double p) { return alpha_dropped(c, x, p, false); });
}
Item feature_alpha_dropout(Call& c) {
  return dropped_in_training(c, [&](ValueId x, double p) { return alpha_dropped(c, x, p, true); });
}

Item native_dropout(Call& c) { return Item::of_list({dropout(c), Item::none()}); }

}  // namespace piper::frontend::aten
