// What piperd keeps: jobs and counters across crashes, logs of bounded size, restarts that count.
#include <catch2/catch.hpp>

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <limits>

#include "launcher/daemon/job_file.h"
#include "launcher/daemon/job_log.h"
#include "launcher/daemon/job_view.h"
#include "launcher/daemon/left_processes.h"
#include "launcher/daemon/state_folder.h"
#include "launcher/passed_environment.h"
#include "launcher/restarts.h"
#include "tests/unit/temp_folder.h"

namespace piper::launcher {
namespace {

namespace fs = std::filesystem;

Job job_of(int64_t id) {
  Job job;
  job.id = id;
  job.spec.name = "a \"name\"";
  job.spec.arguments = {"/bin/run", "plans", "--checkpoint", "c\n"};
  job.spec.folder = "/home";
  job.spec.environment = {"PATH=/bin"};
  job.spec.ranks = 2;
  job.spec.restarts = 7;
  job.spec.grace_s = 3;
  job.spec.window_s = 60;
  job.state = JobState::kWaiting;
  job.submitted_ms = 1'700'000'000'000;
  job.started_ms = job.submitted_ms + 1;
  job.ended_ms = job.submitted_ms + 2;
  job.next_start_ms = job.submitted_ms + 3;
  job.attempts = 4;
  job.restarts = 3;
  job.restarted_ms = {1, 2, 3};
  job.incidents = 2;
  job.exit_status = 137;
  job.why = "why";
  job.resume = true;
  job.cancelling = true;
  return job;
}

std::string text_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

StateFolder opened(const std::string& path) {
  auto state = StateFolder::open(path);
  REQUIRE(state.ok());
  return std::move(state).value();
}

void refused(const std::string& path, const std::string& why) {
  const auto state = StateFolder::open(path);
  REQUIRE_FALSE(state.ok());
  CHECK(state.error().code == "L0133");
  CHECK(state.error().message.find(why) != std::string::npos);
}

std::vector<Job> jobs_in(const StateFolder& state, int damaged = 0) {
  int notes = 0;
  auto jobs = state.load_jobs([&](const std::string&) { ++notes; });
  REQUIRE(jobs.ok());
  CHECK(notes == damaged);
  return std::move(jobs).value();
}

TEST_CASE("a job is read as it was written, every field of it") {
  const std::string text = job_text(job_of(5));
  const auto read = read_job(text, "here");
  REQUIRE(read.ok());
  CHECK(job_text(*read) == text);
  CHECK(read->spec.restarts == 7);
  CHECK(read->restarts == 3);
  CHECK(read->state == JobState::kWaiting);
  CHECK(read->resume);
  CHECK(read->cancelling);
  for (int state = 0; state < kNumJobStates; ++state) {
    Job job = job_of(1);
    job.state = static_cast<JobState>(state);
    const auto again = read_job(job_text(job), "here");
    REQUIRE(again.ok());
    CHECK(again->state == job.state);
  }
}

TEST_CASE("of any part of a job's file nothing is believed") {
  const std::string text = job_text(job_of(5));
  for (size_t bytes = 0; bytes + 2 < text.size(); ++bytes) {
    const auto read = read_job(text.substr(0, bytes), "here");
    REQUIRE_FALSE(read.ok());
    REQUIRE(read.error().code == "L0133");
  }
  CHECK_FALSE(read_job(std::string(100000, '['), "here").ok());
}

TEST_CASE("jobs and counters are there for the next daemon") {
  const TempFolder folder;
  const std::string path = folder / "state";
  {
    const StateFolder state = opened(path);
    CHECK(jobs_in(state).empty());
    for (const int64_t id : {12, 3}) REQUIRE(state.save(job_of(id)).ok());
    DaemonRecord record;
    record.next_job = 13;
    record.draining = true;
    record.ended = {0, 0, 0, 4, 5, 6};
    record.restarts = 8;
    record.incidents = 9;
    REQUIRE(state.save(record).ok());
    refused(path, "a piperd has it already");
  }
  const StateFolder state = opened(path);
  const auto jobs = jobs_in(state);
  REQUIRE(jobs.size() == 2);
  CHECK(jobs[0].id == 3);
  CHECK(jobs[1].id == 12);
  const auto record = state.load_record();
  REQUIRE(record.ok());
  CHECK(record->next_job == 13);
  CHECK(record->draining);
  CHECK(record->ended == std::array<int64_t, kNumJobStates>{0, 0, 0, 4, 5, 6});
  CHECK(record->restarts == 8);
  CHECK(record->incidents == 9);
  REQUIRE(state.remove(3).ok());
  CHECK(jobs_in(state).size() == 1);
}

// A crash leaves a partial file beside the old one, a folder without a file, or anything where the disk lied.
TEST_CASE("what a crash leaves is no job, and stays where it is") {
  const TempFolder folder;
  const StateFolder state = opened(folder / "state");
  Job job = job_of(1);
  REQUIRE(state.save(job).ok());
  std::ofstream(state.folder_of(1) + "/job.json.partial") << "{\"half";
  fs::create_directory(state.folder_of(2));
  REQUIRE(state.save(job_of(4)).ok());
  std::ofstream(state.folder_of(4) + "/job.json") << "";
  REQUIRE(state.save(job_of(5)).ok());
  fs::copy_file(state.folder_of(1) + "/job.json", state.folder_of(5) + "/job.json",
                fs::copy_options::overwrite_existing);
  const auto jobs = jobs_in(state, 3);
  REQUIRE(jobs.size() == 1);
  CHECK(jobs[0].id == 1);
  CHECK(fs::exists(state.folder_of(4) + "/job.json"));
  job.why = "another";
  REQUIRE(state.save(job).ok());
  CHECK(jobs_in(state, 3).at(0).why == "another");
}

// A process that is killed at any moment of a hundred writes leaves the state before or after one of them.
TEST_CASE("a file is the old one or the new one") {
  const TempFolder folder;
  const std::string path = folder / "state";
  Job job = job_of(1);
  {
    REQUIRE(opened(path).save(job).ok());
  }
  for (int round = 0; round < 20; ++round) {
    const pid_t writer = fork();
    if (writer == 0) {
      const auto state = StateFolder::open(path);
      for (int64_t attempt = 0; state.ok(); ++attempt) {
        job.attempts = static_cast<int32_t>(attempt);
        job.why = std::string(static_cast<size_t>(attempt % 5000), 'x');
        if (!state->save(job).ok()) _exit(1);
      }
      _exit(1);
    }
    usleep(static_cast<useconds_t>(2000 + 700 * round));
    kill(writer, SIGKILL);
    waitpid(writer, nullptr, 0);
    REQUIRE(jobs_in(opened(path)).size() == 1);
  }
}

TEST_CASE("a state folder is its owner's alone") {
  const TempFolder folder;
  const std::string path = folder / "state";
  fs::create_directory(path);
  REQUIRE(chmod(path.c_str(), 0750) == 0);
  refused(path, "others can look into it");
  std::ofstream(folder / "file") << "x";
  refused(folder / "file", "is no folder");
  {
    const StateFolder made = opened(folder / "deep/er");
  }
  struct stat about{};
  REQUIRE(stat((folder / "deep/er").c_str(), &about) == 0);
  CHECK((about.st_mode & 0777) == 0700);
  std::ofstream(folder / "deep/er/daemon.json") << "{}";
  const auto record = opened(folder / "deep/er").load_record();
  REQUIRE_FALSE(record.ok());
  CHECK(record.error().code == "L0133");
}

TEST_CASE("a log has a bounded size, and its bytes keep their numbers") {
  const TempFolder folder;
  const std::string path = folder / ".";
  const auto line = [](int number) { return "line " + std::to_string(1000 + number) + "\n"; };  // 10 bytes
  const auto write = [&](int from, int to) {
    auto log = JobLog::open(path, {100, 3});
    REQUIRE(log.ok());
    for (int number = from; number < to; ++number) log->append(line(number));
  };
  write(0, 25);
  CHECK(read_log(path, 0, 1000).text.size() == 100);
  CHECK(end_of_log(path, 1000).size() == 250);
  CHECK(read_log(path, 230, 10).text == line(23));
  write(25, 73);  // by the next daemon
  CHECK(read_log(path, 0, 10).text == line(50));
  CHECK(read_log(path, 0, 10).next == 510);
  CHECK(read_log(path, 720, 100).text == line(72));
  CHECK(read_log(path, 730, 100).text.empty());
  CHECK(read_log(path, 730, 100).next == 730);
  CHECK(read_log(path, 5000, 100).next == 730);
  CHECK(read_log(path, -20, 100).text == line(71) + line(72));
  CHECK(end_of_log(path, 120).substr(0, 10) == line(61));
  int64_t files = 0;
  for (const auto& entry : fs::directory_iterator(path))
    files += entry.path().filename().string().rfind("log-", 0) == 0;
  CHECK(files == 3);
  CHECK(text_of(path + "/log-700") == line(70) + line(71) + line(72));
}

TEST_CASE("a job is as far as its last rank, and does what keeps a rank from its next step") {
  using live::RankState;
  const TempFolder folder;
  const std::string path = folder / ".";
  CHECK_FALSE(view_of(path, 1).ranks.at(0));
  REQUIRE(live::create_pages(path + "/pages", 2).ok());
  const auto tell = [&](int64_t rank, int64_t step, RankState state, double loss) {
    auto page = live::Page::map(path + "/pages", rank);
    REQUIRE(page.ok());
    live::RankStatus status;
    status.rank = rank;
    status.pid = 1;
    status.step = step;
    status.steps = 10;
    status.state = state;
    status.loss = loss;
    status.tokens_per_s = 100.0 * static_cast<double>(rank);
    status.mfu = 0.25 * static_cast<double>(rank);
    status.checkpoint_step = step - 1;
    page->write(status);
  };
  const double none = std::numeric_limits<double>::quiet_NaN();
  tell(1, 7, RankState::kTraining, 2.5);
  CHECK(view_of(path, 2).activity == RankState::kStarting);  // rank 0 has reported nothing
  CHECK(view_of(path, 2).step == 0);
  tell(0, 6, RankState::kCheckpointing, none);
  const JobView view = view_of(path, 2);
  CHECK(view.activity == RankState::kCheckpointing);
  CHECK(view.step == 6);
  CHECK(view.steps == 10);
  CHECK(view.loss == 2.5);
  CHECK(view.tokens_per_s == 100.0);
  CHECK(view.mfu == 0.25);
  CHECK(view.checkpoint_step == 6);
  CHECK(view.progress_ms);
  tell(0, 10, RankState::kDone, none);
  CHECK(view_of(path, 2).activity == RankState::kTraining);
  tell(1, 10, RankState::kDone, 2.0);
  CHECK(view_of(path, 2).activity == RankState::kDone);
}

TEST_CASE("restarts count for a window, and a clock that was set back forgives nothing") {
  using std::chrono::seconds;
  CHECK(counted_restarts({}, 1000, seconds(1)).empty());
  CHECK(counted_restarts({1000, 5000, 6000}, 7000, seconds(2)) == std::vector<int64_t>{6000});
  CHECK(counted_restarts({9000}, 1000, seconds(2)) == std::vector<int64_t>{9000});
}

TEST_CASE("only what programs need is passed on") {
  for (const char* name : {"PATH", "HOME", "LC_ALL", "OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES", "PIPER_X"})
    CHECK(is_passed(name));
  for (const char* name : {"AWS_SECRET_ACCESS_KEY", "HF_TOKEN", "PATHS", "SSH_AUTH_SOCK", "PIPER_JOB", ""})
    CHECK_FALSE(is_passed(name));
  REQUIRE(setenv("SECRET_OF_A_TEST", "s", 1) == 0);
  const auto has = [](const std::vector<std::string>& more) {
    const auto variables = passed_environment(more);
    REQUIRE(variables.ok());
    return std::find(variables->begin(), variables->end(), "SECRET_OF_A_TEST=s") != variables->end();
  };
  CHECK_FALSE(has({}));
  CHECK(has({"SECRET_OF_A_TEST"}));
  CHECK(passed_environment({"NO_SUCH_VARIABLE"}).error().code == "L0101");
}

TEST_CASE("processes of a job are found by their environment, and by the lock that they hold") {
  const TempFolder folder;
  const std::string job = folder / "job";
  fs::create_directory(job);
  CHECK(all_gone(job));
  pid_t child = -1;
  {
    auto lock = LifeLock::take(job);
    REQUIRE(lock.ok());
    CHECK(LifeLock::take(job).error().code == "L0133");
    child = fork();
    if (child == 0) {
      const std::string variable = "PIPER_JOB=" + job;
      const char* const arguments[] = {"sleep", "1000", nullptr};
      const char* const variables[] = {"A=b", variable.c_str(), nullptr};
      dup(lock->descriptor());  // one that is not closed by execve
      execve("/bin/sleep", const_cast<char* const*>(arguments), const_cast<char* const*>(variables));
      _exit(1);
    }
  }
  CHECK_FALSE(all_gone(job));
  kill_processes_of(job + "2");
  CHECK_FALSE(all_gone(job));
  int status = 0;
  while (waitpid(child, &status, WNOHANG) == 0) kill_processes_of(job);
  CHECK(WIFSIGNALED(status));
  CHECK(all_gone(job));
}

}  // namespace
}  // namespace piper::launcher
