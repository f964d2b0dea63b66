#include "runtime/program/ring_dump.h"

#include <signal.h>

#include <cstdio>
#include <exception>
#include <string>

#include "schemas/live/ring_text.h"

namespace piper::program {

namespace {

constexpr size_t kEvents = 8;  // of every thread

// A handler has no argument but the signal.
std::atomic<sem_t*> asked{nullptr};

}  // namespace

RingDump::RingDump(exec::Session& session) : session_(session) {
  sem_init(&asked_, 0, 0);
  thread_ = std::thread([this] { work(); });
  asked = &asked_;
  struct sigaction action{};
  action.sa_handler = on_quit;
  action.sa_flags = SA_RESTART;
  sigaction(SIGQUIT, &action, nullptr);
}

RingDump::~RingDump() {
  (void)signal(SIGQUIT, SIG_IGN);
  asked = nullptr;
  ends_ = true;
  sem_post(&asked_);
  thread_.join();
  sem_destroy(&asked_);
}

void RingDump::on_quit(int) {
  if (sem_t* const semaphore = asked.load()) sem_post(semaphore);
}

void RingDump::work() {
  for (;;) {
    while (sem_wait(&asked_) != 0) {
    }
    if (ends_) return;
    try {
      write();
    } catch (const std::exception& failure) {
      std::fprintf(stderr, "piper-run: SIGQUIT: %s\n", failure.what());
    }
  }
}

void RingDump::write() {
  std::string text = "piper-run: SIGQUIT: ";
  const std::vector<std::string> paths = session_.rings.paths();
  if (paths.empty()) text += "no rank has begun\n";
  for (const std::string& path : paths) {
    auto ring = live::read_ring(path);
    if (!ring.ok()) {
      text += ring.error().message + "\n";
      continue;
    }
    text += live::ring_text(*session_.bundle, *ring, trace::RingTrack::now_ns(), kEvents);
  }
  std::fputs(text.c_str(), stderr);
}

}  // namespace piper::program
