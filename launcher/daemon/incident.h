// What is kept of an attempt that failed: a folder for whoever looks into it later. Bounded, and without secrets: of
// the environment only variables that submit passes on by themselves.
#pragma once

#include <string>

#include "launcher/daemon/job.h"
#include "schemas/base/status.h"

namespace piper::launcher {

inline constexpr int kKeptIncidents = 10;                         // of a job, the newest
inline constexpr int64_t kIncidentLogBytes = int64_t{256} << 10;  // the end of the log

// Makes job_folder/incident-NUMBER with incident.json (exit statuses, pages, arguments, bundle, versions), pages and
// log. L0133.
Status write_incident(const std::string& job_folder, const Job& job, int32_t number);

}  // namespace piper::launcher
