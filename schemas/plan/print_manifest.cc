#include <cstdio>

#include "schemas/plan/bundle_io.h"
#include "schemas/plan/json_writer.h"
#include "schemas/plan/lr_curves.h"
#include "schemas/plan/names.h"
#include "schemas/plan/optimizers.h"
#include "schemas/plan/provenance_text.h"

namespace piper::plan {
namespace {

class ManifestPrinter {
 public:
  explicit ManifestPrinter(const Manifest& manifest) : manifest_(manifest) {}

  std::string print() {
    json_.begin_file();
    name("format", "piper plan");
    member("version", manifest_.version);
    word("device", device_name(manifest_.target.device));
    word("reduction", summing_name(manifest_.target.summing));
    source("model", manifest_.model_name, manifest_.model_sha256);
    source("strategy", manifest_.strategy_name, manifest_.strategy_sha256);
    member("world_size", manifest_.world_size);
    member("reporting_rank", manifest_.reporting_rank);
    member("batch", manifest_.batch);
    if (manifest_.model_flops > 0) {
      json_.next_member();
      real("model_flops", manifest_.model_flops);
    }
    if (manifest_.proved > 0) member("proved", manifest_.proved);
    if (manifest_.evaluates) {
      json_.next_member();
      boolean("evaluates", true);
    }
    inputs();
    tensors();
    chunks();
    optimizer();
    run();
    if (manifest_.eval) evaluation(*manifest_.eval);
    ranks();
    files();
    json_.end_file();
    return json_.str();
  }

 private:
  void name(const char* key, std::string_view value) {
    json_.key(key);
    json_.string(value);
  }
  void number(const char* key, int64_t value) {
    json_.key(key);
    json_.number(value);
  }
  void real(const char* key, double value) {
    json_.key(key);
    json_.real(value);
  }
  void boolean(const char* key, bool value) {
    json_.key(key);
    json_.boolean(value);
  }
  void word(const char* key, std::string_view value) {
    json_.next_member();
    name(key, value);
  }
  void member(const char* key, int64_t value) {
    json_.next_member();
    number(key, value);
  }
  void source(const char* key, std::string_view base_name, std::string_view digest) {
    json_.next_member();
    json_.key(key);
    json_.raw("{");
    name("name", base_name);
    name("sha256", digest);
    json_.raw("}");
  }
  template <class Items, class Print>
  void section(const char* key, const Items& items, Print print) {
    json_.next_member();
    json_.begin_lines(key, '[');
    for (const auto& item : items) {
      json_.line();
      json_.raw("{");
      print(item);
      json_.raw("}");
    }
    json_.end_lines(']');
  }

  void inputs() {
    section("inputs", manifest_.inputs, [&](const InputDecl& input) {
      name("input", input.name);
      name("dtype", dtype_name(input.dtype));
      json_.key("sample_shape");
      json_.numbers(input.sample_shape);
      boolean("batched", input.batched);
      name("feed", feed_name(input.feed));
    });
  }
  void tensors() {
    section("tensors", manifest_.tensors, [&](const TensorInfo& tensor) {
      name("tensor", tensor.name);
      name("dtype", dtype_name(tensor.dtype));
      json_.key("shape");
      json_.numbers(tensor.shape);
      json_.key("aliases");
      json_.strings(tensor.aliases);
      boolean("trained", tensor.trained);
      if (tensor.group != 0) {
        json_.key("group");
        json_.number(tensor.group);
      }
      if (tensor.buffer != ModelBuffer::kNone) name("buffer", model_buffer_name(tensor.buffer));
    });
  }
  void numbers(const OptimizerNumbers& numbers) {
    name("kind", numbers.kind);
    real("lr", numbers.lr);
    real("momentum", numbers.momentum);
    real("beta1", numbers.beta1);
    real("beta2", numbers.beta2);
    real("eps", numbers.eps);
    boolean("nesterov", numbers.nesterov);
    const OptimizerInfo* info = find_optimizer(numbers.kind);
    if (info == nullptr || !info->has(OptimizerInfo::kOrthogonal)) return;
    number("steps", numbers.steps);
    name("adjust", rate_by_shape_name(numbers.adjust));
  }
  void chunks() {
    section("chunks", manifest_.chunks, [&](const Chunk& chunk) {
      name("chunk", chunk.name);
      if (chunk.region != chunk.name) name("region", chunk.region);
      json_.key("tags");
      json_.raw("{");
      for (const Tag& tag : chunk.tags) {
        if (&tag != chunk.tags.data()) json_.raw(",");
        json_.string(tag.tag);
        json_.raw(":");
        json_.number(tag.index);
      }
      json_.raw("}");
    });
  }
  void optimizer() {
    const auto& optimizer = manifest_.optimizer;
    json_.next_member();
    json_.key("optimizer");
    json_.raw("{");
    numbers(optimizer);
    if (optimizer.rest) {
      json_.key("rest");
      json_.raw("{");
      numbers(*optimizer.rest);
      json_.raw("}");
    }
    json_.raw("}");
    section("optimizer_groups", optimizer.groups, [&](const OptimizerGroup& group) {
      name("group", group.name);
      real("weight_decay", group.weight_decay);
      if (group.rest) boolean("rest", true);
    });
    const auto& schedule = manifest_.lr_schedule;
    json_.next_member();
    json_.key("lr_schedule");
    json_.raw("{");
    name("kind", schedule.kind);
    number("warmup", schedule.warmup);
    number("until", schedule.until);
    real("to", schedule.to);
    real("constant", schedule.constant);
    lr_phases(schedule.phases);
    json_.raw("}");
    json_.next_member();
    real("clip_grad_norm", manifest_.clip_grad_norm);
    if (manifest_.loss_scale == 0) return;
    json_.next_member();
    real("loss_scale", manifest_.loss_scale);
  }
  void lr_phases(const std::vector<LrPhase>& phases) {
    if (phases.empty()) return;
    json_.key("phases");
    json_.raw("[");
    for (const LrPhase& phase : phases) {
      json_.raw(&phase == phases.data() ? "{" : ",{");
      const LrCurveInfo& info = lr_curve(phase.curve);
      name("curve", info.name);
      number("steps", phase.steps);
      real("from", phase.from);
      if (info.has(LrCurveInfo::kTo)) real("to", phase.to);
      if (info.has(LrCurveInfo::kPower)) real("power", phase.power);
      if (info.has(LrCurveInfo::kTimescale)) real("timescale", phase.timescale);
      json_.raw("}");
    }
    json_.raw("]");
  }
  void run() {
    json_.next_member();
    json_.key("run");
    json_.raw("{");
    json_.key("data");
    json_.raw("[");
    bool first = true;
    for (const DataPath& data : manifest_.run.data) {
      json_.raw(first ? "{" : ",{");
      first = false;
      name("path", data.path);
      if (data.weight > 0) real("weight", data.weight);
      if (!data.at.empty()) name("at", data.at);
      json_.raw("}");
    }
    json_.raw("]");
    number("steps", manifest_.run.steps);
    json_.key("seed");
    json_.number(manifest_.run.seed);
    name("sampling", manifest_.run.sampling);
    if (manifest_.run.document_end >= 0) number("document_end", manifest_.run.document_end);
    json_.raw("}");
  }
  void evaluation(const Evaluation& eval) {
    json_.next_member();
    json_.key("eval");
    json_.raw("{");
    name("data", eval.data);
    number("every", eval.every);
    number("batches", eval.batches);
    boolean("perplexity", eval.perplexity);
    json_.raw("}");
  }
  void ranks() {
    section("ranks", manifest_.ranks, [&](const RankSummary& rank) {
      number("arena_bytes", rank.arena_bytes);
      number("persistent_bytes", rank.persistent_bytes);
      number("scratch_bytes", rank.scratch_bytes);
      number("sent_bytes", rank.sent_bytes);
      number("peak_bytes", rank.peak_bytes);
    });
  }
  void chunk_digests(const std::vector<uint32_t>& digests) {
    json_.key("chunks");
    std::string text = "[";
    for (const uint32_t digest : digests) {
      char hex[16];
      std::snprintf(hex, sizeof hex, "%s\"%08x\"", text.size() == 1 ? "" : ",", digest);
      text += hex;
    }
    json_.raw(text + "]");
  }
  void files() {
    section("files", manifest_.files, [&](const FileEntry& file) {
      name("file", file.path);
      number("bytes", file.bytes);
      name("sha256", file.sha256);
      if (!file.chunks.empty()) chunk_digests(file.chunks);
    });
  }

  const Manifest& manifest_;
  JsonWriter json_;
};

}  // namespace

std::string print_manifest(const Manifest& manifest) { return ManifestPrinter(manifest).print(); }

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
