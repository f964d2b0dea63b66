// The section `precision`: in which element types the step computes, trains and sums. The section `head`: in how many
// blocks of rows logits are made.
#include <limits>

#include "compiler/strategy/load_sections.h"

namespace piper::strategy {
namespace {

constexpr double kFirstDynamicScale = 65536;  // as torch.amp.GradScaler's init_scale

std::optional<DType> read_type(ReadContext& context, const Value* value, const std::string& what,
                               const std::vector<std::string>& choices) {
  if (value == nullptr) return std::nullopt;
  const auto name = read_choice(context, *value, what, choices);
  return name ? dtype_from_name(*name) : std::nullopt;
}

void read_loss_scale(ReadContext& context, const Value& value, PrecisionConfig& out) {
  if (value.kind == Value::Kind::kInt || value.kind == Value::Kind::kFloat) {
    const auto number = read_number(context, value, "'loss_scale'");
    if (number && *number <= 0) {
      context.diags.error("P0207", value.span) << "'loss_scale' must be greater than 0, not " << *number;
      return;
    }
    out.loss_scale = number;
    return;
  }
  const auto word = read_choice(context, value, "'loss_scale'", {"none", "dynamic"});
  out.dynamic = word == "dynamic";
  out.loss_scale = out.dynamic ? std::optional<double>(kFirstDynamicScale) : std::nullopt;
}

}  // namespace

void load_precision(ReadContext& context, const Value& value, Strategy& out) {
  MapReader reader(context, value, "'precision'");
  if (!reader.ok()) return;
  PrecisionConfig config;
  config.span = value.span;
  config.compute = read_type(context, reader.get("compute"), "'compute'", {"bf16", "f16"});
  config.master = read_type(context, reader.get("master"), "'master'", {"f32"}).value_or(DType::kF32);
  config.reduce = read_type(context, reader.get("reduce"), "'reduce'", {"f32", "bf16"}).value_or(DType::kF32);
  if (const Value* scale = reader.get("loss_scale")) {
    read_loss_scale(context, *scale, config);
  } else if (config.compute == DType::kF16) {
    context.diags.error("P0239", value.span).help("write loss_scale: dynamic, or a number, or none")
        << "f16 needs a 'loss_scale'";
  }
  if (const Value* keep = reader.get("keep")) {
    config.keep = read_strings(context, *keep, "'keep'");
    config.keep_spans = item_spans(*keep);
  }
  reader.finish();
  out.precision = std::move(config);
}

void load_head(ReadContext& context, const Value& value, Strategy& out) {
  MapReader reader(context, value, "'head'");
  if (!reader.ok()) return;
  if (const Value* blocks = reader.get("blocks")) {
    if (blocks->kind == Value::Kind::kInt) {
      out.head.blocks = read_int(context, *blocks, "'blocks'", 1, std::numeric_limits<int32_t>::max()).value_or(0);
    } else if (const auto word = read_choice(context, *blocks, "'blocks'", {"auto", "off"})) {
      out.head.off = *word == "off";
    }
  }
  reader.finish();
}

}  // namespace piper::strategy
