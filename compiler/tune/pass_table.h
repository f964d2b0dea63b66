// The passes of a strategy as a table that a search can move: from its schedule, from `order` directives that name one
// pass of one stage on one microbatch in each filter, or, where nothing orders them, of the whole model as one stage.
// And back into a strategy's text.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/driver/compilation.h"
#include "compiler/strategy/families.h"

namespace piper::tune {

struct PassTable {
  strategy::ScheduleTable table;  // a row a device group; its slots run one after the other
  std::string tag;                // that numbers the stages; "": there is one stage, the whole model
  bool by_schedule = false;       // else the rows are the strategy's own orders, in the order of the file
};
// The passes of a compiled strategy; nothing where they are not ordered one by one, or where a hand-written slot fixes
// the order of its chunks.
std::optional<PassTable> pass_table_of(const driver::Compilation& c);

// `text` with the passes `old` replaced by those of `changed`: orders for orders, or for a schedule all that it stands
// for, as --expand prints it. Fails where strategy_text.h does.
Result<std::string> with_passes(const std::string& text, const driver::Compilation& c, const PassTable& old,
                                const strategy::ScheduleTable& changed, const std::string& comment);

}  // namespace piper::tune
