#include "schemas/verify/numbers/pieces.h"

#include <algorithm>

namespace piper::verify {
namespace {

bool reads_piece(const std::vector<View>& operands, const NumberTable& table) {
  return std::any_of(operands.begin(), operands.end(),
                     [&](const View& view) { return view.number >= 0 && table[view.number].over == Over::kPiece; });
}

}  // namespace

bool is_of_piece(const std::vector<View>& operands, const std::vector<RowResult>& rows, const NumberTable& table) {
  return reads_piece(operands, table) ||
         std::any_of(rows.begin(), rows.end(), [](const RowResult& row) { return row.over == Over::kUnknown; });
}

std::set<std::string> kernels_that_mix(const std::vector<int32_t>& made, const NumberTable& table) {
  std::set<std::string> kernels;
  for (const int32_t number : made)
    if (const Number& n = table[number]; n.over == Over::kPiece && !reads_piece(n.operands, table))
      kernels.insert(std::string(plan::kernel_name(n.by.kernel)));
  return kernels;
}

}  // namespace piper::verify
