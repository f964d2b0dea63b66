// The lines of the step log and the progress text.
#include <catch2/catch.hpp>

#include <cmath>

#include "runtime/trace/progress.h"
#include "runtime/trace/step_log.h"

namespace piper::trace {
namespace {

TEST_CASE("a step is one JSON object") {
  StepRecord record;
  record.step = 3;
  record.loss = 5.54f;
  record.step_ms = 41.25;
  record.samples_per_s = 200;
  record.lr = 3e-4;
  CHECK(step_line(record) == R"({"step": 3, "loss": 5.54, "step_ms": 41.25, "samples_per_s": 200, "lr": 3e-04})");
  record.tokens_per_s = 6400;
  record.grad_norm = 0.5f;
  CHECK(step_line(record) == R"({"step": 3, "loss": 5.54, "step_ms": 41.25, "tokens_per_s": 6400, "samples_per_s": 200, "lr": 3e-04, "grad_norm": 0.5})");
  CHECK(summary_line({20, 41.5, 2, {100, 200}}) ==
        R"({"summary": {"steps": 20, "median_step_ms": 41.5, "total_s": 2, "peak_memory_bytes": [100, 200]}})");
}

TEST_CASE("a loss that is no number is reported as it is") {
  StepRecord record;
  record.loss = std::nanf("");
  CHECK(step_line(record).find("\"loss\": NaN") != std::string::npos);
  record.loss = -INFINITY;
  CHECK(step_line(record).find("\"loss\": -Infinity") != std::string::npos);
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
