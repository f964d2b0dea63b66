// Leaves waits for events out of a bundle's plans, one at a time, and trains on the stand-in's GPU: each must be
// missed.
//   drop_waits BUNDLE DATA FOLDER MOST
// MOST: of a rank, spread over its plan.
#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "runtime/exec/instruction_text.h"
#include "runtime/kernels/kernel.h"
#include "schemas/plan/bundle_io.h"
#include "tests/standin/train.h"

namespace piper::standin {
namespace {

std::vector<size_t> waits_of(const plan::RankPlan& plan, size_t most) {
  std::vector<size_t> all, some;
  for (size_t i = 0; i < plan.instructions.size(); ++i)
    if (std::holds_alternative<plan::Wait>(plan.instructions[i].action)) all.push_back(i);
  const size_t count = std::min(most, all.size());
  for (size_t i = 0; i < count; ++i) some.push_back(all[i * all.size() / count]);
  return some;
}

Status drop_each(const std::string& folder, const std::string& data_file, const std::string& out, size_t most) {
  PIPER_ASSIGN(const plan::OpenBundle opened, plan::open_bundle(folder));
  PIPER_ASSIGN(const plan::Bundle bundle, plan::read_bundle(opened, {}));
  PIPER_ASSIGN(const auto weights, checkpoint::WeightSource::open(opened.directory, "", bundle.manifest));
  data::DataOptions options;
  options.path = data_file;
  PIPER_ASSIGN(const auto data, data::DataSource::open(options, bundle.manifest));
  Training training{&bundle, &weights, data.get(), 2, out + "/weights", "", ""};
  PIPER_RETURN_IF_ERROR(train(training, On::kGpu));
  const std::string right = contents(training.save);
  int waits = 0, races = 0;
  for (size_t rank = 0; rank < bundle.ranks.size(); ++rank)
    for (const size_t wait : waits_of(bundle.ranks[rank], most)) {
      plan::Bundle without = bundle;
      auto& instructions = without.ranks[rank].instructions.edit();
      instructions.erase(instructions.begin() + static_cast<ptrdiff_t>(wait));
      training.bundle = &without;
      const Status status = train(training, On::kGpu);
      ++waits;
      const std::string text = "rank " + std::to_string(rank) + ", " +
                               exec::describe_instruction(bundle, bundle.ranks[rank], static_cast<int32_t>(wait)) +
                               ": ";
      if (!status.ok() && status.error().code == "race") {
        ++races;
      } else if (!status.ok()) {
        return Status::failure(status.error().code, text + status.error().message);
      } else if (contents(training.save) != right) {
        return Status::failure("", text + "nothing misses it, but the weights are others");
      } else {
        std::printf("%sother ranks make up for it\n", text.c_str());
      }
    }
  std::printf("%d waits left out, %d of them found as races\n", waits, races);
  if (races < (waits + 1) / 2) return Status::failure("", "too few waits are missed");
  return {};
}

}  // namespace
}  // namespace piper::standin

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: drop_waits BUNDLE DATA FOLDER MOST\n");
    return 2;
  }
  piper::kernels::initialise_process();
  const piper::Status status =
      piper::standin::drop_each(argv[1], argv[2], argv[3], static_cast<size_t>(std::atoll(argv[4])));
  if (!status.ok()) std::fprintf(stderr, "%s %s\n", status.error().code.c_str(), status.error().message.c_str());
  return status.ok() ? 0 : 1;
}
