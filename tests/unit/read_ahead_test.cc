// Reading samples ahead: every step gets its own, no more than two steps are held, errors come with their step.
#include <catch2/catch.hpp>

#include <setjmp.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <fstream>
#include <stdexcept>

#include "runtime/data/guarded_read.h"
#include "runtime/data/read_ahead.h"
#include "tests/unit/temp_folder.h"

namespace piper::data {
namespace {

// One i64 a sample: input, step and position in decimal digits.
class NumberedSource : public DataSource {
 public:
  int64_t fails_at = 0;                  // step whose reading throws
  mutable std::atomic<int64_t> last{0};  // step that was read
  mutable std::atomic<int64_t> calls{0};

  void fill(size_t input, int64_t step, int64_t first, int64_t count, std::byte* destination) const override {
    if (step > last) last = step;
    ++calls;
    if (step == fails_at) throw std::runtime_error("step " + std::to_string(step));
    for (int64_t i = 0; i < count; ++i) {
      const int64_t value = number(input, step, first + i);
      std::memcpy(destination + i * 8, &value, 8);
    }
  }
  uint64_t sample_id(int64_t step, int64_t position) const override {
    return static_cast<uint64_t>(number(0, step, position));
  }
  int64_t num_samples() const override { return 1000; }
  Sampling sampling() const override { return Sampling::kSequential; }
  int64_t tokens_per_sample() const override { return 0; }

  static int64_t number(size_t input, int64_t step, int64_t position) {
    return static_cast<int64_t>(input) * 1000000 + step * 100 + position;
  }
};

const std::vector<ReadAhead::Part> kParts = {{0, 4, 3, 24}, {2, 0, 1, 8}};

std::vector<int64_t> expected(int64_t step) {
  return {NumberedSource::number(0, step, 4), NumberedSource::number(0, step, 5), NumberedSource::number(0, step, 6),
          NumberedSource::number(2, step, 0)};
}

std::vector<int64_t> taken(ReadAhead& ahead, int64_t step) {
  std::vector<int64_t> values(4);
  std::memcpy(values.data(), ahead.take(step), 32);
  return values;
}

TEST_CASE("every step gets its own samples, and no more than two steps are held") {
  const NumberedSource source;
  ReadAhead ahead(source, kParts, 5, 60);
  CHECK(ahead.bytes() == 64);
  for (int64_t step = 5; step <= 60; ++step) {
    CHECK(taken(ahead, step) == expected(step));
    CHECK(ahead.waited_s() >= 0);
    CHECK(source.last <= step + 1);  // this one and the next
    ahead.release();
  }
  CHECK(source.last == 60);
  CHECK(source.calls == 2 * 56);
}

TEST_CASE("a run without steps or inputs reads nothing") {
  const NumberedSource source;
  {
    const ReadAhead none(source, kParts, 7, 6);
  }
  ReadAhead empty(source, {}, 1, 3);
  for (int64_t step = 1; step <= 3; ++step) {
    (void)empty.take(step);
    empty.release();
  }
  CHECK(source.calls == 0);
  CHECK(empty.bytes() == 0);
}

TEST_CASE("a run that stops early ends the reading") {
  const NumberedSource source;
  for (int64_t steps = 0; steps < 4; ++steps) {
    ReadAhead ahead(source, kParts, 1, int64_t{1} << 40);
    for (int64_t step = 1; step <= steps; ++step) {
      CHECK(taken(ahead, step) == expected(step));
      ahead.release();
    }
  }
}

TEST_CASE("an exception comes at the step whose samples it is about") {
  NumberedSource source;
  source.fails_at = 3;
  ReadAhead ahead(source, kParts, 1, 5);
  for (int64_t step : {1, 2}) {
    CHECK(taken(ahead, step) == expected(step));
    ahead.release();
  }
  CHECK_THROWS_WITH(ahead.take(3), "step 3");
  ahead.release();
  CHECK(taken(ahead, 4) == expected(4));
}

thread_local sigjmp_buf* expecting = nullptr;

void on_bus_error(int) {
  leave_guarded_read();
  if (expecting != nullptr) siglongjmp(*expecting, 1);
  _exit(70);
}

// Reads step `step`; false where the bytes are gone for the thread that takes it.
bool take_or_fault(ReadAhead& ahead, int64_t step, int64_t& value) {
  sigjmp_buf here;
  expecting = &here;
  if (sigsetjmp(here, 1) != 0) {
    expecting = nullptr;
    return false;
  }
  std::memcpy(&value, ahead.take(step), 8);
  expecting = nullptr;
  return true;
}

TEST_CASE("bytes that are gone are met by the step that needs them") {
  struct sigaction action{}, before{};
  action.sa_handler = on_bus_error;
  sigaction(SIGBUS, &action, &before);
  TempFolder folder;
  const std::string path = folder.write("t.bin", std::string(1 << 16, 'a'));
  plan::Manifest manifest;
  manifest.batch = 1;
  plan::InputDecl tokens;
  tokens.name = "idx";
  tokens.sample_shape = {4096};
  tokens.feed = plan::Feed::kTokens;
  manifest.inputs = {tokens};
  DataOptions options;
  options.path = path;
  options.sampling = Sampling::kSequential;
  options.token_dtype = "u8";
  const auto source = DataSource::open(options, manifest);
  REQUIRE(source.ok());
  REQUIRE(truncate(path.c_str(), 3 * 4096) == 0);
  {
    ReadAhead ahead(**source, {{0, 0, 1, 4096 * 8}}, 1, 15);
    int64_t value = 0;
    for (int64_t step = 1; step <= 3; ++step) {
      REQUIRE(take_or_fault(ahead, step, value));
      CHECK(value == 'a');
      ahead.release();
    }
    CHECK_FALSE(take_or_fault(ahead, 4, value));
  }
  sigaction(SIGBUS, &before, nullptr);
}

}  // namespace
}  // namespace piper::data
