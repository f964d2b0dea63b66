#include "schemas/digest/digest_file.h"

#include <charconv>

#include "schemas/plan/file_bytes.h"
#include "schemas/plan/json_reader.h"
#include "schemas/plan/json_writer.h"

namespace piper::digest {

namespace {

constexpr std::string_view kCode = "R0812";
constexpr size_t kHexDigits = 16, kMostAxes = 16;

bool read_hex(std::string_view text, uint64_t& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  return error == std::errc() && end == text.data() + text.size() && text.size() == kHexDigits;
}

Header read_header(plan::JsonReader& json) {
  Header header;
  json.open_object();
  json.key("piper_digest");
  const size_t at = json.position();
  if (json.integer() != kFormatVersion)
    json.fail(kCode, at, "not a file of piper-run --digest in format " + std::to_string(kFormatVersion));
  json.key("plan");
  header.plan = json.string();
  json.key("model");
  header.model = json.string();
  json.key("world_size");
  header.world_size = json.small_integer();
  json.key("seed");
  header.seed = json.unsigned_integer();
  json.key("batch");
  header.batch = json.integer();
  json.close_object();
  json.end_of_text();
  return header;
}

int32_t index(plan::JsonReader& json, std::string_view key, int32_t least) {
  json.key(key);
  const size_t at = json.position();
  const int32_t value = json.small_integer();
  if (value < least) json.fail(kCode, at, std::string(key) + " is below " + std::to_string(least));
  return value;
}

void read_place(plan::JsonReader& json, ValueName& name) {
  if (json.optional_key("chunk")) {
    name.chunk = json.string();
    json.key("pass");
    name.pass = json.string();
  }
  if (json.optional_key("samples")) {
    const size_t at = json.position();
    const std::vector<int64_t> range = json.integers();
    if (range.size() != 2 || range[0] < 0 || range[1] < 0) json.fail(kCode, at, "samples are [first, count]");
    if (json.ok()) {
      name.first_sample = range[0];
      name.samples = range[1];
    }
  }
  if (json.optional_key("at")) name.at = json.string();
  if (json.optional_key("sums")) name.sums = json.boolean();
}

void read_type(plan::JsonReader& json, ValueName& name) {
  json.key("dtype");
  size_t at = json.position();
  const std::string_view word = json.string();
  const auto dtype = dtype_from_name(word);
  if (!dtype) json.fail(kCode, at, "no element type is called '" + std::string(word.substr(0, 40)) + "'");
  else name.dtype = *dtype;
  json.key("shape");
  at = json.position();
  name.shape = json.integers();
  bool fits = name.shape.size() <= kMostAxes;
  for (const int64_t extent : name.shape) fits = fits && extent >= 0;
  if (!fits) json.fail(kCode, at, "this is no shape");
}

Statistic read_statistic(plan::JsonReader& json) {
  Statistic statistic;
  json.key("digest");
  size_t at = json.position();
  if (!read_hex(json.string(), statistic.digest)) json.fail(kCode, at, "a digest has 16 hexadecimal digits");
  json.key("sum");
  statistic.sum = json.real();
  json.key("largest");
  statistic.largest = json.real();
  json.key("not_finite");
  statistic.not_finite = json.integer();
  return statistic;
}

ValueRecord read_value(plan::JsonReader& json) {
  ValueRecord record;
  ValueName& name = record.name;
  json.open_object();
  json.key("step");
  record.step = json.integer();
  name.rank = index(json, "rank", 0);
  name.instruction = index(json, "instruction", 0);
  name.call = index(json, "call", -1);
  name.output = index(json, "output", 0);
  json.key("value");
  name.value = json.string();
  if (json.optional_key("line")) name.line = json.string();
  json.key("kernel");
  name.kernel = json.string();
  name.nth = index(json, "nth", 0);
  read_place(json, name);
  read_type(json, name);
  record.statistic = read_statistic(json);
  json.close_object();
  json.end_of_text();
  return record;
}

}  // namespace

std::string digest_text(uint64_t digest) {
  char digits[kHexDigits];
  const size_t length = static_cast<size_t>(std::to_chars(digits, digits + kHexDigits, digest, 16).ptr - digits);
  return std::string(kHexDigits - length, '0') + std::string(digits, length);
}

std::string header_line(const Header& header) {
  plan::JsonWriter json;
  json.raw("{");
  json.key("piper_digest");
  json.number(kFormatVersion);
  json.key("plan");
  json.string(header.plan);
  json.key("model");
  json.string(header.model);
  json.key("world_size");
  json.number(header.world_size);
  json.key("seed");
  json.number(header.seed);
  json.key("batch");
  json.number(header.batch);
  json.raw("}");
  return json.str();
}

std::string value_line(const ValueRecord& record) {
  const ValueName& name = record.name;
  plan::JsonWriter json;
  const auto number = [&json](std::string_view key, int64_t value) {
    json.key(key);
    json.number(value);
  };
  const auto text = [&json](std::string_view key, const std::string& value) {
    json.key(key);
    json.string(value);
  };
  json.raw("{");
  number("step", record.step);
  number("rank", name.rank);
  number("instruction", name.instruction);
  number("call", name.call);
  number("output", name.output);
  text("value", name.value);
  if (!name.line.empty()) text("line", name.line);
  text("kernel", name.kernel);
  number("nth", name.nth);
  if (!name.chunk.empty()) {
    text("chunk", name.chunk);
    text("pass", name.pass);
  }
  if (name.first_sample >= 0) {
    json.key("samples");
    json.numbers(std::vector<int64_t>{name.first_sample, name.samples});
  }
  if (!name.at.empty()) text("at", name.at);
  if (name.sums) {
    json.key("sums");
    json.boolean(true);
  }
  text("dtype", std::string(dtype_name(name.dtype)));
  json.key("shape");
  json.numbers(name.shape);
  text("digest", digest_text(record.statistic.digest));
  json.key("sum");
  json.real(record.statistic.sum);
  json.key("largest");
  json.real(record.statistic.largest);
  number("not_finite", record.statistic.not_finite);
  json.raw("}");
  return json.str();
}

Result<DigestFile> parse_digests(std::string_view text, const std::string& file) {
  DigestFile digests;
  int64_t number = 0;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    // A run that was ended while it wrote leaves a last line without its end.
    if (end == std::string_view::npos && number > 0) break;
    plan::JsonReader json(line, file + ":" + std::to_string(++number));
    if (number == 1) digests.header = read_header(json);
    else digests.values.push_back(read_value(json));
    if (!json.ok()) return Status::failure(std::string(kCode), json.status().error().message);
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
