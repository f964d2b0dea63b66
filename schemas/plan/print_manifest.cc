#include <algorithm>
#include <cstdio>

#include "schemas/plan/bundle_io.h"
#include "schemas/plan/field_writer.h"
#include "schemas/plan/manifest_fields.h"
#include "schemas/plan/provenance_text.h"

namespace piper::plan {
namespace {

class ManifestWriter : public FieldWriter<ManifestWriter> {
 public:
  explicit ManifestWriter(JsonWriter& json) : FieldWriter(json) {}
  using FieldWriter::write;

  void format(int version) {
    (*this)("format", std::string("piper plan"));
    (*this)("version", version);
  }
  void write(const std::vector<Tag>& tags) {
    list(
        tags,
        [&](const Tag& tag) {
          json_.string(tag.tag);
          json_.raw(":");
          json_.number(tag.index);
        },
        '{', '}');
  }
  void write(const std::vector<uint32_t>& digests) {
    list(digests, [&](uint32_t digest) {
      char hex[16];
      std::snprintf(hex, sizeof hex, "%08x", digest);
      json_.string(hex);
    });
  }
};

}  // namespace

std::string print_manifest(const Manifest& manifest) {
  JsonWriter json;
  ManifestWriter(json).file(manifest);
  return json.str();
}

std::string strategy_line(const ProvenanceEntry& entry) {
  const size_t at = entry.key.find('@');
  if (at == std::string::npos) return entry.key;
  return entry.key.substr(at + 1, entry.key.find('@', at + 1) - at - 1);
}

std::string whole_text(const ProvenanceEntry& entry) {
  return entry.why.empty() ? entry.text : entry.text + ": " + entry.why;
}

std::string of_any_layer(const std::string& text) {
  std::string masked;
  for (size_t i = 0; i < text.size(); ++i) {
    masked += text[i];
    if (text[i] != '.') continue;
    size_t end = i + 1;
    while (end < text.size() && std::isdigit(static_cast<unsigned char>(text[end])) != 0) ++end;
    const bool number = end > i + 1 && (end == text.size() || text[end] == '.' || text[end] == ' ' || text[end] == ',');
    if (!number) continue;
    masked += '*';
    i = end - 1;
  }
  return masked;
}

std::string print_provenance(const std::vector<ProvenanceEntry>& provenance) {
  JsonWriter json;
  json.begin_file();
  json.begin_lines("provenance", '{');
  for (const auto& entry : provenance) {
    json.line();
    json.string(entry.key);
    json.raw(":");
    json.string(entry.text);
  }
  json.end_lines('}');
  const auto explained = [](const ProvenanceEntry& entry) { return !entry.why.empty(); };
  if (std::any_of(provenance.begin(), provenance.end(), explained)) {
    json.next_member();
    json.begin_lines("why", '{');
    for (const auto& entry : provenance) {
      if (!explained(entry)) continue;
      json.line();
      json.string(entry.key);
      json.raw(":");
      json.string(entry.why);
    }
    json.end_lines('}');
  }
  json.end_file();
  return json.str();
}

}  // namespace piper::plan
