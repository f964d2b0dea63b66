#include "tests/standin/train_plan.h"

#include "tests/unit/hand_written_plans.h"
#include "tests/unit/temp_folder.h"

namespace piper::standin {

namespace {

Status train_in(const std::string& folder, const plan::Bundle& bundle, const std::function<Status(Training)>& how,
                const PlanOptions& options) {
  PIPER_RETURN_IF_ERROR(hand_written::write_files(folder));
  PIPER_ASSIGN(const auto weights,
               checkpoint::WeightSource::open("", folder + "/weights.safetensors", bundle.manifest));
  data::DataOptions data_options;
  data_options.path = folder + "/data.safetensors";
  PIPER_ASSIGN(const auto data, data::DataSource::open(data_options, bundle.manifest));
  return how({&bundle,
              &weights,
              data.get(),
              options.steps,
              folder + "/saved",
              options.gradients ? folder + "/gradients" : "",
              folder + "/log",
              {}});
}

}  // namespace

PlanTrained train_plan(const plan::Bundle& bundle, const std::function<Status(Training)>& how,
                       const PlanOptions& options) {
  const TempFolder folder;
  PlanTrained result;
  result.status = train_in(folder.path().string(), bundle, how, options);
  result.weights = contents(folder / "saved");
  result.gradients = contents(folder / "gradients");
  return result;
}

}  // namespace piper::standin
