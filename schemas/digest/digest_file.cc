#include "schemas/digest/digest_file.h"

#include <charconv>
#include <optional>
#include <tuple>
#include <utility>

#include "schemas/plan/field_reader.h"
#include "schemas/plan/field_writer.h"
#include "schemas/plan/file_bytes.h"

namespace piper::digest {

namespace {

constexpr std::string_view kCode = "R0812";
constexpr size_t kHexDigits = 16, kMostAxes = 16;

void fields(auto& v, Of<Header> auto& header) {
  int64_t version = kFormatVersion;
  v("piper_digest", version,
    {.least = version, .most = version, .says = "not a file of piper-run --digest in format 1"});
  v("plan", header.plan);
  v("model", header.model);
  v("world_size", header.world_size);
  v("seed", header.seed);
  v("batch", header.batch);
}
template <class V>
void fields(V& v, Of<ValueRecord> auto& record) {
  auto& name = record.name;
  v("step", record.step);
  v("rank", name.rank, {.least = 0});
  v("instruction", name.instruction, {.least = 0});
  v("call", name.call, {.least = -1});
  v("output", name.output, {.least = 0});
  v("value", name.value);
  v.optional("line", name.line, "");
  v("kernel", name.kernel);
  v("nth", name.nth, {.least = 0});
  v.together(!name.chunk.empty(), [&] {
    v("chunk", name.chunk);
    v("pass", name.pass);
  });
  std::optional<std::vector<int64_t>> samples;
  if (name.first_sample >= 0) samples = {name.first_sample, name.samples};
  v("samples", samples);
  if constexpr (V::kReads)
    if (samples) v.samples(*samples, name);
  v.optional("at", name.at, "");
  v.optional("sums", name.sums, false);
  v("dtype", name.dtype);
  v("shape", name.shape, {.shape = true});
  v.digest("digest", record.statistic.digest);
  v("sum", record.statistic.sum);
  v("largest", record.statistic.largest);
  v("not_finite", record.statistic.not_finite);
}

class LineWriter : public plan::FieldWriter<LineWriter> {
 public:
  explicit LineWriter(plan::JsonWriter& json) : FieldWriter(json) {}
  void digest(std::string_view key, uint64_t digest) { (*this)(key, digest_text(digest)); }
};

class LineReader : public plan::FieldReader<LineReader> {
 public:
  using FieldReader::check;
  LineReader(std::string_view text, const std::string& file) : FieldReader(text, file) {}

  template <class Line>
  Status line(Line& line) {
    file(line);
    return reader_.ok() ? Status() : Status::failure(std::string(kCode), reader_.status().error().message);
  }
  void digest(std::string_view key, uint64_t& digest) {
    reader_.key(key);
    const size_t at = reader_.position();
    const std::string_view text = reader_.string();
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), digest, 16);
    if (error != std::errc() || end != text.data() + text.size() || text.size() != kHexDigits)
      reader_.fail(kCode, at, "a digest has 16 hexadecimal digits");
  }
  void samples(const std::vector<int64_t>& range, ValueName& name) {
    if (range.size() != 2 || range[0] < 0 || range[1] < 0)
      reader_.fail(kCode, reader_.position(), "samples are [first, count]");
    else std::tie(name.first_sample, name.samples) = std::pair(range[0], range[1]);
  }
  void check(const ValueRecord& record, size_t at) {
    if (record.name.shape.size() > kMostAxes) reader_.fail(kCode, at, "this is no shape");
  }
};

template <class Line>
std::string text_of(const Line& line) {
  plan::JsonWriter json;
  LineWriter(json).write(line);
  return json.str();
}

}  // namespace

std::string digest_text(uint64_t digest) {
  char digits[kHexDigits];
  const size_t length = static_cast<size_t>(std::to_chars(digits, digits + kHexDigits, digest, 16).ptr - digits);
  return std::string(kHexDigits - length, '0') + std::string(digits, length);
}

std::string header_line(const Header& header) { return text_of(header); }
std::string value_line(const ValueRecord& record) { return text_of(record); }

Result<DigestFile> parse_digests(std::string_view text, const std::string& file) {
  DigestFile digests;
  int64_t number = 0;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    // A run that was ended while it wrote leaves a last line without its end.
    if (end == std::string_view::npos && number > 0) break;
    LineReader reader(line, file + ":" + std::to_string(++number));
    PIPER_RETURN_IF_ERROR(number == 1 ? reader.line(digests.header) : reader.line(digests.values.emplace_back()));
  }
  if (number == 0) return Status::failure(std::string(kCode), file + ": the file is empty");
  return digests;
}

Result<DigestFile> read_digest_file(const std::string& path) {
  auto mapped = plan::map_file(path);
  if (!mapped.ok()) return Status::failure(std::string(kCode), mapped.error().message);
  return parse_digests(mapped->text(), path);
}

}  // namespace piper::digest
