// The --log file: one JSON object a step and a last line with the summary, written by the reporting
// rank. Numbers are the shortest text that reads back to the same value; a loss that is not a number
// is written as NaN or Infinity, as Python reads it.
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "schemas/base/status.h"

namespace piper::trace {

struct StepRecord {
  int64_t step = 0;  // from 1
  float loss = 0;    // mean over the global batch, before this step's update
  double step_ms = 0;
  double data_wait_s = 0;   // how much of it the reporting rank waited for its samples
  double tokens_per_s = 0;  // 0: samples are no token sequences; the field is left out
  double samples_per_s = 0;
  std::optional<double> mfu;  // of the peak of all ranks' devices, what the model's products use; 1: all of it
  double lr = 0;
  uint64_t samples_fingerprint = 0;  // which samples the step trained on, whatever the strategy
  std::optional<float> grad_norm;
  std::vector<std::pair<std::string, float>> grad_norms;  // of the optimizer's groups, by name; empty: not known
  std::optional<float> loss_scale;                        // after the step
  std::optional<int64_t> skipped;                         // steps so far that an overflow left without an update
  std::optional<int64_t> loss_spikes;                     // so far, of this run (loss_spikes.h)
  std::optional<int64_t> dropped;  // rows that experts had no place for, of all layers, microbatches and ranks
};

struct EvaluationRecord {
  int64_t step = 0;  // after which
  double loss = 0;   // mean over all terms of its batches
  std::optional<double> perplexity;
};

struct Summary {
  int64_t steps = 0;
  double median_step_ms = 0;
  double total_s = 0;
  std::vector<int64_t> peak_memory_bytes;  // by rank
};

// One line each, without the newline.
std::string step_line(const StepRecord& record);
std::string evaluation_line(const EvaluationRecord& record);
std::string summary_line(const Summary& summary);
// 16 hexadecimal digits: JSON's numbers have no 64 bits.
std::string fingerprint_text(uint64_t value);
// Shortest text that reads back to the same value.
std::string number_text(double value);
std::string number_text(float value);

class StepLog {
 public:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  using File = std::unique_ptr<std::FILE, Close>;

  // R0601 when the file cannot be written, or another run writes it. An empty path writes nowhere.
  static Result<StepLog> open(const std::string& path);
  // Keeps the lines of earlier runs up to the first of a step after `step`, which is where this one goes on, or one
  // that is no step's, and says so in a line. Of what is no file nothing is kept.
  static Result<StepLog> resume(const std::string& path, int64_t step);
  // Each line is flushed, so that a run can be followed. R0601.
  Status write(const std::string& line);

 private:
  static Status cut(const StepLog& log, int64_t bytes);

  File file_;
  std::string path_;
};

}  // namespace piper::trace
