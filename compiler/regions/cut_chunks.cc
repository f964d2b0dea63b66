#include "compiler/regions/cut_chunks.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "compiler/regions/assign_regions.h"
#include "compiler/regions/tag_of_all.h"

namespace piper::regions {
namespace {

// Values of the partition tags, in column order; -1 = none.
using RegionKey = std::vector<int32_t>;

// One op of the result: an op of the input in one region.
struct Instance {
  size_t op = 0;
  RegionKey key;
  ir::TagSet tags;
  bool is_copy = false;  // one of several
  bool is_view = false;  // of weights, and read: each chunk that reads it has one of its own
  int32_t level = 0;
};

// Where each op goes: for work one key, for copied ops one per region that reads them.
struct Regions {
  std::vector<TagColumn> columns;
  std::vector<size_t> partitions;            // positions in columns
  std::vector<std::vector<RegionKey>> keys;  // [op], sorted, at least one
  // What the annotations alone say of an op.
  RegionKey annotated(size_t op) const {
    RegionKey key;
    for (size_t position : partitions) key.push_back(columns[position].region[op]);
    return key;
  }
};

std::string region_name(const Regions& regions, const RegionKey& key) {
  std::string name;
  for (size_t p = 0; p < key.size(); ++p) {
    if (key[p] < 0) continue;
    name += (name.empty() ? "" : ".") + regions.columns[regions.partitions[p]].tag + std::to_string(key[p]);
  }
  return name.empty() ? "no region" : name;
}

// Readers of each op, in op order.
std::vector<std::vector<size_t>> readers_of(const ir::Graph& graph) {
  std::vector<std::vector<size_t>> readers(graph.num_ops());
  for (size_t i = 0; i < graph.num_ops(); ++i) {
    for (ir::ValueId operand : graph.op(ir::OpId(i)).operands) {
      if (!operand.valid() || graph.value(operand).kind != ir::ValueKind::kOpResult) continue;
      std::vector<size_t>& list = readers[graph.value(operand).producer.index];
      if (list.empty() || list.back() != i) list.push_back(i);
    }
  }
  return readers;
}

// Untagged work joins the first region that reads it (backwards through the ops), else the last one that it
// reads from (forwards): neither what skips to the end nor a head on the way then makes data flow back. What
// reads work is work, so copied ops play no part in this.
void join_work(const ir::Graph& graph, const std::vector<analysis::OpRole>& roles,
               const std::vector<std::vector<size_t>>& readers, Regions& regions) {
  for (size_t i = graph.num_ops(); i-- > 0;) {
    if (roles[i] == analysis::OpRole::kCopied) continue;
    RegionKey own = regions.annotated(i);
    for (size_t p = 0; p < own.size(); ++p) {
      if (own[p] >= 0) continue;
      for (size_t reader : readers[i]) {
        const int32_t region = regions.keys[reader][0][p];
        if (region >= 0 && (own[p] < 0 || region < own[p])) own[p] = region;
      }
    }
    regions.keys[i] = {own};
  }
  for (size_t i = 0; i < graph.num_ops(); ++i) {
    if (roles[i] == analysis::OpRole::kCopied) continue;
    RegionKey& own = regions.keys[i][0];
    for (size_t p = 0; p < own.size(); ++p) {
      if (own[p] >= 0) continue;
      for (ir::ValueId operand : graph.op(ir::OpId(i)).operands) {
        if (!operand.valid() || graph.value(operand).kind != ir::ValueKind::kOpResult) continue;
        const size_t producer = graph.value(operand).producer.index;
        if (roles[producer] != analysis::OpRole::kCopied) own[p] = std::max(own[p], regions.keys[producer][0][p]);
      }
    }
  }
}

// Copied ops collect the regions of all their readers.
void copy_to_readers(const ir::Graph& graph, const std::vector<analysis::OpRole>& roles,
                     const std::vector<std::vector<size_t>>& readers, Regions& regions) {
  for (size_t i = graph.num_ops(); i-- > 0;) {
    if (roles[i] != analysis::OpRole::kCopied) continue;
    const RegionKey own = regions.annotated(i);
    std::set<RegionKey> wanted;
    for (size_t reader : readers[i]) {
      for (RegionKey key : regions.keys[reader]) {
        for (size_t p = 0; p < own.size(); ++p) key[p] = own[p] >= 0 ? own[p] : key[p];
        wanted.insert(std::move(key));
      }
    }
    if (wanted.empty()) {  // an output of the graph keeps its chunk
      RegionKey key = own;
      for (size_t p = 0; p < own.size(); ++p) {
        const TagColumn& column = regions.columns[regions.partitions[p]];
        if (key[p] < 0 && !column.by_position.empty()) key[p] = std::max(0, column.by_position[i]);
      }
      wanted.insert(std::move(key));
    }
    regions.keys[i].assign(wanted.begin(), wanted.end());
  }
}

void remark_joins(const ir::Graph& graph, const std::vector<analysis::OpRole>& roles, const Regions& regions,
                  diag::Diagnostics& diags) {
  std::map<std::pair<std::string, std::string>, int> joined;
  std::map<std::string, int> copied;
  for (size_t i = 0; i < graph.num_ops(); ++i) {
    if (roles[i] == analysis::OpRole::kCopied) {
      if (regions.keys[i].size() < 2) continue;
      std::string where;
      for (const RegionKey& key : regions.keys[i]) where += (where.empty() ? "" : ", ") + region_name(regions, key);
      ++copied[where];
      continue;
    }
    bool own = true;
    for (size_t position : regions.partitions) own = own && regions.columns[position].region[i] >= 0;
    if (!own) ++joined[{graph.scope(graph.op(ir::OpId(i)).scope), region_name(regions, regions.keys[i][0])}];
  }
  for (const auto& [what, count] : joined) {
    diags.remark("untagged operators of " + (what.first.empty() ? "the root module" : "module '" + what.first + "'") +
                 " join " + what.second + ": " + std::to_string(count));
  }
  for (const auto& [where, count] : copied) {
    diags.remark("operators that depend on no parameter, and views of weights, copied into " + where + ": " +
                 std::to_string(count));
  }
}

// The last directive-independent rule of a cut: data never flow from a later region to an earlier one.
Status check_flow(const ir::Graph& graph, const std::vector<strategy::Annotation>& annotations, const Regions& regions,
                  diag::Diagnostics& diags) {
  for (size_t i = 0; i < graph.num_ops(); ++i) {
    const ir::Op& op = graph.op(ir::OpId(i));
    for (ir::ValueId operand : op.operands) {
      if (!operand.valid() || graph.value(operand).kind != ir::ValueKind::kOpResult) continue;
      const size_t from = graph.value(operand).producer.index;
      if (regions.keys[from].size() > 1) continue;
      for (size_t p = 0; p < regions.partitions.size(); ++p) {
        const int32_t a = regions.keys[from][0][p];
        for (const RegionKey& key : regions.keys[i]) {
          if (a <= key[p] || key[p] < 0) continue;
          const std::string& tag = regions.columns[regions.partitions[p]].tag;
          strategy::Span span;
          for (const auto& annotation : annotations) span = annotation.tag == tag ? annotation.span : span;
          const auto module = [&](size_t k) {
            const std::string& scope = graph.scope(graph.op(ir::OpId(k)).scope);
            return scope.empty() ? std::string("the root module") : "module '" + scope + "'";
          };
          return diags.error("P0212", span)
                     .note("'" + graph.value(operand).name + "' is made in " + module(from) + " and read in " +
                           module(i))
                     .help("number the regions in the order in which data flow, or cut elsewhere")
                 << tag << " " << a << " feeds " << tag << " " << key[p] << ", an earlier region";
        }
      }
    }
  }
  return {};
}

// ---------------------------------------------------------------- instances and their levels

struct Cut {
  std::vector<Instance> instances;                      // in a topological order
  std::vector<std::map<RegionKey, size_t>> of_op;       // [op] -> region -> instance
  std::vector<std::vector<size_t>> producers, readers;  // [instance]
};

size_t instance_for(const Cut& cut, size_t op, const RegionKey& key) {
  const auto& choices = cut.of_op[op];
  const auto found = choices.find(key);
  return found == choices.end() ? choices.begin()->second : found->second;
}

// [op] -> it is a view or cast of weights, and some operator reads it.
std::vector<bool> views_of_weights(const ir::Graph& graph, const std::vector<analysis::OpRole>& roles,
                                   const std::vector<std::vector<size_t>>& readers) {
  std::vector<bool> of_weight(graph.num_values()), is_view(graph.num_ops());
  for (const ir::Parameter& parameter : graph.parameters()) of_weight[parameter.value.index] = true;
  for (const ir::Parameter& buffer : graph.buffers())
    of_weight[buffer.value.index] = !graph.is_unchanging(buffer.value);
  for (size_t i = 0; i < graph.num_ops(); ++i) {
    const ir::Op& op = graph.op(ir::OpId(i));
    if (roles[i] != analysis::OpRole::kCopied) continue;
    const bool reads = std::any_of(op.operands.begin(), op.operands.end(),
                                   [&](ir::ValueId v) { return v.valid() && of_weight[v.index]; });
    for (ir::ValueId result : op.results) of_weight[result.index] = reads;
    is_view[i] = reads && !readers[i].empty();
  }
  for (const ir::Graph::Output& output : graph.outputs)
    if (graph.value(output.value).kind == ir::ValueKind::kOpResult)
      is_view[graph.value(output.value).producer.index] = false;
  return is_view;
}

Cut make_instances(const ir::Graph& graph, const Regions& regions, const std::vector<bool>& views) {
  Cut cut;
  cut.of_op.resize(graph.num_ops());
  for (size_t i = 0; i < graph.num_ops(); ++i) {
    for (const RegionKey& key : regions.keys[i]) {
      Instance instance;
      instance.op = i;
      instance.key = key;
      instance.is_copy = regions.keys[i].size() > 1;
      instance.is_view = views[i];
      for (size_t c = 0, p = 0; c < regions.columns.size(); ++c) {
        const TagColumn& column = regions.columns[c];
        const int32_t index = column.is_partition ? key[p++] : column.region[i];
        if (index >= 0) instance.tags.push_back({column.tag, index});
      }
      const size_t id = cut.instances.size();
      cut.of_op[i][key] = id;
      cut.instances.push_back(std::move(instance));
      cut.producers.emplace_back();
      cut.readers.emplace_back();
      for (ir::ValueId operand : graph.op(ir::OpId(i)).operands) {
        if (!operand.valid() || graph.value(operand).kind != ir::ValueKind::kOpResult) continue;
        const size_t producer = instance_for(cut, graph.value(operand).producer.index, key);
        cut.producers[id].push_back(producer);
        cut.readers[producer].push_back(id);
      }
    }
  }
  return cut;
}

bool tags_before(const ir::TagSet& a, const ir::TagSet& b) {
  return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    return std::tie(x.tag, x.index) < std::tie(y.tag, y.index);
  });
}
struct TagsBefore {
  bool operator()(const ir::TagSet& a, const ir::TagSet& b) const { return tags_before(a, b); }
};

// Ops with equal tags and level form a chunk: edges lead to the same or a higher level, and to a
// higher one where tags differ, so chunks are convex and their quotient is acyclic. A group without
// a producer in another chunk starts as early as its tags allow, which would make it a chunk of its
// own; where all of it can wait for a later group of the same tags, it moves there.
void assign_levels(Cut& cut) {
  std::vector<Instance>& all = cut.instances;
  std::map<ir::TagSet, std::map<int32_t, std::vector<size_t>>, TagsBefore> groups;
  std::map<ir::TagSet, std::set<int32_t>, TagsBefore> anchored;  // levels whose group reads another chunk
  int32_t top = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i].is_view) continue;
    bool foreign = false;
    for (size_t producer : cut.producers[i]) {
      if (all[producer].is_view) continue;
      const bool differs = !(all[producer].tags == all[i].tags);
      foreign = foreign || differs;
      all[i].level = std::max(all[i].level, all[producer].level + (differs ? 1 : 0));
    }
    top = std::max(top, all[i].level);
    groups[all[i].tags][all[i].level].push_back(i);
    if (foreign) anchored[all[i].tags].insert(all[i].level);
  }
  std::vector<std::vector<const std::vector<size_t>*>> at_level(static_cast<size_t>(top) + 1);
  for (const auto& [tags, levels] : groups) {
    for (const auto& [level, members] : levels) {
      if (anchored[tags].count(level) == 0) at_level[static_cast<size_t>(level)].push_back(&members);
    }
  }
  for (size_t level = at_level.size(); level-- > 0;) {
    for (const std::vector<size_t>* members : at_level[level]) {
      const std::set<int32_t>& stops = anchored[all[members->front()].tags];
      if (stops.empty()) continue;
      std::map<size_t, int32_t> moved;
      bool all_move = true;
      for (size_t k = members->size(); k-- > 0 && all_move;) {
        const size_t i = (*members)[k];
        int32_t latest = *stops.rbegin();
        for (size_t reader : cut.readers[i]) {
          const auto waits = moved.find(reader);
          const int32_t at = waits != moved.end() ? waits->second : all[reader].level;
          latest = std::min(latest, at - (all[reader].tags == all[i].tags ? 0 : 1));
        }
        const auto after = stops.upper_bound(latest);
        all_move = after != stops.begin() && *std::prev(after) > static_cast<int32_t>(level);
        if (all_move) moved[i] = *std::prev(after);
      }
      if (!all_move) continue;
      for (const auto& [i, to] : moved) all[i].level = to;
    }
  }
}

// Chunks by level, within a level by their first op; names from tags.
std::vector<ir::ChunkId> number_chunks(const Cut& cut, std::vector<ir::Chunk>& chunks) {
  std::map<ir::TagSet, std::map<int32_t, size_t>, TagsBefore> first;  // -> first instance
  for (size_t i = 0; i < cut.instances.size(); ++i)
    if (!cut.instances[i].is_view) first[cut.instances[i].tags].emplace(cut.instances[i].level, i);
  std::vector<std::pair<int32_t, size_t>> order;
  for (const auto& [tags, levels] : first) {
    for (const auto& [level, instance] : levels) order.emplace_back(level, instance);
  }
  std::sort(order.begin(), order.end());
  std::map<std::pair<int32_t, size_t>, ir::ChunkId> id;
  std::map<std::string, int32_t> used;
  for (const auto& entry : order) {
    id[entry] = ir::ChunkId(chunks.size());
    ir::Chunk chunk;
    chunk.tags = cut.instances[entry.second].tags;
    for (const ir::TagValue& value : chunk.tags) {
      chunk.name += (chunk.name.empty() ? "" : ".") + value.tag + std::to_string(value.index);
    }
    if (chunk.name.empty()) chunk.name = first.size() == 1 ? "all" : "rest";
    const int32_t repeat = ++used[chunk.name];
    if (repeat > 1) chunk.name += "." + std::to_string(repeat);
    chunks.push_back(std::move(chunk));
  }
  std::vector<ir::ChunkId> chunk_of(cut.instances.size());
  for (size_t i = cut.instances.size(); i-- > 0;) {
    const Instance& instance = cut.instances[i];
    if (!instance.is_view) chunk_of[i] = id[{instance.level, first[instance.tags][instance.level]}];
    else
      for (size_t reader : cut.readers[i]) chunk_of[i] = std::min(chunk_of[i], chunk_of[reader]);
  }
  return chunk_of;
}

// A chunk reads the view that is another one's.
bool views_cross(const Cut& cut, const std::vector<ir::ChunkId>& chunk_of) {
  for (size_t i = 0; i < cut.instances.size(); ++i)
    for (size_t producer : cut.producers[i])
      if (cut.instances[producer].is_view && chunk_of[producer] != chunk_of[i]) return true;
  return false;
}

// ---------------------------------------------------------------- the new graph

class Rebuilder {
 public:
  // `chunk_of`: [instance], invalid for a view that nobody reads.
  Rebuilder(const ir::Graph& from, const Cut& cut, const std::vector<ir::ChunkId>& chunk_of)
      : from_(from), cut_(cut), chunk_of_(chunk_of), plain_(from.num_values()), results_(cut.instances.size()) {
    to_.provenance() = from.provenance();
    add_leaves();
  }
  // `order`: instances in a topological order.
  ir::Graph build(const Regions& regions, const std::vector<size_t>& order) {
    for (size_t id : order)
      if (chunk_of_[id].valid()) results_[id] = add(regions, id, chunk_of_[id]);
    for (const ir::Graph::Output& output : from_.outputs) {
      to_.outputs.push_back({output.name, map_value(output.value, {})});
    }
    if (from_.loss.valid()) to_.loss = map_value(from_.loss, {});
    return std::move(to_);
  }

 private:
  void add_leaves() {
    for (const ir::Input& input : from_.inputs()) {
      plain_[input.value.index] = to_.add_input(input.name, from_.type(input.value), input.batched);
    }
    for (const ir::Parameter& p : from_.parameters()) {
      plain_[p.value.index] = to_.add_parameter(p.names, from_.type(p.value), p.trainable, p.source);
      to_.parameters().back().buffer = p.buffer;
    }
    for (const ir::Parameter& b : from_.buffers()) {
      plain_[b.value.index] = to_.add_buffer(b.names, from_.type(b.value), b.source);
    }
    for (const ir::Constant& c : from_.constants()) {
      plain_[c.value.index] = to_.add_constant(from_.value(c.value).name, from_.type(c.value), c.source);
    }
    for (size_t v = 0; v < from_.num_values(); ++v) {
      const ir::ValueKind kind = from_.value(ir::ValueId(v)).kind;
      if (kind == ir::ValueKind::kSeedStep) plain_[v] = to_.seed_step();
      if (kind == ir::ValueKind::kSampleOffset) plain_[v] = to_.sample_offset();
      if (kind == ir::ValueKind::kPlace) plain_[v] = to_.place();
      if (kind == ir::ValueKind::kLossScale) plain_[v] = to_.loss_scale();
    }
  }
  ir::ValueId map_value(ir::ValueId old, const RegionKey& key) const {
    if (!old.valid()) return old;
    const ir::Value& value = from_.value(old);
    if (value.kind != ir::ValueKind::kOpResult) return plain_[old.index];
    return results_[instance_for(cut_, value.producer.index, key)][value.result_index];
  }
  // As the chunk reads it: a view of weights that another chunk has is made here, too.
  ir::ValueId operand_in(const Regions& regions, ir::ValueId old, const RegionKey& key, ir::ChunkId chunk) {
    if (!old.valid() || from_.value(old).kind != ir::ValueKind::kOpResult) return map_value(old, key);
    const ir::Value& value = from_.value(old);
    const size_t id = instance_for(cut_, value.producer.index, key);
    if (!cut_.instances[id].is_view || chunk_of_[id] == chunk) return results_[id][value.result_index];
    const auto known = views_.find({id, chunk});
    if (known != views_.end()) return known->second[value.result_index];
    return (views_[{id, chunk}] = add(regions, id, chunk))[value.result_index];
  }
  std::vector<ir::ValueId> add(const Regions& regions, size_t id, ir::ChunkId chunk) {
    const Instance& instance = cut_.instances[id];
    const ir::Op& op = from_.op(ir::OpId(instance.op));
    std::vector<ir::ValueId> operands;
    for (ir::ValueId operand : op.operands) operands.push_back(operand_in(regions, operand, instance.key, chunk));
    std::vector<ir::TensorType> types;
    for (ir::ValueId result : op.results) types.push_back(from_.type(result));
    std::string name = op.results.empty() ? "" : from_.value(op.results[0]).name;
    ir::ProvId prov = op.prov;
    if (instance.is_copy || chunk != chunk_of_[id]) {
      if (!name.empty()) name += "@" + region_name(regions, instance.key);
      prov = to_.provenance().derived("cut_chunks", {op.prov});
    }
    ir::Attrs attrs = op.attrs;
    if (auto* accumulate = std::get_if<ir::AccumulateGradAttrs>(&attrs)) {
      accumulate->parameter = map_value(accumulate->parameter, instance.key);
    }
    const ir::ScopeId scope = op.scope.valid() ? to_.intern_scope(from_.scope(op.scope)) : op.scope;
    const ir::OpId made =
        to_.append(op.kind, std::move(attrs), std::move(operands), std::move(types), scope, prov, name);
    to_.op(made).phase = op.phase;
    to_.op(made).chunk = chunk;
    return to_.op(made).results;
  }

  const ir::Graph& from_;
  const Cut& cut_;
  const std::vector<ir::ChunkId>& chunk_of_;
  ir::Graph to_;
  std::vector<ir::ValueId> plain_;                                            // [old value] of leaves
  std::vector<std::vector<ir::ValueId>> results_;                             // [instance]
  std::map<std::pair<size_t, ir::ChunkId>, std::vector<ir::ValueId>> views_;  // of another chunk's instance
};

}  // namespace

Result<ir::ChunkedGraph> cut_chunks(ir::Graph graph, const strategy::Strategy& strategy, diag::Diagnostics& diags,
                                    const ModelTags& model_tags) {
  const std::vector<strategy::Annotation>& annotations = strategy.annotations;
  std::vector<analysis::OpRole> roles = analysis::op_roles(graph);
  Regions regions;
  PIPER_ASSIGN(regions.columns, assign_regions(graph, roles, annotations, diags));
  PIPER_RETURN_IF_ERROR(add_model_tags(graph, roles, annotations, model_tags, regions.columns, diags));
  choose_tag_of_all(strategy.needs_tag, regions.columns);
  for (size_t c = 0; c < regions.columns.size(); ++c) {
    if (regions.columns[c].is_partition) regions.partitions.push_back(c);
  }
  regions.keys.resize(graph.num_ops());
  const auto readers = readers_of(graph);
  join_work(graph, roles, readers, regions);
  copy_to_readers(graph, roles, readers, regions);
  PIPER_RETURN_IF_ERROR(check_flow(graph, annotations, regions, diags));
  remark_joins(graph, roles, regions, diags);

  Cut cut = make_instances(graph, regions, views_of_weights(graph, roles, readers));
  assign_levels(cut);
  ir::ChunkedGraph result;
  const std::vector<ir::ChunkId> chunk_of = number_chunks(cut, result.chunks);
  std::vector<size_t> order(cut.instances.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return chunk_of[a] < chunk_of[b]; });
  const bool as_it_was = cut.instances.size() == graph.num_ops() && std::is_sorted(order.begin(), order.end()) &&
                         !views_cross(cut, chunk_of);
  if (as_it_was) {
    for (size_t i = 0; i < order.size(); ++i) graph.op(ir::OpId(i)).chunk = chunk_of[i];
    result.graph = std::move(graph);
  } else {
    result.graph = Rebuilder(graph, cut, chunk_of).build(regions, order);
  }
  for (const TagColumn& column : regions.columns) result.tags.push_back({column.tag, column.count});
  return result;
}

}  // namespace piper::regions
