// What piper-launch asks piperd, and the answers: JSON objects, one a line.
//
//   {"op":"submit","name":"","arguments":[...],"folder":"","environment":[...],"ranks":2,"nodes":1,"grace_s":30,
//    "restarts":5,"window_s":3600}                 {"job":1}
//   {"op":"status"}, {"op":"status","job":1}       the node and its jobs; of one job also its ranks
//   {"op":"logs","job":1,"from":0}                 {"text":"...","next":4096,"ended":false}; below 0: from the end
//   {"op":"cancel","job":1}                        {}
//   {"op":"drain","on":true}                       {}
//   whatever fails                                 {"error":{"code":"L0132","message":"..."}}
#pragma once

#include <cstdint>
#include <string>

#include "launcher/daemon/daemon.h"

namespace piper::launcher {

// Takes any bytes. L0132: it is no request; the errors of Daemon.
std::string answer_request(Daemon& daemon, const std::string& request, uint16_t http_port);

}  // namespace piper::launcher
