#include "compiler/frontend/aten/dropout.h"

#include <xxhash.h>

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
  const int64_t elements = c.type(x).elements();
  if (state.local_batch > 0 && elements % state.local_batch == 0) {
    attrs.batch = state.local_batch;
    attrs.inner = elements / state.local_batch;
  } else {
    attrs.inner = elements;
  }
  return c.op(OpKind::kDropout, {x, state.graph->seed_step(), state.graph->sample_offset()}, attrs);
}

Item dropout(Call& c) {
  const ValueId x = c.tensor("input");
  const double p = c.real("p");
  const bool train = !c.has("train") || c.flag("train");
  if (p < 0 || p >= 1) return c.refuse("P0325", "dropout with probability " + std::to_string(p));
  return Item::of_tensor(train && p > 0 ? dropped(c, x, p) : x);
}
Item native_dropout(Call& c) { return Item::of_list({dropout(c), Item::none()}); }

}  // namespace piper::frontend::aten
