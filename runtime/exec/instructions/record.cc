// `record`: everything before it on this stream is done in this step.
#include "runtime/exec/instructions/prepare.h"

namespace piper::exec {

hal::MadeCommand prepare_record(const plan::Record& record, int32_t, PrepareContext& context) {
  return context.device->record_event(*context.events->at(static_cast<size_t>(record.event)));
}

}  // namespace piper::exec
