#include "runtime/exec/checks/nan_replay.h"

#include <algorithm>
#include <cstdio>
#include <sstream>
#include <utility>

#include "runtime/trace/digest_values.h"
#include "schemas/checkpoint/find_checkpoint.h"

namespace piper::exec {

namespace {

constexpr std::string_view kFromStart = "start";

auto key(const NanMaker& maker) {
  return std::tuple(maker.place.instruction, maker.place.call, maker.place.output, maker.nan);
}

// One fact a line.
std::string encode(bool lost, bool broken, const std::string& input, const std::vector<NanMaker>& made) {
  std::ostringstream text;
  if (lost) text << "lost\n";
  if (broken) text << "broken\n";
  if (!input.empty()) text << "input " << input << '\n';
  for (const NanMaker& maker : made)
    text << "made " << maker.place.instruction << ' ' << maker.place.call << ' ' << maker.place.output << ' '
         << maker.nan << ' ' << maker.of_infinity << '\n';
  return text.str();
}

const char* word(bool nan) { return nan ? "NaN" : "infinity"; }

}  // namespace

NanReplay::NanReplay(Session& session, LoadedRank& rank, hal::ControlChannel& control, Executor& executor,
                     int64_t data_shift)
    : session_(session),
      rank_(rank),
      control_(control),
      executor_(executor),
      wait_{&session.stop, session.options.timeout},
      data_shift_(data_shift),
      watch_(rank.device()) {}

// Rank 0 checks the newest checkpoint and says which one it is. `why_not`: on every rank, where it cannot be read.
Status NanReplay::load_start(int64_t committed, std::string& why_not) {
  std::string told(kFromStart), failure;
  if (control_.rank() == 0 && committed > 0) {
    auto found = checkpoint::find_exact(session_.checkpoint_folder, committed);
    if (found.ok()) told = std::to_string(committed) + " " + found->manifest().digest;
  }
  PIPER_ASSIGN(const std::vector<std::string> all, control_.allgather(told, hal::for_files(wait_)));
  if (all.front() != kFromStart) {
    std::istringstream in(all.front());
    std::string digest;
    in >> start_ >> digest;
    auto opened = checkpoint::OpenCheckpoint::open(session_.checkpoint_folder + "/" + checkpoint::step_folder(start_));
    if (!opened.ok()) failure = opened.error().message;
    else if (opened->manifest().digest != digest) failure = "the checkpoint of step " + all.front() + " has changed";
    else checkpoint_ = std::move(opened).value();
  } else if (session_.resume != nullptr) {
    start_ = session_.resume->manifest().step;
  }
  const checkpoint::OpenCheckpoint* const from = checkpoint_ ? &*checkpoint_ : session_.resume;
  if (failure.empty())
    if (Status filled = fill_again(rank_, {session_.weights, from}); !filled.ok()) failure = filled.error().message;
  PIPER_ASSIGN(const std::vector<std::string> failures, control_.allgather(failure, hal::for_files(wait_)));
  for (const std::string& one : failures)
    if (why_not.empty()) why_not = one;
  return {};
}

// The first tensor of the state that has a number that is none; "" where none has.
Result<std::string> NanReplay::broken_state() {
  for (const plan::Placement& placement : rank_.plan->placements) {
    if (placement.kind == plan::PlacementKind::kConstant || placement.kind == plan::PlacementKind::kGradient ||
        !is_floating(placement.dtype))
      continue;
    const PlacedValue value = dense_value(rank_.at(placement.part.where), placement.dtype, placement.part.count);
    PIPER_ASSIGN(const std::vector<std::byte> bytes, read_value(rank_.device(), value));
    if (trace::find_not_finite(value.type, bytes.data()).any()) return placement.name;
  }
  return std::string();
}

Result<std::string> NanReplay::broken_input() {
  for (const plan::InputSlice& slice : rank_.plan->inputs)
    for (const plan::InputDecl& input : session_.bundle->manifest.inputs) {
      if (input.name != slice.input || !is_floating(input.dtype)) continue;
      const int64_t elements = plan::sample_bytes(input, slice.count) / dtype_bytes(input.dtype);
      const PlacedValue value = dense_value(rank_.at(slice.where), input.dtype, elements);
      PIPER_ASSIGN(const std::vector<std::byte> bytes, read_value(rank_.device(), value));
      if (trace::find_not_finite(value.type, bytes.data()).any()) return input.name;
    }
  return std::string();
}

// By rank 0: the first one in the flow of data, of all ranks.
Result<std::string> NanReplay::verdict_of(int64_t step, const std::vector<std::string>& all) {
  struct Made {
    int64_t order;
    int32_t rank;
    NanMaker maker;
  };
  PIPER_ASSIGN(const auto values, digest::StepValues::read(session_.directory, session_.bundle_digest));
  std::vector<Made> made;
  std::string input;
  for (size_t r = 0; r < all.size(); ++r) {
    std::istringstream lines(all[r]);
    for (std::string line, kind; std::getline(lines, line);) {
      std::istringstream in(line);
      in >> kind;
      const std::string rest = line.substr(std::min(line.size(), kind.size() + 1));
      if (kind == "input" && input.empty()) input = rest + "' on rank " + std::to_string(r);
      if (kind != "made") continue;
      Made& one = made.emplace_back();
      in >> one.maker.place.instruction >> one.maker.place.call >> one.maker.place.output >> one.maker.nan >>
          one.maker.of_infinity;
      one.rank = static_cast<int32_t>(r);
      one.order = values->order(one.rank, one.maker.place.instruction);
    }
  }
  std::stable_sort(made.begin(), made.end(),
                   [](const Made& a, const Made& b) { return std::tie(a.order, a.rank) < std::tie(b.order, b.rank); });
  const std::string of_step = "in step " + std::to_string(step) + " ";
  const auto first = [&made](bool nan) {
    return std::find_if(made.begin(), made.end(), [nan](const Made& one) { return one.maker.nan == nan; });
  };
  const auto text = [&](const Made& one) {
    return std::string("the first ") + word(one.maker.nan) + " is made by " +
           values->describe(one.rank, one.maker.place);
  };
  // An infinity is to blame where nothing made a NaN, or where it was made of one: others may be masks.
  const auto nan = first(true), infinity = first(false);
  if (nan == made.end() && !input.empty()) return of_step + "it came with the data, in input '" + input;
  if (nan == made.end() && infinity == made.end()) return of_step + "no single call made it of finite numbers";
  if (nan == made.end()) return of_step + text(*infinity);
  std::string verdict = of_step + text(*nan);
  if (nan->maker.of_infinity && infinity != made.end() && infinity->order <= nan->order)
    verdict += ", of an infinity; " + text(*infinity);
  return verdict;
}

// Whether it ended with numbers that are none: then `verdict` says why.
Result<bool> NanReplay::replay_step(int64_t step, StepInputs& inputs, StepResults& results, std::string& verdict) {
  PIPER_RETURN_IF_ERROR(inputs.write(step));
  PIPER_RETURN_IF_ERROR(rank_.device().finish());
  PIPER_ASSIGN(const std::string input, broken_input());
  PIPER_RETURN_IF_ERROR(executor_.run_step(step, *calls_, watch_));
  PIPER_ASSIGN(const StepResults::Values values, results.read());
  std::vector<NanMaker> made = watch_.take();
  // The same on every rank: gradients that overflow are part of training with a loss scale.
  if (values.overflow.value_or(false)) return false;
  std::erase_if(made, [this](const NanMaker& maker) { return meant_.count(key(maker)) > 0; });
  PIPER_ASSIGN(const std::string state, broken_state());
  const bool reports = rank_.plan->rank == session_.bundle->manifest.reporting_rank;
  const bool lost = reports && !check_finite(values, step).ok();
  PIPER_ASSIGN(const std::vector<std::string> all,
               control_.allgather(encode(lost, !state.empty(), input, made), hal::patient(wait_)));
  const bool broken = std::any_of(all.begin(), all.end(), [](const std::string& text) {
    return text.compare(0, 4, "lost") == 0 || text.compare(0, 6, "broken") == 0;
  });
  if (!broken) {
    for (const NanMaker& maker : made) meant_.insert(key(maker));
    return false;
  }
  std::string mine;
  if (control_.rank() == 0) {
    auto told = verdict_of(step, all);
    mine = told.ok() ? *told : "what made it cannot be named: " + told.error().message;
  }
  PIPER_ASSIGN(const std::vector<std::string> verdicts, control_.allgather(mine, hal::patient(wait_)));
  verdict = verdicts.front();
  return true;
}

Status NanReplay::run(const NanFound& found, int64_t committed) {
  std::string why_not;
  PIPER_RETURN_IF_ERROR(load_start(committed, why_not));
  if (!why_not.empty()) return Status::failure("R0801", found.what + "; what made it was not looked for: " + why_not);
  PIPER_ASSIGN(const std::string broken_here, broken_state());
  PIPER_ASSIGN(const std::vector<std::string> broken_at, control_.allgather(broken_here, hal::patient(wait_)));
  for (size_t r = 0; r < broken_at.size(); ++r)
    if (!broken_at[r].empty())
      return Status::failure("R0801", found.what + "; such a number is in tensor '" + broken_at[r] + "' on rank " +
                                          std::to_string(r) + " already before step " + std::to_string(start_ + 1));
  if (control_.rank() == 0)
    std::fprintf(stderr, "piper-run: steps %s to %s are done once more, call by call\n",
                 std::to_string(start_ + 1).c_str(), std::to_string(found.step).c_str());
  PIPER_ASSIGN(calls_, CallByCall::make(rank_));
  PIPER_ASSIGN(StepInputs inputs, StepInputs::bind(rank_, *session_.data, session_.options.seed));
  PIPER_ASSIGN(StepResults results, StepResults::bind(rank_));
  inputs.shift_data(data_shift_);
  inputs.read_ahead(start_ + 1, found.step);
  for (int64_t step = start_ + 1; step <= found.step; ++step) {
    std::string verdict;
    PIPER_ASSIGN(const bool broken, replay_step(step, inputs, results, verdict));
    if (broken)
      return Status::failure(
          "R0801", found.what + "; " + verdict + " (replayed from step " + std::to_string(start_ + 1) + " on)");
  }
  return Status::failure("R0801", found.what + "; the same steps once more, from step " + std::to_string(start_ + 1) +
                                      " on, give finite numbers: suspect the memory or the processor of a machine");
}

}  // namespace piper::exec
