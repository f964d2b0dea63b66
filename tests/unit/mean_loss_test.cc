// The mean over all terms of several batches, not of their means; losses as text.
#include <catch2/catch.hpp>

#include <cmath>

#include "runtime/exec/session/best_file.h"
#include "runtime/exec/session/evaluation.h"

using piper::exec::MeanLoss;

TEST_CASE("terms are divided by what all batches counted") {
  MeanLoss loss(1);
  loss.add(0, 30, 10.0f);  // 3
  loss.add(0, 2, 2.0f);    // 1
  CHECK(loss.value() == 32.0 / 12);
}

TEST_CASE("a term that counts nothing is averaged over batches, beside one that counts") {
  MeanLoss loss(2);
  for (const float statistic : {0.5f, 0.25f}) loss.add(1, statistic, std::nullopt);
  loss.add(0, 4, 1.0f);
  loss.add(0, 8, 3.0f);
  CHECK(loss.value() == 3 + 0.375);
}

TEST_CASE("labels that never count give no number") {
  MeanLoss loss(1);
  loss.add(0, 0, 0.0f);
  CHECK(std::isnan(loss.value()));
}

TEST_CASE("sums of many batches do not lose what a float would") {
  MeanLoss loss(1);
  loss.add(0, 1e8f, 1.0f);
  for (int i = 0; i < 1000; ++i) loss.add(0, 1, 1.0f);
  CHECK(loss.value() == (1e8 + 1000) / 1001);
}

TEST_CASE("a loss is read back from its text as it was") {
  for (const double loss : {0.1, 1.0 / 3, -2.5e-300, 1e300, HUGE_VAL, -HUGE_VAL})
    CHECK(piper::exec::parse_loss(piper::exec::loss_text(loss)) == loss);
  for (const char* none : {"", "x", "1.5x", "nan", "-nan"}) CHECK(std::isnan(piper::exec::parse_loss(none)));
}
