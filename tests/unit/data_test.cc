// Training data: the generator, tensor files, token streams, sampling, mismatches.
#include <catch2/catch.hpp>

#include <algorithm>
#include <cstring>

#include "runtime/data/data_source.h"
#include "runtime/data/permutation.h"
#include "runtime/data/philox.h"
#include "schemas/plan/safetensors.h"
#include "tests/unit/temp_folder.h"

namespace piper::data {
namespace {

template <class T>
std::string raw(const std::vector<T>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

plan::TensorToWrite tensor(const std::string& name, DType dtype, std::vector<int64_t> shape, std::string bytes) {
  plan::TensorToWrite t{name, dtype, std::move(shape), {}, static_cast<int64_t>(bytes.size())};
  t.produce = [bytes](const auto& write) { return write(bytes.data(), static_cast<int64_t>(bytes.size())); };
  return t;
}

std::string npy(const std::string& descr, const std::string& shape, const std::string& data) {
  std::string header = "{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + shape + ", }";
  header.resize(118, ' ');
  header.back() = '\n';
  return std::string("\x93NUMPY\x01\x00\x76\x00", 10) + header + data;
}

plan::Manifest manifest_of(int64_t batch, std::vector<plan::InputDecl> inputs) {
  plan::Manifest manifest;
  manifest.batch = batch;
  manifest.inputs = std::move(inputs);
  return manifest;
}

plan::InputDecl input(const std::string& name, DType dtype, std::vector<int64_t> shape,
                      plan::Feed feed = plan::Feed::kNone) {
  plan::InputDecl declared;
  declared.name = name;
  declared.dtype = dtype;
  declared.sample_shape = std::move(shape);
  declared.feed = feed;
  return declared;
}

std::unique_ptr<DataSource> must_open(const DataOptions& options, const plan::Manifest& manifest) {
  auto source = DataSource::open(options, manifest);
  INFO((source.ok() ? "" : source.error().message));
  REQUIRE(source.ok());
  return std::move(source).value();
}

Error open_error(const DataOptions& options, const plan::Manifest& manifest) {
  auto source = DataSource::open(options, manifest);
  REQUIRE_FALSE(source.ok());
  return source.error();
}

std::vector<int64_t> read_i64(const DataSource& source, size_t index, int64_t step, int64_t first, int64_t count,
                              int64_t elements) {
  std::vector<int64_t> values(static_cast<size_t>(count * elements), -1);
  source.fill(index, step, first, count, reinterpret_cast<std::byte*>(values.data()));
  return values;
}

DataOptions at(const std::string& path) {
  DataOptions options;
  options.path = path;
  return options;
}

// Known answers of the reference implementation (Random123, kat_vectors).
TEST_CASE("Philox4x32-10 gives the published numbers") {
  CHECK(philox4x32_10({0, 0, 0, 0}, 0) == PhiloxCounter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(philox4x32_10({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, ~uint64_t{0}) ==
        PhiloxCounter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox4x32_10({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, 0x299f31d0a4093822) ==
        PhiloxCounter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("tensor files are read in order, begin again at their end and widen integers") {
  TempFolder folder;
  const std::string path = folder / "d.safetensors";
  REQUIRE(plan::write_safetensors(
              path, {tensor("x", DType::kI32, {5, 2}, raw<int32_t>({0, 1, 10, 11, 20, 21, 30, 31, 40, -41}))})
              .ok());
  auto source = must_open(at(path), manifest_of(2, {input("x", DType::kI64, {2})}));
  CHECK(source->num_samples() == 5);
  CHECK(source->steps_per_epoch(2) == 2);
  CHECK(source->sampling() == Sampling::kSequential);
  CHECK(source->tokens_per_sample() == 2);
  CHECK(read_i64(*source, 0, 1, 0, 2, 2) == std::vector<int64_t>{0, 1, 10, 11});
  CHECK(read_i64(*source, 0, 2, 1, 1, 2) == std::vector<int64_t>{30, 31});
  CHECK(read_i64(*source, 0, 3, 0, 2, 2) == std::vector<int64_t>{40, -41, 0, 1});
  CHECK(source->epoch_beginning_in(1, 2) == 0);
  CHECK(source->epoch_beginning_in(2, 2) == 0);
  CHECK(source->epoch_beginning_in(3, 2) == 2);
  CHECK(source->epoch_beginning_in(4, 2) == 0);
  CHECK(source->epoch_beginning_in(6, 2) == 3);
}

TEST_CASE("shuffled tensors take every sample once an epoch, in another order each") {
  TempFolder folder;
  std::vector<int64_t> values(12);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<int64_t>(i);
  const std::string path = folder / "d.safetensors";
  REQUIRE(plan::write_safetensors(path, {tensor("x", DType::kI64, {12}, raw(values))}).ok());
  DataOptions options = at(path);
  options.sampling = Sampling::kShuffled;
  options.seed = 7;
  auto source = must_open(options, manifest_of(4, {input("x", DType::kI64, {})}));
  std::vector<std::vector<int64_t>> epochs(2);
  for (int64_t step = 1; step <= 6; ++step) {
    auto batch = read_i64(*source, 0, step, 0, 4, 1);
    auto& epoch = epochs[static_cast<size_t>((step - 1) / 3)];
    epoch.insert(epoch.end(), batch.begin(), batch.end());
  }
  for (int64_t epoch : {0, 1})
    for (int64_t i = 0; i < 12; ++i)
      CHECK(epochs[static_cast<size_t>(epoch)][static_cast<size_t>(i)] == permuted_sample(7, epoch, 12, i));
  CHECK(epochs[0] != epochs[1]);
  for (auto& epoch : epochs) {
    std::sort(epoch.begin(), epoch.end());
    CHECK(epoch == values);
  }
}

// What step and position name does not depend on what was read before: a source that begins anywhere reads what one
// that began at the first step reads there.
TEST_CASE("a run that begins at any step reads what an uninterrupted one reads") {
  TempFolder folder;
  std::vector<int64_t> values(11);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<int64_t>(i);
  const std::string tensors = folder / "d.safetensors";
  REQUIRE(plan::write_safetensors(tensors, {tensor("x", DType::kI64, {11, 1}, raw(values))}).ok());
  const std::string tokens = folder.write("t.txt", "0123456789abcdefghijklmnopqrstuvwxyz");
  const plan::Manifest manifest = manifest_of(4, {input("x", DType::kI64, {1}, plan::Feed::kTokens)});
  for (const std::string& path : {tensors, tokens})
    for (const auto sampling : {Sampling::kSequential, Sampling::kShuffled}) {
      DataOptions options = at(path);
      options.sampling = sampling;
      options.seed = 3;
      const auto uninterrupted = must_open(options, manifest);
      std::vector<std::vector<int64_t>> steps;
      std::vector<uint64_t> fingerprints;
      for (int64_t step = 1; step <= 12; ++step) {
        steps.push_back(read_i64(*uninterrupted, 0, step, 0, 4, 1));
        fingerprints.push_back(uninterrupted->fingerprint(step, 4));
      }
      for (int64_t first = 12; first >= 1; --first) {
        const auto resumed = must_open(options, manifest);
        for (int64_t step = first; step <= 12; ++step) {
          const std::vector<int64_t>& whole = steps[static_cast<size_t>(step - 1)];
          CHECK(read_i64(*resumed, 0, step, 0, 4, 1) == whole);
          CHECK(resumed->fingerprint(step, 4) == fingerprints[static_cast<size_t>(step - 1)]);
          for (int64_t j = 0; j < 4; ++j)
            CHECK(read_i64(*resumed, 0, step, j, 1, 1)[0] == whole[static_cast<size_t>(j)]);
        }
      }
    }
}

TEST_CASE("a fingerprint tells steps apart and samples of one step from another order of them") {
  TempFolder folder;
  const std::string path = folder / "d.safetensors";
  REQUIRE(plan::write_safetensors(path, {tensor("x", DType::kI64, {6}, raw<int64_t>({0, 1, 2, 3, 4, 5}))}).ok());
  const auto source = must_open(at(path), manifest_of(3, {input("x", DType::kI64, {})}));
  CHECK(source->sample_id(2, 1) == 4);
  CHECK(source->fingerprint(1, 3) != source->fingerprint(2, 3));
  CHECK(source->fingerprint(1, 3) == source->fingerprint(3, 3));  // the next epoch
  // A batch of two in three steps, one of six in one.
  const auto cut = must_open(at(path), manifest_of(2, {input("x", DType::kI64, {})}));
  CHECK(cut->fingerprint(1, 2) != source->fingerprint(1, 3));
  CHECK(source->fingerprint(1, 2) == cut->fingerprint(1, 2));
  DataOptions shuffled = at(path);
  shuffled.sampling = Sampling::kShuffled;
  const auto mixed = must_open(shuffled, manifest_of(6, {input("x", DType::kI64, {})}));
  CHECK(mixed->fingerprint(1, 6) != mixed->fingerprint(2, 6));
}

// Numbers that a manifest and --steps may hold: their product is beyond 64 bits.
TEST_CASE("every step of every batch has its samples") {
  const int64_t most = INT64_MAX;
  CHECK(place_of(most, most, most - 1, most).sample == most - 1);
  CHECK(place_of(most, most, most - 1, most).epoch == (most - 1) % (int64_t{1} << 62));
  TempFolder folder;
  const std::string path = folder / "d.safetensors";
  REQUIRE(plan::write_safetensors(path, {tensor("x", DType::kI64, {5}, raw<int64_t>({0, 1, 2, 3, 4}))}).ok());
  const int64_t batch = int64_t{1} << 62;  // 4 modulo 5
  for (const auto sampling : {Sampling::kSequential, Sampling::kShuffled}) {
    DataOptions options = at(path);
    options.sampling = sampling;
    const auto source = must_open(options, manifest_of(batch, {input("x", DType::kI64, {})}));
    for (int64_t step : {2, 3, 4, 9}) {
      const int64_t place = (step - 1) * 4 % 5, value = read_i64(*source, 0, step, 0, 1, 1)[0];
      if (sampling == Sampling::kSequential) CHECK(value == place);
      else CHECK(value == permuted_sample(0, place_of(step, batch, 0, 5).epoch, 5, place));
      CHECK(source->epoch_beginning_in(step, batch) == place_of(step, batch, batch - 1, 5).epoch + 1);
    }
  }
  DataOptions tokens = at(folder.write("t.txt", "abcdef"));
  tokens.sampling = Sampling::kSequential;
  CHECK(read_i64(*must_open(tokens, manifest_of(batch, {input("x", DType::kI64, {1}, plan::Feed::kTokens)})), 0, 9, 2,
                 1, 1) == std::vector<int64_t>{'a' + (8 * 4 + 2) % 5});
}

TEST_CASE("directories of .npy files are read") {
  TempFolder folder;
  folder.write("x.npy", npy("<f4", "(3, 2)", raw<float>({1, 2, 3, 4, 5, 6})));
  folder.write("y.npy", npy("|u1", "(3,)", raw<uint8_t>({7, 8, 255})));
  auto source = must_open(at(folder.path().string()),
                          manifest_of(1, {input("x", DType::kF32, {2}), input("y", DType::kI64, {})}));
  float x[2];
  source->fill(0, 2, 0, 1, reinterpret_cast<std::byte*>(x));
  CHECK(x[1] == 4);
  CHECK(read_i64(*source, 1, 3, 0, 1, 1) == std::vector<int64_t>{255});
  folder.write("y.npy", npy(">i4", "(3,)", raw<int32_t>({7, 8, 9})));
  CHECK(open_error(at(folder.path().string()), manifest_of(1, {input("y", DType::kI64, {})})).code == "R0208");
  // Too many elements, and extents that 64 bits do not hold.
  for (const char* shape :
       {"(30,)", "(18446744073709551611,)", "(9223372036854775807,)", "(3, 36893488147419103231)"}) {
    folder.write("y.npy", npy("<i4", shape, raw<int32_t>({7, 8, 9})));
    CHECK(open_error(at(folder.path().string()), manifest_of(1, {input("y", DType::kI64, {})})).code == "R0208");
  }
  CHECK(open_error(at(folder.path().string()), manifest_of(1, {input("z", DType::kI64, {})})).code == "R0202");
}

TEST_CASE("data that does not fit names the input, what is expected and what is there") {
  TempFolder folder;
  const std::string path = folder / "d.safetensors";
  REQUIRE(plan::write_safetensors(path, {tensor("x", DType::kF32, {2, 3}, raw<float>({0, 1, 2, 3, 4, 5})),
                                         tensor("y", DType::kI64, {3}, raw<int64_t>({1, 2, 3}))})
              .ok());
  const Error shape = open_error(at(path), manifest_of(1, {input("x", DType::kF32, {4})}));
  CHECK(shape.code == "R0203");
  CHECK(shape.message == "input 'x' has shape [2, 3] in the data, the plan needs [samples, 4]");
  const Error type = open_error(at(path), manifest_of(1, {input("x", DType::kI64, {3})}));
  CHECK(type.code == "R0204");
  CHECK(type.message.find("f32") != std::string::npos);
  CHECK(open_error(at(path), manifest_of(1, {input("y", DType::kI32, {})})).code == "R0204");
  const Error missing = open_error(at(path), manifest_of(1, {input("z", DType::kF32, {3})}));
  CHECK(missing.code == "R0202");
  CHECK(missing.message.find("holds x, y") != std::string::npos);
  CHECK(open_error(at(path), manifest_of(1, {input("x", DType::kF32, {3}), input("y", DType::kI64, {})})).code ==
        "R0205");
  CHECK(open_error(at(""), manifest_of(1, {})).code == "R0201");
  CHECK(open_error(at(folder / "nothing"), manifest_of(1, {})).code == "R0201");
}

std::vector<plan::InputDecl> language_inputs(int64_t length) {
  return {input("input_ids", DType::kI64, {length}, plan::Feed::kTokens),
          input("labels", DType::kI64, {length}, plan::Feed::kNextTokens)};
}

TEST_CASE("token streams feed tokens and next tokens") {
  TempFolder folder;
  const std::string path = folder.write("t.bin", raw<uint16_t>({100, 101, 102, 103, 104, 105, 106, 65535, 108}));
  DataOptions options = at(path);
  options.sampling = Sampling::kSequential;
  auto source = must_open(options, manifest_of(1, language_inputs(4)));
  CHECK(source->num_samples() == 2);
  CHECK(source->tokens_per_sample() == 4);
  CHECK(read_i64(*source, 0, 2, 0, 1, 4) == std::vector<int64_t>{104, 105, 106, 65535});
  CHECK(read_i64(*source, 1, 2, 0, 1, 4) == std::vector<int64_t>{105, 106, 65535, 108});
  CHECK(read_i64(*source, 0, 3, 0, 1, 4) == std::vector<int64_t>{100, 101, 102, 103});
}

TEST_CASE("text is a stream of bytes, as .u8.bin is, and .u32.bin one of 32-bit tokens") {
  TempFolder folder;
  DataOptions text = at(folder.write("t.txt", "abcdef"));
  text.sampling = Sampling::kSequential;
  CHECK(read_i64(*must_open(text, manifest_of(1, language_inputs(2))), 1, 2, 0, 1, 2) ==
        std::vector<int64_t>{'d', 'e'});
  DataOptions narrow = at(folder.write("t.u8.bin", std::string("\1\377\0", 3)));
  narrow.sampling = Sampling::kSequential;
  CHECK(read_i64(*must_open(narrow, manifest_of(1, language_inputs(2))), 0, 1, 0, 1, 2) ==
        std::vector<int64_t>{1, 255});
  DataOptions wide = at(folder.write("t.u32.bin", raw<uint32_t>({1, 70000, 3})));
  wide.sampling = Sampling::kSequential;
  CHECK(read_i64(*must_open(wide, manifest_of(1, language_inputs(2))), 0, 1, 0, 1, 2) ==
        std::vector<int64_t>{1, 70000});
}

TEST_CASE("shuffled token streams start where the generator says") {
  TempFolder folder;
  std::string bytes(1000, '\0');
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i % 251);
  DataOptions options = at(folder.write("t.txt", bytes));
  options.token_dtype = "u8";  // no text
  options.seed = 0x123456789abcdef0;
  auto source = must_open(options, manifest_of(8, language_inputs(16)));
  CHECK(source->sampling() == Sampling::kShuffled);
  for (int64_t step = 1; step <= 50; ++step) CHECK(source->epoch_note(step, 8).empty());  // 62 samples of 16 tokens
  for (int64_t step : {1, 2, 50}) {
    for (int64_t position : {0, 5}) {
      const PhiloxCounter out =
          philox4x32_10({1, static_cast<uint32_t>(step), static_cast<uint32_t>(position), 0}, options.seed);
      const auto start = static_cast<int64_t>((out[0] | uint64_t{out[1]} << 32) % (1000 - 16));
      CHECK(read_i64(*source, 0, step, position, 1, 16)[0] == start % 251);
      CHECK(read_i64(*source, 1, step, position, 1, 16)[0] == (start + 1) % 251);
    }
  }
}

TEST_CASE("token streams that cannot feed the model are refused") {
  TempFolder folder;
  const std::string path = folder.write("t.txt", "abcd");
  const Error undecided = open_error(at(path), manifest_of(1, {input("mask", DType::kI64, {2})}));
  CHECK(undecided.code == "R0206");
  CHECK(undecided.message.find("'mask'") != std::string::npos);
  CHECK(open_error(at(path), manifest_of(1, language_inputs(4))).code == "R0207");
  CHECK(open_error(at(path), manifest_of(1, {input("x", DType::kF32, {2}, plan::Feed::kTokens)})).code == "R0206");
  CHECK(open_error(at(folder.write("odd.bin", "abc")), manifest_of(1, language_inputs(1))).code == "R0206");
}

}  // namespace
}  // namespace piper::data
