// The file of `piper-run --digest`: what the values of training steps were, as JSON lines. The runtime writes it,
// `piper-plan bisect` compares two. The first line says which run it is of, every other line is one value:
//
//   {"piper_digest":1,"plan":"9f..","model":"41..","world_size":2,"seed":7,"batch":16}
//   {"step":3,"rank":1,"instruction":4,"call":2,"output":0,"value":"tanh_1 (h.0)","line":"model.py:27","kernel":"tanh",
//    "nth":0,"chunk":"PP1","pass":"F","samples":[4,4],"at":"s.yaml:9:5","dtype":"f32","shape":[4,10],
//    "digest":"16 hexadecimal digits","sum":1.5,"largest":0.9,"not_finite":0}          (all on one line)
//
// Lines are in an order of the ranks' instructions that goes with the flow of data: the first one in which two runs
// of a bundle differ is where they begin to differ. The reader takes no line on trust: R0812.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "schemas/base/status.h"
#include "schemas/plan/dtype.h"

namespace piper::digest {

inline constexpr int kFormatVersion = 1;

// Statistics of the elements of one value.
struct Statistic {
  uint64_t digest = 0;     // XXH3-64 of the elements, dense and row-major
  double sum = 0;          // of the finite elements, added in f64 one after the other
  double largest = 0;      // magnitude of the finite elements
  int64_t not_finite = 0;  // elements
  friend bool operator==(const Statistic&, const Statistic&) = default;
};

// What a value is: the same in every step of a run.
struct ValueName {
  int32_t rank = 0, instruction = 0;
  int32_t call = -1;        // of the instruction's program; -1: what a message or a collective brought
  int32_t output = 0;       // of the call
  std::string value;        // the model's operator that it is of, else what of the step's work; of a message the buffer
  std::string line;         // of Python, "model.py:27"; "" where the model's file does not say
  std::string kernel;       // or the kind of message: "recv"
  int32_t nth = 0;          // of the calls of this kernel for this operator in the program
  std::string chunk, pass;  // "PP1", "F"; "" for work of the whole step
  int64_t first_sample = -1, samples = 0;  // of the step's batch; -1: not a matter of samples, or not known
  std::string at;                          // line of the strategy that the instruction is of
  bool sums = false;                       // added to what was there before
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
};

struct ValueRecord {
  int64_t step = 0;  // from 1
  ValueName name;
  Statistic statistic;
};

struct Header {
  std::string plan, model;  // SHA-256 of the bundle's manifest and of the model's file
  int32_t world_size = 1;
  uint64_t seed = 0;
  int64_t batch = 0;  // samples of a step
};

// One line each, without the newline.
std::string header_line(const Header& header);
std::string value_line(const ValueRecord& record);
// "16 hexadecimal digits".
std::string digest_text(uint64_t digest);

struct DigestFile {
  Header header;
  std::vector<ValueRecord> values;  // as they are in the file
};
// R0812: it cannot be read, or is none; the message has the line.
Result<DigestFile> read_digest_file(const std::string& path);
Result<DigestFile> parse_digests(std::string_view text, const std::string& file);

}  // namespace piper::digest
