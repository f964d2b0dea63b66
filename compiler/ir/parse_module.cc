// Reads a module: its sections, each at most once but for variants.
#include <set>

#include "compiler/ir/graph_text.h"
#include "compiler/ir/module_sections.h"
#include "compiler/ir/module_text.h"

namespace piper::ir {
namespace {

class ModuleParser {
 public:
  ModuleParser(std::string_view text, std::string_view file_name) : in_(text, file_name) {}

  Result<ModuleText> run() {
    PIPER_RETURN_IF_ERROR(in_.start());
    PIPER_RETURN_IF_ERROR(in_.want_word("module"));
    PIPER_RETURN_IF_ERROR(in_.block([&] { return header(); }));
    while (!in_.at_end()) PIPER_RETURN_IF_ERROR(section());
    return std::move(read_);
  }

 private:
  Status header() {
    if (in_.is_word("step")) return step();
    if (in_.is_word("per_microbatch")) return per_microbatch();
    if (in_.is_word("training")) return training();
    if (in_.is_word("precision")) return precision();
    if (!in_.is_word("lowered")) return in_.fail("expected step, per_microbatch, training, precision, lowered or '}'");
    read_.lowered = true;
    return in_.advance();
  }

  Status step() {
    PIPER_RETURN_IF_ERROR(in_.advance());
    Step& step = read_.module.step;
    PIPER_RETURN_IF_ERROR(in_.field("batch", step.batch));
    PIPER_RETURN_IF_ERROR(in_.want_word("microbatches"));
    PIPER_ASSIGN(const int64_t microbatches, in_.integer_in(1, kMostMicrobatches, "a number of microbatches"));
    step.num_microbatches = static_cast<int32_t>(microbatches);
    PIPER_ASSIGN(step.split, in_.takes("split"));
    PIPER_ASSIGN(step.cut, in_.takes("cut"));
    PIPER_ASSIGN(const bool cut_by, in_.takes("by"));
    if (cut_by) {
      PIPER_ASSIGN(step.cut_by, in_.span());
    }
    return {};
  }

  Status per_microbatch() {
    PIPER_RETURN_IF_ERROR(in_.advance());
    PIPER_ASSIGN(read_.module.step.per_microbatch, in_.list_of<std::string>([&] { return in_.string(); }));
    return {};
  }

  Status training() {
    PIPER_RETURN_IF_ERROR(in_.advance());
    Training& training = read_.module.training;
    PIPER_RETURN_IF_ERROR(in_.want_word("clip"));
    PIPER_ASSIGN(training.clip_grad_norm, in_.number());
    PIPER_ASSIGN(training.clip_prov, in_.by());
    if (!in_.is_word("update")) return {};
    return in_.field("update", training.update_prov, "an entry of the provenance");
  }

  Status precision() {
    PIPER_RETURN_IF_ERROR(in_.advance());
    Precision& precision = read_.module.precision;
    const auto type = [&](const char* what, std::optional<DType>& dtype) -> Status {
      PIPER_ASSIGN(const bool said, in_.takes(what));
      if (!said) return {};
      PIPER_ASSIGN(dtype, in_.dtype());
      return {};
    };
    PIPER_RETURN_IF_ERROR(type("compute", precision.compute));
    PIPER_RETURN_IF_ERROR(type("master", precision.master));
    PIPER_RETURN_IF_ERROR(type("reduce", precision.reduce));
    if (in_.is_word("loss_scale")) {
      PIPER_RETURN_IF_ERROR(in_.field("loss_scale", precision.scaling, kScalingWords));
      PIPER_ASSIGN(precision.loss_scale, in_.number());
    }
    PIPER_ASSIGN(const bool keeps, in_.takes("keep"));
    if (keeps) {
      PIPER_ASSIGN(precision.keep, in_.list_of<std::string>([&] { return in_.string(); }));
    }
    PIPER_ASSIGN(precision.prov, in_.by());
    return {};
  }

  Status section() {
    const Token name = in_.token();
    if (name.kind != TokenKind::kWord)
      return in_.fail("expected provenance, variant, distribution, schedule, dag or state");
    if (name.text != "variant" && !seen_.insert(name.text).second)
      return in_.fail("section " + name.text + " stands twice");
    PIPER_RETURN_IF_ERROR(in_.advance());
    Module& module = read_.module;
    if (name.text == "provenance")
      return in_.block([&]() -> Status {
        PIPER_RETURN_IF_ERROR(in_.want_word("prov"));
        return in_.provenance_entry(module.provenance);
      });
    if (name.text == "variant") return variant();
    if (name.text == "distribution") return parse_distribution_section(in_, module);
    if (name.text == "schedule") return parse_schedule_section(in_, module);
    if (name.text == "dag") return parse_dag_section(in_, module);
    if (name.text == "state") return parse_state_section(in_, module);
    return in_.fail(name, "no section '" + name.text + "'");
  }

  Status variant() {
    ModelVariant variant;
    PIPER_ASSIGN(variant.local_batch, in_.integer());
    bool has_graph = false;
    PIPER_RETURN_IF_ERROR(in_.block([&]() -> Status {
      if (in_.is_word("tag")) return tag(variant.chunked);
      if (in_.is_word("chunk")) return chunk(variant.chunked);
      if (in_.is_word("gradients")) return gradients(variant);
      if (in_.is_word("repeating")) return repeating(variant);
      if (!in_.is_word("graph")) return in_.fail("expected tag, chunk, graph, gradients, repeating or '}'");
      if (has_graph) return in_.fail("a variant has one graph");
      has_graph = true;
      PIPER_ASSIGN(variant.chunked.graph, parse_graph(in_));
      return {};
    }));
    read_.module.variants.push_back(std::move(variant));
    return {};
  }

  Status tag(ChunkedGraph& chunked) {
    PIPER_RETURN_IF_ERROR(in_.advance());
    ChunkedGraph::TagExtent extent;
    PIPER_ASSIGN(extent.tag, in_.string());
    PIPER_ASSIGN(extent.count, in_.int32("a number of indices"));
    chunked.tags.push_back(std::move(extent));
    return {};
  }

  Status chunk(ChunkedGraph& chunked) {
    PIPER_RETURN_IF_ERROR(in_.advance());
    PIPER_RETURN_IF_ERROR(in_.numbered(chunked.chunks.size(), "chunks"));
    Chunk chunk;
    PIPER_ASSIGN(chunk.name, in_.string());
    PIPER_ASSIGN(const bool tagged, in_.takes("tags"));
    if (tagged) {
      PIPER_ASSIGN(chunk.tags, in_.list_of<TagValue>([&]() -> Result<TagValue> {
        TagValue value;
        PIPER_ASSIGN(value.tag, in_.string());
        PIPER_ASSIGN(value.index, in_.int32("the index of a tag"));
        return value;
      }));
    }
    if (in_.is_word("region")) PIPER_RETURN_IF_ERROR(in_.field("region", chunk.region, "a region"));
    PIPER_ASSIGN(chunk.exchange, in_.takes("exchange"));
    if (in_.is_word("shard")) PIPER_RETURN_IF_ERROR(in_.field("shard", chunk.shard, "a shard"));
    chunked.chunks.push_back(std::move(chunk));
    return {};
  }

  Status gradients(ModelVariant& variant) {
    PIPER_RETURN_IF_ERROR(in_.advance());
    const Graph& graph = variant.chunked.graph;
    const std::map<std::string, ValueId> values = values_by_name(graph);
    variant.gradients.resize(graph.num_values());
    return in_.block([&]() -> Status {
      PIPER_ASSIGN(const ValueId of, in_.value_of(values));
      PIPER_RETURN_IF_ERROR(in_.want("="));
      PIPER_ASSIGN(variant.gradients[of.index], in_.value_of(values));
      return {};
    });
  }

  Status repeating(ModelVariant& variant) {
    PIPER_RETURN_IF_ERROR(in_.advance());
    if (variant.repeating) return in_.fail("a variant has one graph that repeats forwards");
    const Token start = in_.token();
    PIPER_ASSIGN(variant.repeating, parse_graph(in_));
    if (!variant.repeating->number_values_like(variant.chunked.graph))
      return in_.fail(start,
                      "the graph that repeats forwards lacks a value of the variant's graph, which stands first");
    return {};
  }

  // Every row of the distribution has an entry for each.
  static constexpr int64_t kMostMicrobatches = int64_t{1} << 20;
  ModuleReader in_;
  ModuleText read_;
  std::set<std::string> seen_;
};

}  // namespace

Result<ModuleText> parse_module_text(std::string_view text, std::string_view file_name) {
  return ModuleParser(text, file_name).run();
}

Result<Module> parse_module(std::string_view text, std::string_view file_name) {
  PIPER_ASSIGN(ModuleText read, parse_module_text(text, file_name));
  return std::move(read.module);
}

}  // namespace piper::ir
