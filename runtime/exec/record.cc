// `record`: everything before it on this stream is done in this step.
#include "runtime/exec/prepare.h"

namespace piper::exec {

namespace {

class PreparedRecord : public PreparedInstruction {
 public:
  explicit PreparedRecord(hal::Counter& event) : event_(event) {}
  Status execute(const StepContext& context) override {
    event_.signal(static_cast<uint32_t>(context.step));
    return {};
  }

 private:
  hal::Counter& event_;
};

}  // namespace

Prepared prepare_record(const plan::Record& record, int32_t, PrepareContext& context) {
  return std::unique_ptr<PreparedInstruction>(std::make_unique<PreparedRecord>(context.events[record.event]));
}

}  // namespace piper::exec
