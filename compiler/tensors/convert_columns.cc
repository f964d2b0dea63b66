#include "compiler/tensors/convert_columns.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "compiler/tensors/cut_tables.h"
#include "compiler/tensors/products.h"
#include "schemas/base/check.h"

namespace piper::tensors {

using ir::OpId;
using ir::OpKind;
using ir::ValueId;

namespace {

// The mask of a part of `type`, which has a sample's elements at these places of the whole. The axis is one of a
// sample, or is before the samples.
void lay_out_part(ir::DropoutAttrs& attrs, const ir::TensorType& type, const PartAlong& along, int64_t places) {
  int64_t row = type.shape[static_cast<size_t>(along.axis)] / along.segments;
  for (size_t d = static_cast<size_t>(along.axis) + 1; d < type.shape.size(); ++d) row *= type.shape[d];
  const bool inside = attrs.inner % (row * places) == 0;
  attrs.row = inside ? row : row / attrs.batch;
  attrs.places = places;
  (inside ? attrs.inner : attrs.outer) /= places;
}

}  // namespace

template <class PartOf>
void ConvertColumns::cut_types(const PartOf& part_of) {
  const auto axis_of = [&](ValueId v) { return part_of(v).axis; };
  std::vector<OpId> masks;
  for (size_t i = 0; i < graph_.num_ops(); ++i) {
    ir::Op& op = graph_.op(OpId(i));
    for (const ValueId result : op.results) {
      const int32_t axis = axis_of(result);
      if (axis < 0) continue;
      ir::TensorType& type = graph_.value(result).type;
      const int64_t places = chunks_[op.chunk.index].places;
      type.shape[static_cast<size_t>(axis)] = part_extent(type.shape[static_cast<size_t>(axis)], places);
      if (auto* reshape = std::get_if<ir::ReshapeAttrs>(&op.attrs)) reshape->shape = type.shape;
      if (auto* expand = std::get_if<ir::ExpandAttrs>(&op.attrs)) expand->shape = type.shape;
      if (auto* rows = std::get_if<ir::RowsAttrs>(&op.attrs)) rows->rows = type.shape[0];
      if (auto* order = std::get_if<ir::ExpertOrderAttrs>(&op.attrs); order != nullptr && result == op.results[0])
        order->capacity /= places;
      if (auto* dropout = std::get_if<ir::DropoutAttrs>(&op.attrs)) {
        lay_out_part(*dropout, type, part_of(result), places);
        masks.push_back(OpId(i));
      }
      // Whole segments are taken, each of which is a part here.
      if (auto* slice = std::get_if<ir::SliceAttrs>(&op.attrs); slice != nullptr && slice->dim == axis) {
        slice->start /= places;
        slice->end /= places;
      }
    }
  }
  for (const OpId mask : masks) graph_.op(mask).operands.push_back(graph_.place());
}

void ConvertColumns::cut_values(const FollowedCuts& found, const std::vector<Table>& tables) {
  for (const FollowedCuts::Weight& weight : found.weights) {
    const ChunkCut& cut = chunks_[weight.chunk.index];
    int64_t& extent = graph_.value(weight.parameter).type.shape[static_cast<size_t>(weight.along.axis)];
    graph_.parameters()[graph_.value(weight.parameter).payload].cut =
        ir::ParameterCut{cut.cut,
                         weight.along.axis,
                         static_cast<int32_t>(cut.places),
                         weight.along.segments,
                         extent % cut.places != 0 ? extent : 0,
                         weight.along.extents};
    extent = part_extent(extent, cut.places);
    cut_[weight.chunk.index] = true;
  }
  for (const auto& [v, chunk] : found.shared)
    graph_.parameters()[graph_.value(v).payload].share = chunks_[chunk.index].cut;
  for (const Table& table : tables)
    for (const std::vector<OpId>* const readers : {&table.look_ups, &table.products})
      for (const OpId reader : *readers) {
        cut_[graph_.op(reader).chunk.index] = true;
        of_tables_.insert(reader);
      }
  for (const OpId loss : found.losses) cut_[graph_.op(loss).chunk.index] = true;
  cut_types([&](ValueId v) { return found.part[v.index]; });
}
void ConvertColumns::cut_values(const Rest& rest, const FollowedCuts& found) {
  for (const auto& [v, chunk] : rest.shared)
    graph_.parameters()[graph_.value(v).payload].share = chunks_[chunk.index].cut;
  cut_types([&](ValueId v) { return found.share[v.index] ? PartAlong() : rest.part[v.index]; });
}

// What asks for the parts, or the shares, that an operator of the columns has.
ir::CutDim ConvertColumns::dim_of(OpId id) const {
  const bool of_table = of_tables_.count(id) > 0 || graph_.op(id).kind == OpKind::kRowLse;
  return of_table ? ir::CutDim::kVocabulary : ir::CutDim::kColumn;
}

// A value enters once for all readers of a chunk. A part of a sequence is gathered instead.
void ConvertColumns::enter(const FollowedCuts& found, const Rest& rest) {
  std::vector<std::pair<OpId, uint32_t>> reads = found.entered;
  std::set<std::pair<OpId, uint32_t>> of_sequences;
  std::erase_if(reads, [&](const auto& read) {
    return std::any_of(rest.inside.begin(), rest.inside.end(), [&](const Rest::Read& inside) {
      return inside.op == read.first && inside.operand == read.second;
    });
  });
  for (const Rest::Read& read : rest.entered) {
    reads.emplace_back(read.op, read.operand);
    of_sequences.insert(reads.back());
  }
  std::map<std::pair<uint32_t, uint32_t>, ValueId> entered;  // (value, chunk)
  for (const auto& read : reads) {
    const auto [id, operand] = read;
    const ValueId whole = graph_.op(id).operands[operand];
    ValueId& inside = entered[{whole.index, graph_.op(id).chunk.index}];
    if (!inside.valid()) {
      ir::GraphBuilder b = builder_(graph_.op(id), of_sequences.count(read) > 0 ? ir::CutDim::kSequence : dim_of(id));
      // A parameter's gradient is added up where something makes what enters: a conversion has no program.
      const bool made = graph_.value(whole).kind == ir::ValueKind::kOpResult;
      const ValueId enters =
          made ? whole : b.add1(OpKind::kReshape, {whole}, ir::ReshapeAttrs{graph_.type(whole).shape});
      inside = b.add1(OpKind::kEnter, {enters}, ir::NoAttrs{}, graph_.value(whole).name + ".entered");
      PIPER_CHECK(b.status().ok(), "an operand that enters");
      ways_[inside.index] = "enter";
      cut_[graph_.op(id).chunk.index] = true;
    }
    graph_.op(id).operands[operand] = inside;
  }
}

// Whether a value enters, or is gathered, for some of its readers among the first `ops` operators, and others read it
// as it is.
bool ConvertColumns::is_converted_for_some(ValueId v, const Rest& rest, size_t ops) const {
  bool some = false, all = true;
  for (size_t i = 0; i < ops; ++i)
    for (uint32_t operand = 0; operand < graph_.op(OpId(i)).operands.size(); ++operand) {
      if (graph_.op(OpId(i)).operands[operand] != v) continue;
      const auto is_this = [&](const Rest::Read& read) { return read.op == OpId(i) && read.operand == operand; };
      const bool converts = graph_.op(OpId(i)).kind == OpKind::kEnter ||
                            std::any_of(rest.inside.begin(), rest.inside.end(), is_this) ||
                            std::any_of(rest.whole.begin(), rest.whole.end(), is_this);
      some = some || converts;
      all = all && converts;
    }
  return some && !all;
}

// Shares are added up where they are made; a bias, of which each place would add its own, after that.
void ConvertColumns::add_up(const FollowedCuts& found, const Rest& rest) {
  const size_t before = graph_.num_ops();
  std::vector<bool> shares = found.share, scattered(graph_.num_values(), false);
  shares.resize(graph_.num_values(), false);
  for (const ValueId share : rest.summed) shares[share.index] = true;
  for (const ValueId share : rest.scattered) scattered[share.index] = true;
  std::map<uint32_t, ValueId> whole;  // share -> the sum
  for (size_t i = 0; i < before; ++i) {
    const std::vector<ValueId> results = graph_.op(OpId(i)).results;
    for (const ValueId share : results) {
      if (!shares[share.index]) continue;
      ir::GraphBuilder b =
          builder_(graph_.op(OpId(i)), scattered[share.index] ? ir::CutDim::kSequence : dim_of(OpId(i)));
      const std::string name = graph_.value(share).name;
      const ChunkCut& cut = chunks_[graph_.op(OpId(i)).chunk.index];
      ValueId sum;
      if (scattered[share.index]) {
        sum = scatter(b, share, rest.part[share.index], cut, ways_);
      } else {
        sum = b.add1(OpKind::kAllReduce, {share}, ir::NoAttrs{}, name + ".sum");
        ways_[sum.index] = "sum";
      }
      cut_[graph_.op(OpId(i)).chunk.index] = true;
      std::vector<ValueId>& operands = graph_.op(OpId(i)).operands;
      if (const ValueId bias = bias_of(graph_.op(OpId(i))); bias.valid()) {
        operands[2] = ValueId();
        sum = b.add1(OpKind::kAdd, {sum, bias}, ir::NoAttrs{}, name + ".biased");
      } else if (is_converted_for_some(share, rest, before)) {  // between two conversions its gradients are added up
        sum = b.add1(OpKind::kReshape, {sum}, ir::ReshapeAttrs{b.type(sum).shape}, name + ".read");
      }
      PIPER_CHECK(b.status().ok(), "a sum over places");
      whole[share.index] = sum;
    }
  }
  for (size_t i = 0; i < before; ++i)
    if (graph_.op(OpId(i)).kind != OpKind::kAllReduce)
      for (ValueId& operand : graph_.op(OpId(i)).operands)
        if (const auto found_sum = operand.valid() ? whole.find(operand.index) : whole.end(); found_sum != whole.end())
          operand = found_sum->second;
  for (ir::Graph::Output& output : graph_.outputs)
    if (const auto found_sum = whole.find(output.value.index); found_sum != whole.end())
      output.value = found_sum->second;
  // A program adds these up over the step: what a conversion makes, none does.
  const auto add_over_step = [&](ValueId& number, bool of_experts) {
    const auto found_sum = whole.find(number.index);
    if (found_sum == whole.end()) return;
    const OpId made = graph_.value(number).producer;
    ir::GraphBuilder b = builder_(graph_.op(made), of_experts ? ir::CutDim::kSequence : dim_of(made));
    number = b.made_by_program(found_sum->second);
    PIPER_CHECK(b.status().ok(), "a number of the step");
  };
  for (ValueId& dropped : graph_.dropped) add_over_step(dropped, true);
  add_over_step(graph_.loss, false);
}

}  // namespace piper::tensors
