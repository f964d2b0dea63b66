// What daemons of several nodes say to each other about a job, as JSON. The daemon that a job was submitted to is its
// coordinator; it asks nodes to hold slots (POST /hold), and from then on each part of the job reports to it
// (POST /report): the answer says what the part is to do, and that it may live for another while.
//
//   POST /state   {}                                       what is free on a node
//   POST /hold    {"from":"node1","job":3,...}             {"held":true,"port":40123}
//   POST /report  {"node":"node2","job":3,...}             {"go":"run","log_next":812,...}
//
// Of these the reports of parts carry all that a coordinator knows of them: state, end, pages, what ranks printed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "launcher/cluster/placement.h"
#include "launcher/daemon/job.h"
#include "launcher/supervisor.h"
#include "schemas/live/page.h"

namespace piper::launcher {

struct Hold {
  std::string from;   // the coordinator's name
  int64_t job = 0;    // its number there
  std::string epoch;  // of this attempt alone: 32 hexadecimal digits
  int32_t part = 0;   // the node's number in the job; part 0 finds a port where ranks meet
  int32_t ranks = 1;  // of the node
  int64_t lease_ms = 10'000;
};
struct HoldAnswer {
  bool held = false;
  std::string why;    // not
  uint16_t port = 0;  // of part 0
};

enum class PartState : uint8_t { kHeld, kRunning, kEnded };

struct Report {
  std::string node;
  int64_t job = 0;
  std::string epoch;
  PartState state = PartState::kHeld;
  bool leaving = false;  // the node is drained, or its daemon ends: it has asked its ranks to stop
  bool ran = false;      // of an ended part: it was started
  Outcome outcome;       // of an ended one
  int64_t log_from = 0;  // bytes of the part's log before `log`
  std::string log;
  int64_t signals = 0;  // the number of signals that it has passed on to its ranks
  std::vector<live::RankStatus> pages;
};

enum class Go : uint8_t { kWait, kStart, kRun, kEnd };

struct ReportAnswer {
  Go go = Go::kEnd;
  int64_t log_next = 0;
  std::vector<int> signals;  // those after Report::signals
  // With kStart:
  JobSpec spec;
  int32_t attempt = 1;
  bool resume = false;
  int32_t nodes = 1;
  std::string master;  // HOST:PORT
};

std::string text_of(const NodeState& state);
std::string text_of(const Hold& hold);
std::string text_of(const HoldAnswer& answer);
std::string text_of(const Report& report);
std::string text_of(const ReportAnswer& answer);

// Returns false if `text` is no such message. Senders have the token; numbers are range-checked anyway.
bool read_message(const std::string& text, NodeState& state);
bool read_message(const std::string& text, Hold& hold);
bool read_message(const std::string& text, HoldAnswer& answer);
bool read_message(const std::string& text, Report& report);
bool read_message(const std::string& text, ReportAnswer& answer);

// The same text, where bytes that are no UTF-8 are replaced: what a message can carry.
std::string plain_text(const std::string& text);

}  // namespace piper::launcher
