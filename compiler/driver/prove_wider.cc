#include "compiler/driver/prove_wider.h"

#include <algorithm>
#include <sstream>
#include <string_view>
#include <utility>

#include "compiler/driver/run_pipeline.h"
#include "schemas/base/check.h"
#include "schemas/verify/verify.h"

namespace piper::driver {

bool proves_wider(const Compilation& c, AskedStep asked, const diag::Diagnostics& diags) {
  const auto is_one = [](const ir::ModelVariant& variant) { return variant.local_batch == 1; };
  if (c.model == nullptr || std::none_of(c.module.variants.begin(), c.module.variants.end(), is_one)) return false;
  Compilation wider;
  wider.strategy = std::move(asked.strategy);
  wider.strategy.model.batch = 2 * c.module.step.batch;
  wider.table = std::move(asked.table);
  wider.model = c.model;
  wider.reference = c.reference;
  wider.target = c.target;
  wider.packs = c.packs;
  diag::Diagnostics unheard = diags;  // it was said of the step itself
  std::ostringstream unprinted;
  bool stopped = false;
  if (!run_pipeline(wider, FrameOptions(), unheard, unprinted, [](std::string_view) {}, stopped).ok()) return false;
  const auto report = verify::verify(wider.emitted.bundle);
  PIPER_CHECK(report.ok(), "the emitted plan was refuted with two samples in each piece: [", report.error().code, "] ",
              report.error().message);
  return verify::not_proved(report->equality).empty() &&
         std::all_of(report->evaluations.begin(), report->evaluations.end(),
                     [](const verify::EqualityReport& evaluation) { return verify::not_proved(evaluation).empty(); });
}

}  // namespace piper::driver
