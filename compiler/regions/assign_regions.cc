#include "compiler/regions/assign_regions.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <set>

#include "compiler/diag/unmatched_globs.h"
#include "schemas/base/glob.h"

namespace piper::regions {
namespace {

using strategy::Annotation;

// All module paths of the graph, parents included.
std::vector<std::string> module_paths(const ir::Graph& graph) {
  std::set<std::string> paths;
  for (size_t i = 0; i < graph.num_ops(); ++i) {
    const std::string& scope = graph.scope(graph.op(ir::OpId(i)).scope);
    if (!paths.insert(scope).second) continue;
    for (size_t dot = scope.find('.'); dot != std::string::npos; dot = scope.find('.', dot + 1)) {
      paths.insert(scope.substr(0, dot));
    }
  }
  paths.erase("");
  return {paths.begin(), paths.end()};
}

// The upper levels of the module tree, at most a dozen.
std::string modules_to_show(const std::vector<std::string>& paths) {
  std::string text;
  size_t shown = 0;
  for (const std::string& path : paths) {
    if (std::count(path.begin(), path.end(), '.') > 2) continue;
    if (++shown > 12) return text + ", ...";
    text += (text.empty() ? "'" : ", '") + path + "'";
  }
  return text;
}

void say_no_match(const ir::Graph& graph, const std::string& glob, diag::InFlight& error) {
  const std::vector<std::string> paths = module_paths(graph);
  error << "no module of the model matches '" << glob << "'";
  error.note(paths.empty() ? "the model names no modules" : "the modules are " + modules_to_show(paths));
  // "*.layer.0" is compared with the last components of the paths.
  const std::string bare = glob.substr(0, 2) == "*." ? glob.substr(2) : glob;
  const auto depth = std::count(bare.begin(), bare.end(), '.');
  std::vector<std::string> tails;
  for (const std::string& path : paths) {
    size_t at = path.size();
    for (long k = 0; k <= depth && at != std::string::npos && at > 0; ++k) at = path.rfind('.', at - 1);
    tails.push_back(at == std::string::npos ? path : path.substr(at + 1));
  }
  const std::string near = diag::nearest(bare, tails);
  if (near.empty()) return;
  // The end of a path is none itself: only what matches is advised.
  const bool whole = bare == glob && std::any_of(paths.begin(), paths.end(),
                                                 [&](const std::string& path) { return glob_covers(near, path); });
  error.help("did you mean '" + (whole ? near : "*." + near) + "'?");
}

Status no_match(const ir::Graph& graph, const std::string& glob, strategy::Span span, diag::Diagnostics& diags) {
  auto error = diags.error("P0210", span);
  say_no_match(graph, glob, error);
  return error;
}

strategy::Span glob_span(const Annotation& annotation, size_t index) {
  return index < annotation.glob_spans.size() ? annotation.glob_spans[index] : annotation.span;
}

// The first op of a module: its first work, else whatever it has.
size_t first_op_of(const ir::Graph& graph, const std::vector<analysis::OpRole>& roles, const std::string& glob) {
  size_t any = graph.num_ops();
  for (size_t i = 0; i < graph.num_ops(); ++i) {
    if (!glob_covers(glob, graph.scope(graph.op(ir::OpId(i)).scope))) continue;
    if (roles[i] == analysis::OpRole::kWork) return i;
    any = std::min(any, i);
  }
  return any;
}

Status cut_at_starts(const ir::Graph& graph, const std::vector<analysis::OpRole>& roles, const Annotation& annotation,
                     TagColumn& column, diag::Diagnostics& diags) {
  std::vector<size_t> begins;
  for (size_t k = 0; k < annotation.globs.size(); ++k) {
    const size_t first = first_op_of(graph, roles, annotation.globs[k]);
    if (first == graph.num_ops()) return no_match(graph, annotation.globs[k], glob_span(annotation, k), diags);
    if (!begins.empty() && first <= begins.back()) {
      return diags.error("P0211", glob_span(annotation, k))
                 .note("region " + std::to_string(k - 1) + " starts here", glob_span(annotation, k - 1))
                 .help("list the starts in the order in which the modules run")
             << "'" << annotation.globs[k] << "' does not start after '" << annotation.globs[k - 1] << "'";
    }
    begins.push_back(first);
  }
  column.count = static_cast<int32_t>(begins.size());
  for (size_t i = 0; i < graph.num_ops(); ++i) {
    const auto next = std::upper_bound(begins.begin(), begins.end(), i);
    column.by_position[i] = static_cast<int32_t>(next - begins.begin()) - 1;
  }
  return {};
}

Status cut_by_cost(const ir::Graph& graph, const std::vector<analysis::OpRole>& roles, const Annotation& annotation,
                   TagColumn& column, diag::Diagnostics& diags) {
  std::vector<double> cost;
  column.count = static_cast<int32_t>(annotation.stages);
  column.by_position = balance_stages(graph, roles, column.count, cost);
  if (column.by_position.empty() && graph.num_ops() > 0) {
    return diags.error("P0207", annotation.span)
           << "the model has fewer blocks than the " << annotation.stages << " stages of '" << annotation.tag << "'";
  }
  double largest = 0, sum = 0;
  std::string each;
  char text[80];
  for (const double c : cost) {
    largest = std::max(largest, c);
    sum += c;
    std::snprintf(text, sizeof text, "%s%.4g", each.empty() ? "" : ", ", c);
    each += text;
  }
  std::snprintf(text, sizeof text, " flops of a forward; the largest is %.2f times the mean",
                sum > 0 ? largest * static_cast<double>(cost.size()) / sum : 1.0);
  diags.remark("the stages of '" + annotation.tag + "' cost " + each + text, annotation.span);
  return {};
}

Status number_modules(const ir::Graph& graph, const std::vector<analysis::OpRole>& roles, const Annotation& annotation,
                      TagColumn& column, std::map<std::string, int32_t>& numbers, diag::Diagnostics& diags) {
  std::vector<bool> used(annotation.globs.size());
  std::vector<std::string> module_of(graph.num_ops());
  std::vector<bool> matched(graph.num_ops());
  for (size_t i = 0; i < graph.num_ops(); ++i) {
    const std::string& scope = graph.scope(graph.op(ir::OpId(i)).scope);
    size_t length = std::string::npos;
    for (size_t k = 0; k < annotation.globs.size(); ++k) {
      const size_t covered = covering_length(annotation.globs[k], scope);
      if (covered == std::string::npos) continue;
      used[k] = true;
      length = std::min(length, covered);
    }
    if (length == std::string::npos) continue;
    matched[i] = true;
    module_of[i] = scope.substr(0, length);
  }
  // Work numbers the modules: weight views may lie far ahead of the module that reads them. A module without weights
  // has the place of its first op.
  std::map<std::string, size_t> begins;
  for (const bool work_only : {true, false})
    for (size_t i = 0; i < graph.num_ops(); ++i)
      if (matched[i] && (!work_only || roles[i] == analysis::OpRole::kWork)) begins.emplace(module_of[i], i);
  std::vector<std::pair<size_t, std::string>> in_order;
  for (const auto& [module, begin] : begins) in_order.emplace_back(begin, module);
  std::sort(in_order.begin(), in_order.end());
  for (const auto& [begin, module] : in_order)
    if (numbers.emplace(module, column.count).second) ++column.count;
  for (size_t i = 0; i < graph.num_ops(); ++i)
    if (matched[i]) column.region[i] = numbers.at(module_of[i]);
  std::vector<diag::GlobUse> uses;
  for (size_t k = 0; k < used.size(); ++k) uses.push_back({annotation.globs[k], glob_span(annotation, k), used[k]});
  return diag::tell_unmatched_globs(uses, "P0210", diags, [&](diag::InFlight& message, const std::string& glob) {
    say_no_match(graph, glob, message);
  });
}

// A region that no weight has a part in is one nevertheless (a stage that reshapes, pools or scales its input): what it
// makes of inputs is its work.
void give_work(const ir::Graph& graph, const TagColumn& column, std::vector<analysis::OpRole>& roles) {
  std::vector<bool> works(static_cast<size_t>(column.count)), reads_input(graph.num_values());
  for (const ir::Input& input : graph.inputs()) reads_input[input.value.index] = true;
  for (size_t i = 0; i < graph.num_ops(); ++i)
    if (roles[i] == analysis::OpRole::kWork && column.by_position[i] >= 0)
      works[static_cast<size_t>(column.by_position[i])] = true;
  for (size_t i = 0; i < graph.num_ops(); ++i) {
    const ir::Op& op = graph.op(ir::OpId(i));
    const bool reads = std::any_of(op.operands.begin(), op.operands.end(),
                                   [&](ir::ValueId v) { return v.valid() && reads_input[v.index]; });
    for (ir::ValueId result : op.results) reads_input[result.index] = reads;
    const int32_t region = column.by_position[i];
    if (reads && region >= 0 && !works[static_cast<size_t>(region)]) roles[i] = analysis::OpRole::kWork;
  }
}

}  // namespace

Result<std::vector<TagColumn>> assign_regions(const ir::Graph& graph, std::vector<analysis::OpRole>& roles,
                                              const std::vector<Annotation>& annotations, diag::Diagnostics& diags) {
  std::map<std::string, TagColumn> columns;
  std::map<std::string, const Annotation*> first;
  std::map<std::string, std::map<std::string, int32_t>> numbers;
  Status status;
  for (const Annotation& annotation : annotations) {
    const auto [known, is_new] = first.emplace(annotation.tag, &annotation);
    const bool both_modules =
        annotation.kind == Annotation::Kind::kModules && known->second->kind == Annotation::Kind::kModules;
    if (!is_new && !both_modules) {
      return diags.error("P0217", annotation.span)
                 .note("it is cut here already", known->second->span)
                 .help("give one of them another tag")
             << "the tag '" << annotation.tag << "' is cut in two ways";
    }
    TagColumn& column = columns[annotation.tag];
    column.tag = annotation.tag;
    column.region.resize(graph.num_ops(), -1);
    switch (annotation.kind) {
      case Annotation::Kind::kStarts:
        column.by_position.resize(graph.num_ops(), -1);
        column.is_partition = true;
        status = cut_at_starts(graph, roles, annotation, column, diags);
        if (status.ok()) give_work(graph, column, roles);
        break;
      case Annotation::Kind::kStages:
        column.is_partition = true;
        status = cut_by_cost(graph, roles, annotation, column, diags);
        break;
      case Annotation::Kind::kModules:
        status = number_modules(graph, roles, annotation, column, numbers[annotation.tag], diags);
        break;
    }
    PIPER_RETURN_IF_ERROR(std::move(status));
    for (size_t i = 0; i < graph.num_ops() && column.is_partition; ++i) {
      if (roles[i] == analysis::OpRole::kWork) column.region[i] = column.by_position[i];
    }
  }
  std::vector<TagColumn> result;
  for (auto& [tag, column] : columns) result.push_back(std::move(column));
  return result;
}

}  // namespace piper::regions
