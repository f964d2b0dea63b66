// A program that is being evaluated on numbers (program.h): what its slots and workspace hold, and the numbers of what
// its calls make. Used by those who evaluate calls: program.cc, and shared_calls.cc for what ranks share.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "schemas/plan/plan.h"
#include "schemas/verify/numbers/experts.h"
#include "schemas/verify/numbers/held.h"
#include "schemas/verify/numbers/number.h"
#include "schemas/verify/numbers/program.h"
#include "schemas/verify/numbers/rows.h"
#include "schemas/verify/numbers/ways_to_read.h"

namespace piper::verify {

// An operand of the call at hand.
struct OperandRead {
  View view;                    // its number may be unknown
  SpreadView where;             // of what ranks share, or of what belongs to an order of rows
  SpreadView places;            // HeldValue::places
  std::vector<WayToRead> ways;  // of a part of experts: all, those above are the first
  bool is_shared() const { return where.spread.is_spread(); }
  bool is_ordered() const { return where.spread.order.kind != RowOrder::Kind::kNone; }
};

// The attributes that have no extents of samples in them, as text.
std::string attrs_text(const plan::KernelCall& call, bool with_samples = false);
// All of a value of the output's shape, which has no samples of its own.
View as_rows(const plan::Operand& out, int32_t number);
// The same of a value that is repeated every `period` elements (HeldValue); 0: it is not.
View repeated_rows(const plan::Operand& out, int32_t number, int64_t period);
// The first operand of which nothing is known; -1: none.
int32_t unknown_among(const std::vector<View>& operands, const NumberTable& table);
// Whether the call adds its operand to an accumulator, and makes nothing itself.
bool adds_operand(const plan::KernelCall& call);

class Evaluation {
 public:
  // Both must outlive it.
  Evaluation(NumberedProgram& run, NumberTable& table) : run_(run), table_(table) {}

  NumberedProgram& run() { return run_; }
  NumberTable& table() { return table_; }
  // Those that follow are for this call of the program.
  void begin_call(int32_t call) { call_ = call; }
  // A number of which nothing is known because the call is one that no model has.
  int32_t unfit(const std::string& why) { return table_.unfit(why, run_.index, call_); }

  std::vector<OperandRead> read(const plan::KernelCall& call);
  // The value that holds all bytes of an operand, or nullptr.
  const HeldValue* held(const plan::Operand& operand);
  // `value`: how its elements lie there.
  void put(const plan::Operand& out, int32_t number, HeldValue value = {});
  // To an accumulator; of what becomes of anything else nothing is known. `share_over`: the view is what all places of
  // that cut add together, each its share.
  void add(const plan::Operand& out, View view, int32_t share_over = -1);
  // The same of what every place makes alike, of a gradient that is cut perhaps.
  void add_alike(const plan::Operand& out, View view);
  // An accumulator, after those calls of the program that read it.
  void clear(const plan::Operand& out);
  bool is_sum(const plan::Operand& operand) const;
  // Puts the result there, or adds it, as the call says.
  void keep(const plan::KernelCall& call, const plan::Operand& out, int32_t number, const HeldValue& held);

  // What the call's row says of its results, one for all or one for each; where nothing is known of them, their number
  // in `none`, which is -1 else. `samples`: that operands have, which may become totals.
  std::vector<RowResult> apply(const plan::KernelCall& call, std::vector<View>& operands, int64_t samples,
                               int32_t& none);
  // The number of output `i`; `held`: how it lies in its memory.
  int32_t made(const plan::KernelCall& call, std::vector<View> operands, const RowResult& result, size_t i,
               int64_t samples, HeldValue& held);

 private:
  void take_mask(std::vector<View>& operands);
  double pieces() const;  // of the step, each of the run's samples
  View shared(const View& view, double places);
  View times(View sum, Over over, double places);
  int32_t repetition(const plan::KernelCall& call, std::vector<View> operands, const RowResult& result, int64_t samples,
                     const std::vector<int64_t>& shape, const std::vector<bool>& repeated);
  std::optional<int32_t> sum_of_pieces(const plan::KernelCall& call, const std::vector<View>& operands,
                                       const RowResult& result, int64_t samples);
  std::vector<RowResult> apply_to_totals(const Row& row, const plan::KernelCall& call, std::vector<View>& operands,
                                         int64_t samples, std::vector<RowResult> results);
  HeldValues& slot(int32_t slot) { return slot < 0 ? workspace_ : run_.slots[static_cast<size_t>(slot)]; }
  OperandRead read(const plan::Operand& operand);
  OperandRead read_shared(const StridedElements& elements, const HeldValue& value, View view);
  std::string view_of_rows(const StridedElements& elements, const HeldValue& value, OperandRead& result);
  int32_t total(int32_t slot);

  NumberedProgram& run_;
  NumberTable& table_;
  HeldValues workspace_;
  int32_t call_ = 0;
};

}  // namespace piper::verify
