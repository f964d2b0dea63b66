// A job as JSON: its file in the state folder. Read with care, since a disk may have kept anything.
#pragma once

#include <string>

#include "launcher/daemon/job.h"
#include "schemas/base/status.h"

namespace piper::launcher {

std::string job_text(const Job& job);
// L0133: it is no job of this version; `where` is in the message.
Result<Job> read_job(const std::string& text, const std::string& where);

}  // namespace piper::launcher
