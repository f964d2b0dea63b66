// The state of following a step's contents (contents_flow.h), and its parts: runs, messages and
// collectives, updates, the end of the step. Internal to the verifier.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "schemas/base/status.h"
#include "schemas/plan/plan.h"
#include "schemas/verify/exchanges.h"
#include "schemas/verify/ledger.h"
#include "schemas/verify/meetings.h"
#include "schemas/verify/places.h"
#include "schemas/verify/program_bytes.h"
#include "schemas/verify/program_effects.h"
#include "schemas/verify/rank_contents.h"
#include "schemas/verify/rules.h"
#include "schemas/verify/sum_order.h"

namespace piper::verify {

class Flow {
 public:
  // `slots`: [program] what it reads and leaves in its slots.
  Flow(const plan::Bundle& bundle, Layouts& layouts, const std::vector<SlotLayouts>& slots);
  ~Flow();
  // `by_replicas`: at the cost of one of those that are alike (flow_replicas.h).
  Status play(bool by_replicas);
  // That of play(true) there is nothing to be concluded but from success of what was not `in_vain`.
  bool has_replicas() const { return num_replicas_ > 1; }
  int64_t num_replicas() const { return num_replicas_; }
  bool in_vain() const { return in_vain_; }
  // After play().
  OrdersOfSums orders_of_sums();
  Exchanges exchanges() const;

 private:
  // Parts of it by concern, each in a file of its own.
  class Begin;        // what a step begins with
  class Transfers;    // messages and collectives
  class StepProgram;  // a program that works on sums, norms and counters
  class Kept;         // what a step must leave
  class Replicas;     // ranks that do alike, as far as they do

  struct PlacedGradient {
    plan::BufferRange where;
    int64_t bytes = 0, origin = 0;  // origin: bytes from the start of the tensor's gradient
    int32_t tensor = -1;
    int64_t taken = 0;  // bytes that updates took
  };
  static constexpr size_t kNowhere = ~size_t{0};
  struct Rank {
    const plan::RankPlan* plan = nullptr;
    RankContents contents;
    size_t next = 0, stop = kNowhere;                        // it stops before that instruction
    bool arrived = false;                                    // at the collective at `next`
    uint32_t round = 0;                                      // ... which that is of its communicator
    std::map<int32_t, const std::vector<int64_t>*> scalars;  // by buffer: the first sample that it holds
    std::vector<PlacedGradient> gradients;                   // by place
    int32_t kept = Places::kWhole;                           // what its saved blocks are
  };
  struct Place {
    size_t rank = 0;
    int32_t instruction = -1;
  };

  // --- start and end of a step
  Status begin();
  Status check_end();
  std::vector<SampleRange> elements_updated() const;
  Status check_overflow(const Rank& rank, const std::vector<SampleRange>& updated);
  Status check_squares(const Rank& rank);
  Status check_loss();
  Status check_means();
  Status check_all_reported(const std::vector<plan::Mean>& means) const;
  Status check_dropped();
  Status check_measures(const std::vector<SampleRange>& updated) const;
  Status check_measured_gradients() const;
  Status check_addends() const;
  Status check_all_added() const;
  // Notes that a sum of this name is used, with which addends; "" or what it lacks.
  std::string use_sum(const std::string& name, const Sum& sum);

  // --- instructions
  Status advance(size_t rank, std::vector<size_t>& ready);
  Status run(Rank& rank, const plan::Run& run);
  // A program that works on sums, norms and counters, call by call.
  Status follow(Rank& rank, const ProgramEffects& effects, const plan::Program& program,
                const std::vector<plan::BufferRange>& arguments);
  Status update(Rank& rank, const plan::Update& update);
  struct Updating;  // a call of the optimizer, bound
  Result<Updating> bind_update(Rank& rank, const plan::KernelCall& call, int32_t group,
                               const std::vector<plan::BufferRange>& arguments) const;
  Status update(Rank& rank, const Updating& call, int32_t group);
  Status write_working(Rank& rank, const Updating& call, const Pieces& updated);
  bool scales() const { return bundle_.manifest.loss_scale > 0; }
  Place place_of(const Rank& rank) const;  // the instruction at `next`
  std::string take_overflow(const Rank& rank, const Pieces& pieces);
  // Gradients are measured with the addends with which others measured them; "" or what is wrong.
  std::string note_measured(const Rank& rank, const Pieces& gradients);
  static bool takes_placed_gradient(Rank& rank, const plan::BufferRange& where, int64_t bytes, int32_t tensor,
                                    int64_t origin);
  Status check_whole_matrix(Rank& rank, const Updating& call, const Pieces& parameter);
  // `tensor`: -1 where nothing is updated, as between parameters.
  Status check_moments(Rank& rank, const Updating& call, int32_t tensor, int64_t origin, int64_t done, int64_t bytes);

  // --- parts of a run
  struct Seen {
    int32_t samples = 0, parts = 0;
    int32_t at = -1;        // the part that others sent here
    bool scaled = false;    // the loss scale is among what was read, or entered it
    bool by_place = false;  // samples are counted by place (Value::by_place)
    int64_t of_piece = 0;   // samples that the program says it is for; 0: it says nothing
  };
  bool is_called(const Value& value, int32_t label);  // whether a slot of this label may have it
  bool is_made(int32_t label) const;                  // by a program
  Status check_no_value(const Rank& rank, const Content& content, const plan::BufferRange& where, int32_t label,
                        const std::string& slot);
  // What a rank has in a slot of a program, as the slot says it (Places); -1: it can have no such thing.
  int32_t spread_of(const Rank& rank, const plan::Slot& slot) const;
  Status check_spread(const Rank& rank, int32_t found, int32_t wanted, const std::string& slot) const;
  // `bound.what`: the label; `spread`: what of the value its slot wants.
  Status read_value(Rank& rank, const plan::BufferRange& where, const ProgramEffects::Bound& bound, int32_t spread,
                    const std::string& slot, Seen& seen);
  Status read_parameter(Rank& rank, const plan::BufferRange& where, int64_t bytes, int32_t tensor,
                        const std::string& slot, const Seen& seen);
  // `count` elements from `first` on are all of the tensor, or the part that belongs to the rows that were read; of a
  // tensor that is cut the part of the rank's place.
  Status check_part(const Rank& rank, int64_t first, int64_t count, int32_t tensor, const std::string& slot,
                    const Seen& seen) const;
  Status check_part_of_cut(const Rank& rank, int64_t first, int64_t count, int32_t tensor, const std::string& slot,
                           const Seen& seen) const;
  Status read_scalar(Rank& rank, const plan::BufferRange& where, int64_t bytes, int32_t label, const std::string& slot,
                     Seen& seen);
  Status read_constant(Rank& rank, const plan::BufferRange& where, ProgramEffects::Bound& bound,
                       const std::string& slot);
  // Running statistics, which a run brings forward by its samples.
  Status on_statistic(Rank& rank, const plan::BufferRange& where, const ProgramEffects::Bound& bound, bool updates,
                      const Seen& seen, const std::string& slot);
  // Elements are read as what they are.
  Status check_layout(Rank& rank, const plan::BufferRange& where, int64_t bytes, LayoutId wanted,
                      const std::string& slot);
  Status check_elements(const Rank& rank, const Pieces& pieces, DType dtype) const;
  Status on_sum(Rank& rank, const plan::BufferRange& where, int64_t bytes, const ProgramEffects::OnSum& what,
                const SlotLayout& layout, const Seen& seen, const std::string& slot);
  // Resolves which samples are in a piece of a value; -1 where a sample is cut.
  int32_t samples_of(const Value& value, const Piece& piece);

  // --- stories
  std::string here(const Rank& rank) const;  // the instruction at `next`
  Status refuted(Rule rule, const Rank& rank, const std::string& what) const;

  const plan::Bundle& bundle_;
  const Meetings meetings_;
  Layouts& layouts_;
  const std::vector<SlotLayouts>& slots_;  // [program]
  Names tensors_, constants_;
  std::vector<int64_t> first_element_;               // [tensor] when all elements are counted through
  std::vector<int64_t> num_elements_;                // [tensor]
  std::vector<int64_t> element_bytes_;               // [tensor] of what is trained
  std::vector<std::optional<DType>> working_types_;  // [tensor] of its copies that programs read
  Places places_;
  Ledger ledger_;
  std::vector<ProgramEffects> effects_;
  const std::vector<int32_t> like_;  // like_ranks.h
  int64_t num_replicas_ = 1;
  bool in_vain_ = false;
  bool asked_for_all_ = false;                              // whether a sum has all samples of the step
  std::vector<std::unique_ptr<BufferSlots>> buffer_slots_;  // of ranks that do the same work one
  std::vector<Rank> ranks_;

  std::unique_ptr<Transfers> transfers_;
  std::vector<Place> first_adder_;  // [addend]

  struct TakenGradient {
    std::vector<int32_t> addends;
    Place by;
  };
  // By tensor: what the first update, and the first measure (a norm, an overflow), of some of it were like.
  std::map<int32_t, TakenGradient> updated_, measured_gradients_;
  std::vector<SampleRange> updated_elements_;
  OrdersOfSums orders_;
  std::vector<char> made_;  // [label] a program makes it
  // Of a value that came by an exchange, or was added up over places: its label at readers, where no program makes such
  // a value -> its label at its arrival, and whether it was added up.
  std::map<int32_t, Arrived> exchanged_;
  // By name: the addends that every use of a sum of this name had.
  std::map<std::string, std::vector<int32_t>> used_sums_;
  std::set<Sum> checked_sums_;                   // of those that were read as values
  std::map<int32_t, std::string> sums_read_as_;  // label of a reader -> the name of the sums that it reads
  // By addend and what ranks keep (Places::kept): of how many samples were the runs that read none.
  std::map<std::pair<int32_t, int32_t>, int64_t> samples_unread_;
  std::map<int32_t, Place> measured_;  // by sum: where the first that clips or skips by it is
  Pieces scratch_, scratch_more_;
};

}  // namespace piper::verify
