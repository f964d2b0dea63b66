#include "launcher/daemon/attempt.h"

#include <unistd.h>

#include "launcher/daemon/left_processes.h"
#include "launcher/restarts.h"
#include "schemas/launch/variables.h"
#include "schemas/live/page.h"

namespace piper::launcher {

namespace {

std::vector<std::string> launch_arguments(const AttemptStart& start, const Job& job) {
  std::vector<std::string> arguments = {start.launcher, "--tag-output",
                                        "--grace",      std::to_string(job.spec.grace_s),
                                        "--attempt",    std::to_string(job.attempts - 1),
                                        "--report",     start.folder + "/report.json",
                                        "--incidents",  start.incidents,
                                        "-n",           std::to_string(job.spec.ranks / job.spec.nodes)};
  if (job.spec.nodes > 1)
    for (const std::string& word : {std::string("--nnodes"), std::to_string(job.spec.nodes), std::string("--node-rank"),
                                    std::to_string(start.node), std::string("--master"), start.master})
      arguments.push_back(word);
  if (!start.lease.empty()) arguments.push_back("--lease=" + start.lease);
  if (start.store_socket >= 0) arguments.push_back("--store-socket=" + std::to_string(start.store_socket));
  arguments.emplace_back("--");
  for (const std::string& argument : job.resume ? resuming(job.spec.arguments) : job.spec.arguments)
    arguments.push_back(argument);
  return arguments;
}

std::vector<std::string> launch_environment(const AttemptStart& start, const Job& job) {
  std::vector<std::string> variables = job.spec.environment;
  variables.push_back(std::string(launch::kStatusPages) + "=" + start.folder + "/pages");
  variables.push_back(std::string(launch::kJobFolder) + "=" + start.folder);
  return variables;
}

}  // namespace

Result<std::unique_ptr<Attempt>> Attempt::start(EventLoop& loop, const AttemptStart& start, const Job& job,
                                                Ended ended) {
  unlink((start.folder + "/report.json").c_str());
  PIPER_RETURN_IF_ERROR(live::create_pages(start.folder + "/pages", job.spec.ranks));
  PIPER_ASSIGN(const LifeLock lock, LifeLock::take(start.folder));
  std::unique_ptr<Attempt> attempt(new Attempt(loop, std::move(ended)));
  ChildStart child;
  child.name = "job " + std::to_string(job.id);
  child.arguments = launch_arguments(start, job);
  child.variables = launch_environment(start, job);
  child.folder = job.spec.folder;
  child.inherited = {lock.descriptor()};
  if (start.store_socket >= 0) child.inherited.push_back(start.store_socket);
  child.close_others = true;
  child.blocked = start.blocked;
  child.out = child.err = start.line;
  PIPER_ASSIGN(ChildProcess process, ChildProcess::start(child));
  attempt->process_.emplace(std::move(process));
  attempt->watch(attempt->process_->out(), attempt->out_);
  attempt->watch(attempt->process_->err(), attempt->err_);
  attempt->end_ = loop.when_readable(attempt->process_->descriptor(), [self = attempt.get()] { self->take_end(); });
  return attempt;
}

void Attempt::watch(Output& output, std::unique_ptr<EventLoop::Watch>& watch) {
  watch = loop_.when_readable(output.source(), [&output, &watch] {
    output.pass_on();
    if (output.source() < 0) watch.reset();
  });
}

void Attempt::take_end() {
  end_.reset();
  for (Output* output : {&process_->out(), &process_->err()}) {
    output->pass_on();
    output->finish();
  }
  out_.reset();
  err_.reset();
  kill_.reset();
  const int status = process_->take_end();
  // Its call may destroy this.
  const Ended ended = std::move(ended_);
  ended({status, "", "", false});
}

void Attempt::signal(int number, std::optional<std::chrono::milliseconds> kill_after) {
  process_->signal(number);
  if (kill_after) kill_ = loop_.after(*kill_after, [this] { process_->signal(SIGKILL); });
}

}  // namespace piper::launcher
