#include "compiler/strategy/loader.h"

#include "compiler/strategy/load_sections.h"
#include "compiler/strategy/mesh.h"
#include "compiler/strategy/needed_tag.h"
#include "schemas/plan/file_bytes.h"

namespace piper::strategy {
namespace {

std::string base_name(const std::string& path) {
  const size_t slash = path.find_last_of('/');
  return slash == std::string::npos ? path : path.substr(slash + 1);
}

// A bare list of directives becomes {directives: [...]}, so that overrides can add keys to it.
Value wrap(Value list) {
  Value root;
  root.kind = Value::Kind::kMap;
  root.span = list.span;
  root.keys.push_back({"directives", list.span});
  root.items.push_back(std::move(list));
  return root;
}

std::string first_code(const diag::Diagnostics& diags) {
  for (const diag::Diagnostic& d : diags.all()) {
    if (d.severity == diag::Severity::kError) return d.code;
  }
  return "";
}

void load_root(ReadContext& context, const Value& root, std::span<const DirectiveSpec* const> specs, Strategy& out) {
  const size_t errors_before = context.diags.num_errors();
  MapReader reader(context, root, "the strategy");
  if (const Value* version = reader.get("piper")) {
    if (version->kind != Value::Kind::kInt || version->integer != 1) {
      context.diags.error("P0229", version->span).help("write piper: 1")
          << "the language version must be 1, not " << describe(*version);
    }
  }
  const Value* node = reader.get("node");
  std::optional<Mesh> mesh;  // what device lists may name, so it is read before them
  if (const Value* value = reader.get("mesh")) {
    mesh = read_mesh(context, *value, node);
    context.mesh_is_wrong = !mesh;
    if (mesh) out.ranks_per_node = mesh->ranks_per_node;
  } else if (node != nullptr) {
    context.diags.error("P0244", node->span).help("add mesh: {pp: 8, dp: 4} with axes of your own")
        << "'node' needs a 'mesh', because it keeps axes of the mesh inside a node";
  }
  context.mesh = mesh ? &*mesh : nullptr;
  if (const Value* value = reader.get("model")) load_model(context, *value, out);
  if (const Value* value = reader.get("annotate")) load_annotations(context, *value, out);
  if (const Value* value = reader.get("schedule")) load_schedule(context, *value, out);
  if (const Value* value = reader.get("directives")) load_directives(context, *value, specs, out);
  if (const Value* value = reader.get("streams")) load_streams(context, *value, out);
  if (const Value* value = reader.get("per_microbatch")) {
    out.per_microbatch = read_strings(context, *value, "'per_microbatch'");
    out.per_microbatch_spans = item_spans(*value);
  }
  if (const Value* value = reader.get("optimizer")) load_optimizer(context, *value, out);
  if (const Value* value = reader.get("lr_schedule")) load_lr_schedule(context, *value, out);
  if (const Value* value = reader.get("clip_grad_norm")) {
    out.clip_span = value->span;
    const auto norm = read_number(context, *value, "'clip_grad_norm'");
    if (norm && *norm <= 0) {
      context.diags.error("P0207", value->span).help("leave the key out to train without clipping")
          << "'clip_grad_norm' must be greater than 0";
    }
    out.clip_grad_norm = norm.value_or(0);
  }
  if (const Value* value = reader.get("precision")) load_precision(context, *value, out);
  if (const Value* value = reader.get("head")) load_head(context, *value, out);
  if (const Value* value = reader.get("run")) load_run(context, *value, out);
  if (const Value* value = reader.get("eval")) load_eval(context, *value, out);
  reader.finish();
  check_directives(context, out);
  if (context.diags.num_errors() == errors_before) check_mesh(context, out);
  context.mesh = nullptr;
  check_documents(context, out);
}

}  // namespace

std::string Strategy::sha256() const { return plan::sha256(digested); }

Result<Strategy> parse_strategy(const std::string& name, const std::string& text,
                                const std::vector<std::string>& overrides, std::span<const DirectiveSpec* const> specs,
                                diag::Diagnostics& diags) {
  const size_t errors_before = diags.num_errors();
  const uint32_t file = diags.add_file(name, text);
  PIPER_ASSIGN(Value root, read_yaml(file, text, 0, diags));
  Strategy strategy;
  strategy.file_name = base_name(name);
  strategy.bare_list = root.kind == Value::Kind::kList;
  if (strategy.bare_list) root = wrap(std::move(root));
  strategy.digested = text;
  for (const std::string& override_text : overrides) {
    PIPER_RETURN_IF_ERROR(apply_override(root, override_text, diags));
    strategy.digested += '\0';
    strategy.digested += override_text;
  }
  ReadContext context{diags, strategy.bare_list};
  load_root(context, root, specs, strategy);
  if (diags.num_errors() > errors_before) return Status::reported(first_code(diags));
  if (strategy.bare_list) {
    align_replicas(context, strategy);
    renumber_devices(context, strategy);
  }
  strategy.needs_tag = needed_tag(strategy);
  return strategy;
}

Result<Strategy> load_strategy(const std::string& path, const std::vector<std::string>& overrides,
                               std::span<const DirectiveSpec* const> specs, diag::Diagnostics& diags) {
  auto mapped = plan::map_file(path);
  if (!mapped.ok()) {
    return diags.error("P0101").help("check the path given to --strategy") << mapped.error().message;
  }
  return parse_strategy(path, std::string(mapped->text()), overrides, specs, diags);
}

}  // namespace piper::strategy
