// The lines of the step log and the progress text.
#include <catch2/catch.hpp>

#include <cmath>
#include <cstdio>
#include <fstream>
#include <sstream>

#include "runtime/trace/profile.h"
#include "runtime/trace/progress.h"
#include "runtime/trace/step_log.h"

namespace piper::trace {
namespace {

TEST_CASE("a profile holds means over the steps behind the warm-up") {
  using std::chrono::microseconds;
  Profile profile(2);
  for (int64_t step = 1; step <= Profile::kFirstStep + 1; ++step) {
    profile.begin_step(step);
    const auto begin = Profile::Clock::now();
    const int64_t us = step < Profile::kFirstStep ? 1'000'000 : 10 * (step - Profile::kFirstStep + 1);
    profile.add(1, begin, begin + microseconds(us), us * 1000);
  }
  const std::string line = profile.line({3, 1, "compute", "run \"a\""});
  CHECK(line.find(R"({"rank":3,"instruction":1,"stream":"compute","what":"run \"a\"","begin_us":)") == 0);
  CHECK(line.find(R"("cpu_us":15.0})") != std::string::npos);
  const auto begin_of = [&] {
    const std::string text = profile.line({3, 1, "compute", "x"});
    return std::stod(text.substr(text.find("begin_us") + 10));
  };
  const double own = begin_of();
  profile.count_from(microseconds(500));
  CHECK(begin_of() == Approx(own - 500));
  profile.count_from({});
  CHECK(profile.line({3, 0, "compute", "x"}).find(R"("end_us":0.0,"cpu_us":0.0})") != std::string::npos);
}

TEST_CASE("a step is one JSON object") {
  StepRecord record;
  record.step = 3;
  record.loss = 5.54f;
  record.step_ms = 41.25;
  record.data_wait_s = 0.0015;
  record.samples_per_s = 200;
  record.lr = 3e-4;
  record.samples_fingerprint = 0x0123456789abcdef;
  CHECK(step_line(record) ==
        R"({"step": 3, "loss": 5.54, "step_ms": 41.25, "data_wait": 0.0015, "samples_per_s": 200, )"
        R"("lr": 3e-04, "samples_fingerprint": "0123456789abcdef"})");
  record.tokens_per_s = 6400;
  record.grad_norm = 0.5f;
  CHECK(step_line(record) ==
        R"({"step": 3, "loss": 5.54, "step_ms": 41.25, "data_wait": 0.0015, "tokens_per_s": 6400, )"
        R"("samples_per_s": 200, "lr": 3e-04, "grad_norm": 0.5, "samples_fingerprint": "0123456789abcdef"})");
  record.grad_norms = {{"decay", 0.25f}, {"group0", 0.375f}};
  CHECK(step_line(record).find(R"(, "grad_norm": 0.5, "grad_norms": {"decay": 0.25, "group0": 0.375}, )") !=
        std::string::npos);
  record.grad_norms.clear();
  record.mfu = 0.412;
  CHECK(step_line(record).find(R"("samples_per_s": 200, "mfu": 0.412, "lr": 3e-04)") != std::string::npos);
  record.dropped = 12;
  CHECK(step_line(record).find(R"(, "grad_norm": 0.5, "dropped": 12, )") != std::string::npos);
  CHECK(summary_line({20, 41.5, 2, {100, 200}}) ==
        R"({"summary": {"steps": 20, "median_step_ms": 41.5, "total_s": 2, "peak_memory_bytes": [100, 200]}})");
}

TEST_CASE("an evaluation is one JSON object, with the step that it stands behind") {
  EvaluationRecord record{500, 0.1, std::nullopt};
  CHECK(evaluation_line(record) == R"({"step": 500, "eval_loss": 0.1})");
  CHECK(evaluation_text(record) == "step 500: evaluation, loss 0.1");
  record.perplexity = 2.5;
  CHECK(evaluation_line(record) == R"({"step": 500, "eval_loss": 0.1, "perplexity": 2.5})");
  CHECK(evaluation_text(record) == "step 500: evaluation, loss 0.1, perplexity 2.5");
}

TEST_CASE("a loss that is no number is reported as it is") {
  StepRecord record;
  record.loss = std::nanf("");
  CHECK(step_line(record).find("\"loss\": NaN") != std::string::npos);
  record.loss = -INFINITY;
  CHECK(step_line(record).find("\"loss\": -Infinity") != std::string::npos);
}

TEST_CASE("a log goes on behind the step of a checkpoint") {
  const std::string path = "trace_test_log.jsonl";
  const auto write = [&](const std::string& text) { std::ofstream(path) << text; };
  const auto text = [&] {
    std::ostringstream all;
    all << std::ifstream(path).rdbuf();
    return all.str();
  };
  const std::string one = "{\"step\": 1, \"loss\": 5}\n", two = "{\"step\": 2, \"loss\": 4}\n",
                    from_one = "{\"resume\": {\"step\": 1}}\n", end = "{\"summary\": {\"steps\": 2}}\n";
  write(one + two + end);
  REQUIRE(StepLog::resume(path, 1).ok());
  CHECK(text() == one + from_one);
  write(one + from_one + two + end);
  REQUIRE(StepLog::resume(path, 2).ok());
  CHECK(text() == one + from_one + two + "{\"resume\": {\"step\": 2}}\n");
  write(one + "{\"step\": 2, \"lo");
  REQUIRE(StepLog::resume(path, 2).ok());
  CHECK(text() == one + "{\"resume\": {\"step\": 2}}\n");
  std::remove(path.c_str());
  auto log = StepLog::resume(path, 2);
  REQUIRE(log.ok());
  REQUIRE(log->write("next").ok());
  CHECK(text() == "{\"resume\": {\"step\": 2}}\nnext\n");
  std::remove(path.c_str());
  CHECK(StepLog::resume("/dev/null", 2).ok());
  CHECK(StepLog::resume("", 2).ok());
}

// Lines of two runs in one file are those of neither.
TEST_CASE("a log that another run writes is refused, and left as it is") {
  const std::string path = "trace_test_shared.jsonl";
  {
    auto first = StepLog::open(path);
    REQUIRE(first.ok());
    REQUIRE(first->write("one").ok());
    for (const auto& second : {StepLog::open(path).status(), StepLog::resume(path, 1).status()}) {
      CHECK(second.error().code == "R0601");
      CHECK(second.error().message.find("another run writes it") != std::string::npos);
    }
    REQUIRE(first->write("two").ok());
  }
  std::ostringstream all;
  all << std::ifstream(path).rdbuf();
  CHECK(all.str() == "one\ntwo\n");
  CHECK(StepLog::open(path).ok());
  std::remove(path.c_str());
}

TEST_CASE("losses read back to the same value") {
  for (float value : {5.5397491f, 1e-30f, 0.1f, 123456.789f}) CHECK(std::stof(number_text(value)) == value);
}

TEST_CASE("progress says loss, speed and time left") {
  StepRecord record;
  record.step = 12;
  record.loss = 5.4321f;
  record.samples_per_s = 40;
  record.tokens_per_s = 1280;
  CHECK(progress_text(record, 100, 83) == "step 12/100  loss 5.4321  1280 tokens/s  1:23 left");
  CHECK(progress_text(record, 12, 0) == "step 12/12  loss 5.4321  1280 tokens/s");
  record.dropped = 0;
  CHECK(progress_text(record, 12, 0) == "step 12/12  loss 5.4321  1280 tokens/s");
  record.dropped = 7;
  CHECK(progress_text(record, 100, 83) == "step 12/100  loss 5.4321  1280 tokens/s  7 rows dropped  1:23 left");
  record.dropped.reset();
  record.tokens_per_s = 0;
  CHECK(progress_text(record, 100, 3661) == "step 12/100  loss 5.4321  40 samples/s  1:01:01 left");
}

TEST_CASE("a log that cannot be written is R0601") {
  auto log = StepLog::open("/nowhere/at/all.jsonl");
  REQUIRE_FALSE(log.ok());
  CHECK(log.error().code == "R0601");
}

}  // namespace
}  // namespace piper::trace
