// Schedule families: pure functions (ranks, stages, microbatches) -> rows of slots. They know no
// graph and no device; the driver turns the rows into `order` directives. Formulas and their sources
// are in each family's file.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/strategy/strategy.h"
#include "schemas/base/status.h"

namespace piper::strategy {

struct Action {  // one pass of one stage on one microbatch
  int32_t stage = 0, microbatch = 0;
  Pass pass = Pass::kF;
  friend bool operator==(const Action&, const Action&) = default;
};
using Slot = std::vector<Action>;  // more than one action: they overlap
struct ScheduleTable {
  std::vector<std::vector<Slot>> rows;           // [rank][slot]; a rank of the family, 0..R-1
  std::vector<std::vector<int32_t>> stage_rank;  // [stage][microbatch] -> the rank whose row holds its passes
};
struct FamilyRequest {
  int32_t ranks = 0;  // 0: as many as the family has for these stages
  int32_t stages = 1, microbatches = 1;
  int32_t virtual_stages = 0;  // stages of a rank; 0: what ranks and stages give, else the family's own number
};
// Errors (message says which numbers would do): P0230 unknown family, P0231 precondition broken.
Result<ScheduleTable> expand_family(std::string_view family, const FamilyRequest& request);
std::vector<std::string_view> family_names();
// Sets table.stage_rank from the rows.
void fill_stage_ranks(ScheduleTable& table, int32_t stages, int32_t microbatches);
// PyTorch's pipeline table, one row a rank: "0F0,0F1,0B0". Round trip with the reader (P0233).
std::string print_csv(const ScheduleTable& table);
Result<ScheduleTable> parse_csv(std::string_view text);

}  // namespace piper::strategy
