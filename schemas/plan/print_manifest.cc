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
  json.end_file();
  return json.str();
}

}  // namespace piper::plan
