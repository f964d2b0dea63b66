// Training data of a run: fills the plan's input buffers, step by step. Kinds of source: tensor files (one tensor per
// model input), a token stream, and several token streams mixed. Read-only after open(), so all ranks of a
// process share one. Sampling depends on seed, step and sample alone, never on ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "schemas/base/status.h"
#include "schemas/plan/plan.h"

namespace piper::data {

enum class Sampling : uint8_t {
  kSequential,  // samples in file order; the default of tensor files
  kShuffled,    // a permutation an epoch (tensor files), or random starts (token streams, their default)
};

struct DataOptions {
  std::string path;
  std::string at;                    // the path's place in the strategy, for messages; "" elsewhere
  std::vector<plan::DataPath> mix;   // instead of a path
  std::optional<Sampling> sampling;  // none: the source's default
  uint64_t seed = 0;
  std::string token_dtype;    // of all raw files: "u8", "u16", "u32", "i32", or "" to go by their names
  int64_t document_end = -1;  // the token that ends a document; -1: none
};

// R0201 where nothing is there.
Status check_path(const std::string& path);

// Where sample `position` of step `step` (from 1) is in the endless sequence of epochs, both from 0. Every step and
// batch has a place: epochs are counted modulo 2^62.
struct Place {
  int64_t epoch = 0, sample = 0;
};
Place place_of(int64_t step, int64_t batch, int64_t position, int64_t samples);

class DataSource {
 public:
  virtual ~DataSource() = default;
  // R0201 cannot be read, R0202 an input has no data, R0203 shapes, R0204 element types, R0205 numbers
  // of samples differ, R0206 a token stream cannot feed the inputs, R0207 too short, R0208 bad .npy, R0210 sources that
  // cannot be mixed, R0213 a file that is no data.
  static Result<std::unique_ptr<DataSource>> open(const DataOptions& options, const plan::Manifest& manifest);

  // Writes samples [first, first + count) of step `step` (from 1) of one input, in its own dtype and
  // contiguous, to `destination`. Thread-safe; allocates nothing.
  virtual void fill(size_t input_index, int64_t step, int64_t first, int64_t count, std::byte* destination) const = 0;
  // Which sample of the data that is: equal for equal samples of whatever step, and for every strategy of one batch.
  virtual uint64_t sample_id(int64_t step, int64_t position) const = 0;
  // Samples of one pass; of a mix, of all sources together.
  virtual int64_t num_samples() const = 0;
  virtual Sampling sampling() const = 0;
  // Whether the n-th sample of a run is one and the same for every batch. Else samples are drawn by their step and
  // their place in it, and a run that goes on with another batch draws on with its next step, so that it does not draw
  // what it has seen.
  virtual bool numbers_samples() const { return true; }
  // What is read, for people: files, kind, type, tokens; a line for each of several sources.
  virtual std::vector<std::string> description() const { return {}; }
  // Positions of a token sample, 0 where samples are no tokens.
  virtual int64_t tokens_per_sample() const = 0;

  // A digest of the ids of a step's samples in their order, by which a log shows steps that are repeated or left out.
  uint64_t fingerprint(int64_t step, int64_t batch) const;

  // Steps of one pass, at least 1.
  int64_t steps_per_epoch(int64_t batch) const;
  // The epoch (from 1) that begins in this step after the first, 0 if none. Samples without numbers have no epochs.
  int64_t epoch_beginning_in(int64_t step, int64_t batch) const;
  // What to report of epochs that begin in this step; "" for nothing.
  virtual std::string epoch_note(int64_t step, int64_t batch) const;
};

}  // namespace piper::data
