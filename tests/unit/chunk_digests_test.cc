// Digests of the pieces of weights files, in the manifest and when they are read; a manifest that is read once.
#include <catch2/catch.hpp>

#include <fstream>
#include <iterator>
#include <string>

#include "schemas/plan/bundle_io.h"
#include "schemas/plan/chunk_digests.h"
#include "tests/unit/plan_bundle_example.h"
#include "tests/unit/temp_folder.h"

using namespace piper;
using namespace piper::plan;

namespace {

std::string message(const Status& status) {
  return status.ok() ? "ok" : status.error().code + " " + status.error().message;
}

// Known answers of RFC 3720, B.4, and of every table of CRCs.
TEST_CASE("CRC32C gives the published numbers") {
  CHECK(crc32c("123456789") == 0xe3069283);
  CHECK(crc32c(std::string(32, '\0')) == 0x8a9136aa);
  CHECK(crc32c(std::string(32, '\xff')) == 0x62a8ab43);
  CHECK(crc32c("") == 0);
  std::string text;
  for (int i = 0; i < 40; ++i) {
    CHECK(crc32c_by_tables(text) == crc32c(text));
    text += static_cast<char>(37 * i + 200);
  }
}

TEST_CASE("a file has a digest of each MiB") {
  const std::string text(static_cast<size_t>(2 * kChunkBytes + 9), 'a');
  CHECK(chunk_digests("").empty());
  CHECK(chunk_digests(text.substr(0, static_cast<size_t>(kChunkBytes))).size() == 1);
  const auto digests = chunk_digests(text);
  REQUIRE(digests.size() == 3);
  CHECK(digests[0] == digests[1]);
  CHECK(digests[2] == crc32c("aaaaaaaaa"));
  for (const int64_t bytes : {int64_t{0}, int64_t{1}, kChunkBytes, kChunkBytes + 1, 2 * kChunkBytes})
    CHECK(chunk_count(bytes) == static_cast<int64_t>(chunk_digests(text.substr(0, static_cast<size_t>(bytes))).size()));
}

TEST_CASE("chunks are checked where they are read, each once") {
  const TempFolder folder;
  std::string text(static_cast<size_t>(3 * kChunkBytes + 500), 'a');
  FileEntry entry{"weights/x", "", static_cast<int64_t>(text.size()), chunk_digests(text)};
  text[static_cast<size_t>(kChunkBytes) + 77] = 'b';
  folder.write(entry.path, text);
  const auto opened = ChunkedFile::open(folder.path().string(), entry);
  REQUIRE(opened.ok());
  const ChunkedFile& file = **opened;
  const std::byte* const data = file.file().data;
  const std::string bad =
      "P0604 " + folder / "weights/x" +
      ": damaged or changed by hand: the 1048576 bytes from 1048576 on differ from the manifest (CRC32C)";
  CHECK(message(file.check(data, kChunkBytes)) == "ok");
  CHECK(message(file.check(data + kChunkBytes, 0)) == "ok");
  CHECK(message(file.check(data + 2 * kChunkBytes, kChunkBytes + 500)) == "ok");
  for (int twice = 0; twice < 2; ++twice) {
    CHECK(message(file.check(data + kChunkBytes - 1, 2)) == bad);
    CHECK(message(file.check(data + 2 * kChunkBytes - 1, 1)) == bad);
  }
  folder.write(entry.path, std::string(text.size(), 'c'));  // what was read is not read again
  CHECK(message(file.check(data, kChunkBytes)) == "ok");
  CHECK(file.holds(data + entry.bytes - 1));
  CHECK_FALSE(file.holds(data + entry.bytes));
  entry.bytes += 1;
  CHECK(message(ChunkedFile::open(folder.path().string(), entry).status()) ==
        "P0604 " + folder / "weights/x" + ": damaged or changed by hand: 3146228 bytes, the manifest says 3146229");
}

TEST_CASE("the manifest has the digests of the weights files, and of no other") {
  auto bundle = example::two_ranks();
  bundle.manifest.files = {{"ranks/rank-00000.json", "00", 3},
                           {"weights/model.safetensors", "00", kChunkBytes + 1, {0xe3069283, 0x1}}};
  const auto text = print_manifest(bundle.manifest);
  CHECK(text.find(R"({"file":"ranks/rank-00000.json","bytes":3,"sha256":"00"},)") != std::string::npos);
  CHECK(text.find(R"("bytes":1048577,"sha256":"00","chunks":["e3069283","00000001"]})") != std::string::npos);
  const auto parsed = parse_manifest(text, "m");
  REQUIRE(message(parsed.status()) == "ok");
  CHECK(print_manifest(*parsed) == text);
  const auto damaged = [&](const std::string& from, const std::string& to) {
    auto changed = text;
    changed.replace(changed.find(from), from.size(), to);
    return message(parse_manifest(changed, "m").status());
  };
  CHECK(damaged("\"e3069283\",", "") ==
        "P0607 m:33: \"weights/model.safetensors\" has 1 digests, its 1048577 bytes are 2 chunks");
  CHECK(damaged("e3069283", "E3069283") ==
        "P0605 m:33: the digest of a chunk is 8 hexadecimal digits, not \"E3069283\"");
  CHECK(damaged("e3069283", "e306928") == "P0605 m:33: the digest of a chunk is 8 hexadecimal digits, not \"e306928\"");
  CHECK(damaged(",\"chunks\":[\"e3069283\",\"00000001\"]", "").substr(0, 10) == "P0605 m:33");
  CHECK(damaged("\"sha256\":\"00\"}", "\"sha256\":\"00\",\"chunks\":[]}").substr(0, 10) == "P0605 m:32");
}

// What was opened is what is read: files of another bundle at that place do not pass for it.
TEST_CASE("a manifest is read once") {
  const TempFolder folder;
  auto bundle = example::two_ranks();
  REQUIRE(message(write_bundle(folder / "p", bundle, {}, {}, WeightMode::kNone)) == "ok");
  const auto opened = open_bundle(folder / "p");
  REQUIRE(opened.ok());
  std::ifstream in(folder / "p/manifest.json", std::ios::binary);
  CHECK(opened->digest == sha256(std::string(std::istreambuf_iterator<char>(in), {})));
  CHECK(message(read_bundle(*opened).status()) == "ok");
  bundle.provenance[0].text = "another";
  REQUIRE(message(write_bundle(folder / "p", bundle, {}, {}, WeightMode::kNone)) == "ok");
  CHECK(message(read_bundle(*opened).status()).substr(0, 5) == "P0604");
  CHECK(open_bundle(folder / "p")->digest != opened->digest);
}

}  // namespace
