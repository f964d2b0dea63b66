// Several token streams as one data set: which samples they give, what the model gets of documents, what is refused.
#include <catch2/catch.hpp>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "runtime/data/data_digest.h"
#include "runtime/data/data_source.h"
#include "runtime/data/mixture.h"
#include "runtime/data/permutation.h"
#include "runtime/data/philox.h"
#include "tests/unit/temp_folder.h"

namespace piper::data {
namespace {

constexpr int64_t kTokens = 4;

std::string u16(const std::vector<uint16_t>& tokens) {
  return std::string(reinterpret_cast<const char*>(tokens.data()), tokens.size() * 2);
}

// `count` tokens from `first` on.
std::string stream(uint16_t first, int count) {
  std::vector<uint16_t> tokens;
  for (int i = 0; i < count; ++i) tokens.push_back(static_cast<uint16_t>(first + i));
  return u16(tokens);
}

plan::Manifest manifest_of(int64_t batch, const std::vector<plan::Feed>& feeds, DType dtype = DType::kI64) {
  plan::Manifest manifest;
  manifest.batch = batch;
  for (const plan::Feed feed : feeds) {
    plan::InputDecl declared;
    declared.name = "input" + std::to_string(manifest.inputs.size());
    declared.dtype = dtype;
    declared.sample_shape = {kTokens};
    declared.feed = feed;
    manifest.inputs.push_back(declared);
  }
  return manifest;
}

const plan::Manifest kLanguage = manifest_of(4, {plan::Feed::kTokens, plan::Feed::kNextTokens});

std::unique_ptr<DataSource> must_open(const DataOptions& options, const plan::Manifest& manifest = kLanguage) {
  auto source = DataSource::open(options, manifest);
  INFO((source.ok() ? "" : source.error().message));
  REQUIRE(source.ok());
  return std::move(source).value();
}

std::string refusal(const DataOptions& options, const plan::Manifest& manifest = kLanguage) {
  const auto source = DataSource::open(options, manifest);
  REQUIRE_FALSE(source.ok());
  return source.error().code + " " + source.error().message;
}

std::vector<int64_t> sample(const DataSource& source, size_t input, int64_t step, int64_t position) {
  std::vector<int64_t> values(kTokens, -1);
  source.fill(input, step, position, 1, reinterpret_cast<std::byte*>(values.data()));
  return values;
}

// Two files of 10 and 3 samples, and a folder of 2 + 5 samples: 1000.., 2000.., 3000.. and 4000...
DataOptions three(const TempFolder& folder) {
  folder.write("books/b.bin", stream(4000, 5 * kTokens + 3));
  folder.write("books/a.bin", stream(3000, 2 * kTokens + 1));
  folder.write("books/short.bin", stream(9000, kTokens));  // holds no sample
  folder.write("books/.note", "no tokens");
  DataOptions options;
  options.mix = {{folder.write("web.bin", stream(1000, 10 * kTokens + 1)), 4, "s.yaml:7:5"},
                 {folder.write("code.bin", stream(2000, 3 * kTokens + 2)), 1, "s.yaml:8:5"},
                 {folder / "books", 2, "s.yaml:9:5"}};
  options.seed = 11;
  return options;
}

// The first token of sample `n` of source `s` of three().
int64_t first_token(size_t s, int64_t n) {
  if (s < 2) return 1000 * (static_cast<int64_t>(s) + 1) + n * kTokens;
  return n < 2 ? 3000 + n * kTokens : 4000 + (n - 2) * kTokens;
}

TEST_CASE("sample n is that of the mixture and of its source's permutation") {
  const TempFolder folder;
  const int64_t samples[] = {10, 3, 7};
  for (const auto sampling : {Sampling::kShuffled, Sampling::kSequential}) {
    DataOptions options = three(folder);
    options.sampling = sampling;
    const auto source = must_open(options);
    CHECK(source->num_samples() == 20);
    CHECK(source->tokens_per_sample() == kTokens);
    CHECK(source->sampling() == sampling);
    const Mixture mixture({4, 1, 2}, 11);
    std::map<std::pair<size_t, int64_t>, std::set<int64_t>> epochs;
    for (int64_t n = 0; n < 140; ++n) {
      const Mixture::Draw draw = mixture.draw(n);
      const int64_t of = samples[draw.source], epoch = draw.index / of;
      const uint64_t seed = random_bits(11, Purpose::kSource, draw.source, 0);
      const int64_t at =
          sampling == Sampling::kShuffled ? permuted_sample(seed, epoch, of, draw.index % of) : draw.index % of;
      const int64_t first = first_token(draw.source, at);
      CHECK(sample(*source, 0, n / 4 + 1, n % 4) == std::vector<int64_t>{first, first + 1, first + 2, first + 3});
      CHECK(sample(*source, 1, n / 4 + 1, n % 4) == std::vector<int64_t>{first + 1, first + 2, first + 3, first + 4});
      epochs[{draw.source, epoch}].insert(source->sample_id(n / 4 + 1, n % 4));
    }
    for (const auto& [key, seen] : epochs)  // 80, 20 and 40 samples: no epoch repeats a sample, whole ones have all
      CHECK(static_cast<int64_t>(seen.size()) == (key.first == 2 && key.second == 5   ? 5
                                                  : key.first == 1 && key.second == 6 ? 2
                                                                                      : samples[key.first]));
  }
}

TEST_CASE("the samples of a run do not depend on its batch") {
  const TempFolder folder;
  const auto four = must_open(three(folder));
  plan::Manifest large = kLanguage;
  large.batch = 12;
  const auto twelve = must_open(three(folder), large);
  for (int64_t n = 0; n < 120; ++n) {
    CHECK(four->sample_id(n / 4 + 1, n % 4) == twelve->sample_id(n / 12 + 1, n % 12));
    CHECK(sample(*four, 0, n / 4 + 1, n % 4) == sample(*twelve, 0, n / 12 + 1, n % 12));
  }
}

TEST_CASE("a folder alone is one source") {
  const TempFolder folder;
  DataOptions options = three(folder);
  options.path = options.mix[2].path;
  options.mix.clear();
  options.sampling = Sampling::kSequential;
  const auto source = must_open(options);
  CHECK(source->num_samples() == 7);
  for (int64_t n = 0; n < 15; ++n) CHECK(sample(*source, 0, n / 4 + 1, n % 4)[0] == first_token(2, n % 7));
  CHECK(source->epoch_note(1, 4).empty());
  CHECK(source->epoch_note(2, 4) == "'" + options.path + "' begins again, epoch 2");
  CHECK(source->epoch_note(3, 4).empty());
}

TEST_CASE("every source tells its own epochs") {
  const TempFolder folder;
  const DataOptions options = three(folder);
  const auto source = must_open(options);
  std::string told;
  for (int64_t step = 1; step <= 7; ++step) told += source->epoch_note(step, 4);  // 16, 4 and 8 samples
  for (const plan::DataPath& data : options.mix)
    CHECK(told.find("'" + data.path + "' begins again, epoch 2") != std::string::npos);
  CHECK(told.find("epoch 3") == std::string::npos);
}

TEST_CASE("positions and documents of tokens") {
  const TempFolder folder;
  DataOptions options;
  options.path = folder.write("t.bin", u16({7, 0, 8, 8, 0, 0, 9, 9, 9, 9, 9, 0, 9}));
  options.sampling = Sampling::kSequential;
  options.document_end = 0;
  const auto feeds = {plan::Feed::kTokens, plan::Feed::kPositions, plan::Feed::kDocuments};
  const auto source = must_open(options, manifest_of(1, feeds));
  const std::vector<int64_t> positions[] = {{0, 1, 0, 1}, {0, 0, 0, 1}, {0, 1, 2, 3}};
  const std::vector<int64_t> documents[] = {{0, 0, 1, 1}, {0, 1, 2, 2}, {0, 0, 0, 0}};
  for (int64_t step = 1; step <= 3; ++step) {
    CHECK(sample(*source, 1, step, 0) == positions[step - 1]);
    CHECK(sample(*source, 2, step, 0) == documents[step - 1]);
  }
  const auto narrow = must_open(options, manifest_of(1, feeds, DType::kI32));
  int32_t read[kTokens] = {};
  narrow->fill(2, 2, 0, 1, reinterpret_cast<std::byte*>(read));
  CHECK(std::vector<int32_t>(read, read + kTokens) == std::vector<int32_t>{0, 1, 2, 2});
  options.document_end = -1;
  CHECK(refusal(options, manifest_of(1, feeds)).find("R0206 input 'input1' needs the ends of documents") == 0);
}

// Documents of samples that are longer than the block in which tokens are read.
TEST_CASE("positions of long samples") {
  const TempFolder folder;
  std::string bytes;
  for (int i = 0; i < 1001; ++i) bytes += i % 300 == 299 ? '\n' : 'a';
  DataOptions options;
  options.path = folder.write("t.txt", bytes);
  options.sampling = Sampling::kSequential;
  options.document_end = '\n';
  plan::Manifest manifest = manifest_of(1, {plan::Feed::kPositions, plan::Feed::kDocuments});
  for (plan::InputDecl& input : manifest.inputs) input.sample_shape = {1000};
  const auto source = must_open(options, manifest);
  std::vector<int64_t> positions(1000), documents(1000);
  source->fill(0, 1, 0, 1, reinterpret_cast<std::byte*>(positions.data()));
  source->fill(1, 1, 0, 1, reinterpret_cast<std::byte*>(documents.data()));
  for (int64_t i = 0; i < 1000; ++i) {
    CHECK(positions[static_cast<size_t>(i)] == i % 300);
    CHECK(documents[static_cast<size_t>(i)] == i / 300);
  }
}

TEST_CASE("what cannot be mixed is refused with its place in the strategy") {
  const TempFolder folder;
  const DataOptions good = three(folder);
  const auto refused = [&](const std::string& path) {
    DataOptions options = good;
    options.mix[1].path = path;
    return refusal(options);
  };
  CHECK(refused("nothing") == "R0201 data of s.yaml:8:5: there is no data at 'nothing'");
  std::filesystem::create_directory(folder / "empty");
  CHECK(refused(folder / "empty") ==
        "R0201 data of s.yaml:8:5: the folder '" + (folder / "empty") + "' holds no files");
  CHECK(refused(folder.write("w.u32.bin", std::string(400, 'a'))).find("R0210 data of s.yaml:8:5: ") == 0);
  CHECK(refused(folder.write("w.safetensors", "")).find("R0210 data of s.yaml:8:5: ") == 0);
  CHECK(refused(folder.write("s.bin", "aa")).find("R0207 data of s.yaml:8:5: ") == 0);
  CHECK(refused(folder.write("odd.bin", std::string(99, 'a'))).find("R0206 data of s.yaml:8:5: ") == 0);
  folder.write("deep/x/a.bin", stream(0, 100));
  CHECK(refused(folder / "deep").find("R0210 data of s.yaml:8:5: ") == 0);
  folder.write("two/a.bin", stream(0, 100));
  folder.write("two/b.txt", std::string(100, 'b'));
  CHECK(refused(folder / "two").find("R0210 data of s.yaml:8:5: ") == 0);
  DataOptions one;
  one.path = folder / "empty";
  one.at = "s.yaml:7:5";
  CHECK(refusal(one).find("R0201 data of s.yaml:7:5: the folder ") == 0);
}

TEST_CASE("a data set's digest covers every file, every weight and the end of documents") {
  const TempFolder folder;
  const DataOptions options = three(folder);
  const auto digest = [](const DataOptions& of) {
    auto text = data_digest(of), quick = quick_data_digest(of);
    REQUIRE(text.ok());
    REQUIRE(quick.ok());
    CHECK(*quick == *text);  // of files as small as these
    return std::move(text).value();
  };
  const std::string before = digest(options);
  CHECK(digest(options) == before);
  std::set<std::string> all = {before};
  DataOptions other = options;
  other.mix[0].weight = 5;
  CHECK(all.insert(digest(other)).second);
  other = options;
  other.document_end = 3;
  CHECK(all.insert(digest(other)).second);
  other = options;
  other.token_dtype = "u8";
  CHECK(all.insert(digest(other)).second);
  other = options;
  std::swap(other.mix[0], other.mix[1]);
  CHECK(all.insert(digest(other)).second);
  folder.write("books/short.bin", stream(9001, kTokens));
  CHECK(all.insert(digest(options)).second);
  folder.write("books/short.bin", stream(9000, kTokens));
  CHECK(digest(options) == before);
  std::filesystem::rename(folder / "books/a.bin", folder / "books/c.bin");
  CHECK(all.insert(digest(options)).second);
}

TEST_CASE("a data set's digest is of the tokens, whoever says how wide they are") {
  const TempFolder folder;
  const auto digest = [&](const std::string& name, const std::string& dtype) {
    DataOptions of;
    of.path = folder / name;
    of.token_dtype = dtype;
    auto text = data_digest(of);
    REQUIRE(text.ok());
    return std::move(text).value();
  };
  folder.write("a.bin", stream(0, 100));
  folder.write("a.u32.bin", stream(0, 100));
  folder.write("a.txt", "some text");
  CHECK(digest("a.bin", "") == digest("a.bin", "u16"));
  CHECK(digest("a.u32.bin", "") == digest("a.u32.bin", "u32"));
  CHECK(digest("a.txt", "") == digest("a.txt", "u8"));
  CHECK(digest("a.bin", "") != digest("a.bin", "u32"));
}

}  // namespace
}  // namespace piper::data
