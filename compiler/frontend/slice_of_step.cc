#include "compiler/frontend/slice_of_step.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "compiler/frontend/fold.h"
#include "compiler/ir/attrs_text.h"
#include "compiler/ir/shapes.h"

namespace piper::frontend {
namespace {

using ir::OpId;
using ir::OpKind;
using ir::Shape;
using ir::ValueId;

// A value of which the samples differ is kept for the whole batch up to this size.
constexpr int64_t kMostBytes = int64_t{1} << 26;

// Where the batch is in a value: extent of `axis` = batch x each.
struct Place {
  size_t axis = 0;
  int64_t each = 1;
};

class Slicer {
 public:
  Slicer(ir::Graph piece, const ir::Graph& whole, const SliceOfStep& step, diag::Diagnostics& diags)
      : piece_(std::move(piece)), whole_(whole), step_(step), diags_(diags) {}

  Result<ir::Graph> run() {
    PIPER_RETURN_IF_ERROR(pair());
    num_values_ = piece_.num_values();
    in_piece_.resize(num_values_);
    in_whole_.resize(num_values_);
    sampled_.resize(num_values_, false);
    places_in_step_.resize(num_values_, false);
    for (const ir::Input& input : piece_.inputs()) sampled_[input.value.index] = input.batched;
    for (size_t v = 0; v < num_values_; ++v) {
      in_piece_[v] = constant_of(piece_, ValueId(v));
      if (of_whole_[v].valid()) in_whole_[v] = constant_of(whole_, of_whole_[v]);
    }
    const size_t num_ops = piece_.num_ops();
    std::vector<bool> is_known(num_ops);
    for (size_t i = 0; i < num_ops; ++i) is_known[i] = evaluates(OpId(i));
    find_names_of_rows();
    for (size_t i = 0; i < num_ops; ++i)
      if (!is_known[i]) PIPER_RETURN_IF_ERROR(slice(OpId(i)));
    for (ir::Graph::Output& output : piece_.outputs) {
      if (!differs(output.value)) continue;
      PIPER_ASSIGN(output.value, sliced(output.value, ir::ScopeId(), ir::ProvId()));
    }
    if (piece_.num_ops() > num_ops) piece_.move_ops_before_readers();
    return std::move(piece_);
  }

 private:
  // ---- which value of the whole each of the piece's is
  // Both are one program: operators in one order, of values that stand for each other.
  Status pair() {
    of_whole_.assign(piece_.num_values(), ValueId());
    const auto same = [&](const auto& a, const auto& b) {
      for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) of_whole_[a[i].value.index] = b[i].value;
    };
    same(piece_.inputs(), whole_.inputs());
    same(piece_.parameters(), whole_.parameters());
    same(piece_.buffers(), whole_.buffers());
    const size_t num_ops = std::min(piece_.num_ops(), whole_.num_ops());
    for (size_t i = 0; i < num_ops; ++i)
      if (!pair_op(OpId(i)))
        return refuse(piece_.op(OpId(i)), "is '" + std::string(ir::op_name(piece_.op(OpId(i)).kind)) + "' for " +
                                              std::to_string(step_.piece) +
                                              " samples and another operator, or of other values, for " +
                                              std::to_string(step_.whole));
    bool paired = piece_.outputs.size() == whole_.outputs.size();
    for (size_t i = 0; paired && i < piece_.outputs.size(); ++i)
      paired = pair_value(piece_.outputs[i].value, whole_.outputs[i].value);
    if (piece_.num_ops() == whole_.num_ops() && paired) return {};
    return refuse(piece_.op(OpId(num_ops - 1)), "is followed by other operators for " + std::to_string(step_.piece) +
                                                    " samples than for " + std::to_string(step_.whole));
  }
  bool pair_op(OpId id) {
    const ir::Op& of_whole = whole_.op(id);
    if (piece_.op(id).kind != of_whole.kind || piece_.op(id).operands.size() != of_whole.operands.size() ||
        piece_.op(id).results.size() != of_whole.results.size())
      return false;
    for (size_t k = 0; k < of_whole.operands.size(); ++k) {
      ValueId v = piece_.op(id).operands[k];
      if (!pair_value(v, of_whole.operands[k])) return false;
      piece_.op(id).operands[k] = v;
    }
    for (size_t r = 0; r < of_whole.results.size(); ++r)
      of_whole_[piece_.op(id).results[r].index] = of_whole.results[r];
    return true;
  }
  // Two numbers that are equal for the piece may be two for the whole: one of them is then a constant of its own.
  bool pair_value(ValueId& v, ValueId of_whole) {
    if (!v.valid() || !of_whole.valid()) return v.valid() == of_whole.valid();
    const ir::Value value = piece_.value(v);
    if (value.kind != whole_.value(of_whole).kind) return false;
    if (value.kind == ir::ValueKind::kConstant && of_whole_[v.index].valid() && of_whole_[v.index] != of_whole) {
      auto [own, is_new] = own_constants_.try_emplace({v.index, of_whole.index});
      if (is_new) {
        own->second = piece_.add_constant(value.name, value.type, piece_.constants()[value.payload].source);
        of_whole_.push_back(of_whole);
      }
      v = own->second;
      return true;
    }
    const bool is_leaf = value.kind == ir::ValueKind::kConstant || value.kind == ir::ValueKind::kSeedStep ||
                         value.kind == ir::ValueKind::kSampleOffset;
    if (is_leaf) of_whole_[v.index] = of_whole;
    return of_whole_[v.index] == of_whole;
  }

  Status refuse(const ir::Op& op, const std::string& why) const {
    auto error = diags_.error("P0336");
    error << piece_.provenance().describe(op.prov) << " " << why;
    error.help("make it from the samples' own values, or compile with one microbatch and one replica");
    return error;
  }

  // ---- values without samples
  // What an operator on known values makes; such operators are left to the fold.
  bool evaluates(OpId id) {
    const ir::Op &op = piece_.op(id), &other = whole_.op(id);
    std::vector<ConstantTensor> a, b;
    for (ValueId operand : op.operands) {
      if (!operand.valid() || !in_piece_[operand.index] || !in_whole_[operand.index]) return false;
      a.push_back(*in_piece_[operand.index]);
      b.push_back(*in_whole_[operand.index]);
    }
    const auto of_piece = evaluate(op.kind, op.attrs, a), of_whole = evaluate(other.kind, other.attrs, b);
    if (!of_piece || !of_whole) return false;
    for (size_t r = 0; r < op.results.size(); ++r) {
      in_piece_[op.results[r].index] = (*of_piece)[r];
      in_whole_[op.results[r].index] = (*of_whole)[r];
    }
    return true;
  }
  bool differs(ValueId v) const {
    if (!v.valid() || v.index >= num_values_ || !in_piece_[v.index] || !in_whole_[v.index]) return false;
    return !same_elements(*in_piece_[v.index], *in_whole_[v.index]);
  }
  bool varies(ValueId v) const { return !(piece_.type(v) == whole_.type(of_whole_[v.index])); }

  // ---- an operator that is computed
  Status slice(OpId id) {
    bool places_in_step = false;
    for (size_t k = 0; k < piece_.op(id).operands.size(); ++k) {
      const ir::Op& op = piece_.op(id);
      const ValueId v = op.operands[k];
      if (v.valid() && v.index < num_values_ && places_in_step_[v.index]) {
        if (is_index_of_samples(op, k)) return refuse(op, "reads samples by numbers that are also read as values");
        places_in_step = places_in_step || moves_names(op.kind, k);
      }
      if (!differs(v) || names_rows(op, k) || (is_per_piece(op) && !is_same_in_all_pieces(v))) continue;
      places_in_step = places_in_step || (moves_names(op.kind, k) && !is_same_in_all_pieces(v));
      PIPER_ASSIGN(const ValueId slice, sliced(v, op.scope, op.prov));  // moves the list of ops
      piece_.op(id).operands[k] = slice;
    }
    ir::Op& op = piece_.op(id);
    bool sampled = std::any_of(op.operands.begin(), op.operands.end(), [&](ValueId v) {
      return v.valid() && (v.index >= num_values_ ? made_for_samples_[v.index] : bool(sampled_[v.index]));
    });
    PIPER_RETURN_IF_ERROR(check_numbers(op, whole_.op(id), sampled));
    const bool local = is_per_piece(op);
    for (ValueId result : op.results) {
      if (!sampled && varies(result) && !local && !names_rows_[result.index])
        return refuse(op,
                      "makes a value that has the batch in its shape, and no sample in it, in a way that piper "
                      "does not cut");
      sampled_[result.index] = sampled;
      places_in_step_[result.index] = places_in_step;
    }
    if (op.kind == OpKind::kSlice && sampled) take_batches(id);
    return {};
  }
  // A slice of whole batches on an axis where several lie one after the other, [2 * B], is one of an axis that counts
  // them: x[B:] of two.
  void take_batches(OpId id) {
    const ir::Op op = piece_.op(id);
    const auto &here = std::get<ir::SliceAttrs>(op.attrs), &there = std::get<ir::SliceAttrs>(whole_.op(id).attrs);
    const auto dim = static_cast<size_t>(here.dim);
    Shape shape = piece_.type(op.operands[0]).shape;
    const int64_t extent = shape[dim], of_whole = whole_.type(whole_.op(id).operands[0]).shape[dim];
    const auto is_of_batches = [&](int64_t a, int64_t b) {
      return a % step_.piece == 0 && a / step_.piece * step_.whole == b;
    };
    if (here.step != 1 || here.end - here.start == extent || !is_of_batches(here.start, there.start) ||
        !is_of_batches(here.end, there.end) || !is_of_batches(extent, of_whole))
      return;
    const int64_t run = std::gcd(std::gcd(here.start, here.end), extent);  // of samples, each as often as may be
    shape[dim] = run;
    shape.insert(shape.begin() + here.dim, extent / run);
    ir::GraphBuilder b(piece_, op.scope, op.prov);
    const ValueId batches = b.slice(b.reshape(op.operands[0], shape), here.dim, here.start / run, here.end / run);
    piece_.op(id).kind = OpKind::kReshape;
    piece_.op(id).attrs = ir::ReshapeAttrs{piece_.type(op.results[0]).shape};
    piece_.op(id).operands = {batches};
  }
  bool is_per_piece(const ir::Op& op) const {
    const std::string& module = piece_.scope(op.scope);
    return !module.empty() && step_.per_piece && step_.per_piece(module);
  }
  // Rows of a piece are named by their places in the piece, and so is what such names are made of. A value that is read
  // otherwise as well names nothing.
  void find_names_of_rows() {
    std::vector<bool> is_read(num_values_, false);
    names_rows_.assign(num_values_, true);
    for (const ir::Graph::Output& output : piece_.outputs) names_rows_[output.value.index] = false;
    for (size_t i = piece_.num_ops(); i-- > 0;) {
      const ir::Op& op = piece_.op(OpId(i));
      for (ValueId result : op.results)
        if (!is_read[result.index]) names_rows_[result.index] = false;
      for (size_t k = 0; k < op.operands.size(); ++k) {
        const ValueId v = op.operands[k];
        if (!v.valid()) continue;
        is_read[v.index] = true;
        if (!names_rows(op, k) && !is_sign_test(op)) names_rows_[v.index] = false;
      }
    }
  }
  // The operator that is not yet changed reads rows of samples, or what names them, by this operand.
  bool names_rows(const ir::Op& op, size_t operand) const {
    return is_index_of_samples(op, operand) || (moves_names(op.kind, operand) && names_rows_[op.results[0].index]);
  }
  // The result's places move with those of the operand.
  static bool moves_names(OpKind kind, size_t operand) {
    switch (kind) {
      case OpKind::kReshape:
      case OpKind::kExpand:
      case OpKind::kPermute:
      case OpKind::kSlice:
      case OpKind::kCast:
      case OpKind::kDetach:
      case OpKind::kSub:
      case OpKind::kDiv:
      case OpKind::kIndexSelect:
      case OpKind::kGather: return operand == 0;
      case OpKind::kAdd:
      case OpKind::kMul:
      case OpKind::kCat: return true;
      case OpKind::kWhere: return operand > 0;
      default: return false;
    }
  }
  // index < 0, as exporters write it before they add the extent to indices that count from the end.
  bool is_sign_test(const ir::Op& op) const {
    if (op.kind != OpKind::kLt) return false;
    const std::optional<ConstantTensor>& than = in_piece_[op.operands[1].index];
    return than && than->type.elements() == 1 &&
           std::all_of(than->data()->begin(), than->data()->end(), [](std::byte b) { return b == std::byte{0}; });
  }
  bool is_index_of_samples(const ir::Op& op, size_t operand) const {
    const bool indexes = op.kind == OpKind::kIndexSelect || op.kind == OpKind::kGather || op.kind == OpKind::kScatter ||
                         op.kind == OpKind::kScatterAdd || op.kind == OpKind::kIndexAdd;
    if (!indexes || operand != 1) return false;
    const auto dim = static_cast<size_t>(std::get<ir::DimAttrs>(op.attrs).dim);
    const Shape &a = piece_.type(op.operands[0]).shape, &b = whole_.type(whole_operand(op, 0)).shape;
    return dim < a.size() && a[dim] != b[dim];
  }
  // Operands that are not replaced are the whole's by number.
  ValueId whole_operand(const ir::Op& op, size_t operand) const {
    return whole_.op(piece_.value(op.results[0]).producer).operands[operand];
  }

  // Numbers in attributes are extents, or the same. An expand may repeat what it reads once for each sample.
  Status check_numbers(ir::Op& op, const ir::Op& of_whole, bool& sampled) {
    // What a dropout says of samples is set by lay_out_dropout.
    if (op.kind == OpKind::kReshape || op.kind == OpKind::kDropout || ir::equal(op.attrs, of_whole.attrs)) return {};
    if (op.kind == OpKind::kExpand) {
      const Shape &from = whole_.type(of_whole.operands[0]).shape, &to = whole_.type(of_whole.results[0]).shape;
      const Shape& here = piece_.type(op.results[0]).shape;
      for (size_t d = 0; d < to.size(); ++d) {
        const size_t lead = to.size() - from.size();
        const bool repeats = d < lead || from[d - lead] == 1;
        if (!repeats || here[d] == to[d]) continue;
        auto& attrs = std::get<ir::ExpandAttrs>(op.attrs);
        if (attrs.samples >= 0 || here[d] % step_.piece != 0 || here[d] / step_.piece * step_.whole != to[d])
          return refuse(op, "expands over the batch in a way that piper does not cut");
        attrs.samples = static_cast<int64_t>(d);
        sampled = true;
      }
      return {};
    }
    if (const auto* slice = std::get_if<ir::SliceAttrs>(&op.attrs)) {
      const auto dim = static_cast<size_t>(slice->dim);
      if (piece_.type(op.operands[0]).shape[dim] != whole_.type(of_whole.operands[0]).shape[dim]) return {};
    }
    if (is_per_piece(op) || ir::equal(without_extents(op, piece_), without_extents(of_whole, whole_))) return {};
    return refuse(op, "depends on the number of samples: " + ir::to_string(op.attrs) + " for " +
                          std::to_string(step_.piece) + ", " + ir::to_string(of_whole.attrs) + " for " +
                          std::to_string(step_.whole));
  }

  // The attributes without numbers of all rows, or of all elements of an axis.
  static ir::Attrs without_extents(const ir::Op& op, const ir::Graph& graph) {
    ir::Attrs attrs = op.attrs;
    const auto drop = [&](int64_t& number, int64_t dim) {
      if (number == graph.type(op.operands[0]).shape[static_cast<size_t>(dim)]) number = -1;
    };
    if (auto* topk = std::get_if<ir::TopkAttrs>(&attrs)) drop(topk->k, topk->dim);
    if (auto* order = std::get_if<ir::ExpertOrderAttrs>(&attrs)) drop(order->capacity, 0);
    if (auto* rows = std::get_if<ir::RowsAttrs>(&attrs)) rows->rows = -1;
    return attrs;
  }

  // ---- the slice of a known value
  Result<ValueId> sliced(ValueId v, ir::ScopeId scope, ir::ProvId prov) {
    if (const auto found = slices_.find(v.index); found != slices_.end()) return found->second;
    const ir::Value value = piece_.value(v);
    if (value.kind == ir::ValueKind::kOpResult) {
      scope = piece_.op(value.producer).scope;
      prov = piece_.op(value.producer).prov;
    }
    ir::GraphBuilder b(piece_, scope, prov);
    PIPER_ASSIGN(const ValueId made, make_slice(b, v, prov));
    if (!b.status().ok()) return Status(b.status().error());
    if (made != v && made.index >= num_values_) {
      if (made_for_samples_.size() < piece_.num_values()) made_for_samples_.resize(piece_.num_values(), false);
      made_for_samples_[made.index] = varies(v);
    }
    slices_.emplace(v.index, made);
    return made;
  }

  Result<ValueId> make_slice(ir::GraphBuilder& b, ValueId v, ir::ProvId prov) {
    const ConstantTensor &part = *in_piece_[v.index], &all = *in_whole_[v.index];
    const bool of_step = step_.whole == step_.step;
    if (part.type == all.type && of_step && all.is_of_bytes()) return of_step_itself(b, v);
    const std::optional<Place> place = place_of(part.type.shape, all.type.shape);
    if (!place && part.type == all.type)
      return cannot(prov, "the file was exported for smaller batches than the step's");
    if (!place) return cannot(prov, "the batch is not one factor of one of its axes");
    if (marks_expand(v, *place)) return v;
    if (is_form_of_one_sample(part, all, *place)) return expanded_slice(b, v, *place);
    if (!all.is_of_bytes()) return cannot(prov, "it is too large");
    if (is_one_element(all)) return repeated(b, v, *place);
    // How a mask is made has to stay, whether it is written out or not: the fold reads it off the operators.
    const bool is_made = piece_.value(v).kind == ir::ValueKind::kOpResult;
    if (is_made && place->each == 1 && part.type.dtype == DType::kBool && is_same_in_all_pieces(v))
      return expanded_slice(b, v, *place);
    if (const std::optional<ir::Op> view = moves_repeated(v)) {
      PIPER_ASSIGN(const ValueId repeated, sliced(view->operands[0], view->scope, view->prov));
      return named_as(v, b.add1(view->kind, {repeated}, view->attrs));
    }
    if (const std::optional<ir::Op> view = repeats_samples(v)) {
      PIPER_ASSIGN(const ValueId samples, sliced(view->operands[0], view->scope, view->prov));
      return named_as(v, b.add1(view->kind, {samples}, view->attrs));
    }
    if (samples_agree(all, *place)) return expanded_row(b, v, *place);
    if (!of_step) return cannot(prov, "the file was exported for smaller batches than the step's");
    if (all.type.bytes() > kMostBytes) return cannot(prov, "it has more than 64 MiB");
    return rows(b, v, *place);
  }
  // As the fold has it in the whole: what repeats one number is a view of it.
  ValueId of_step_itself(ir::GraphBuilder& b, ValueId v) {
    const ConstantTensor& all = *in_whole_[v.index];
    const bool made = piece_.value(v).kind == ir::ValueKind::kOpResult;
    if (!made || all.type.elements() < 2 || !is_one_element(all)) return constant(v, all.type, *all.data());
    const auto size = static_cast<std::ptrdiff_t>(dtype_bytes(all.type.dtype));
    const ValueId element = constant(v, {all.type.dtype, {}}, {all.data()->begin(), all.data()->begin() + size});
    return named_as(v, b.add1(OpKind::kExpand, {element}, ir::ExpandAttrs{all.type.shape}));
  }
  Status cannot(ir::ProvId prov, const std::string& why) const {
    auto error = diags_.error("P0336");
    error << "a constant of " << piece_.provenance().describe(prov)
          << " has the batch in its shape and cannot be cut: " << why;
    error.help("make it from the samples' own values, or compile with one microbatch and one replica");
    return error;
  }

  std::optional<Place> place_of(const Shape& part, const Shape& all) const {
    std::optional<Place> place;
    if (part.size() != all.size()) return std::nullopt;
    for (size_t d = 0; d < part.size(); ++d) {
      if (part[d] == all[d]) continue;
      const int64_t each = part[d] / step_.piece;
      if (place || each * step_.piece != part[d] || each * step_.whole != all[d]) return std::nullopt;
      place = {d, each};
    }
    return place;
  }
  static bool is_one_element(const ConstantTensor& t) {
    const auto size = static_cast<size_t>(dtype_bytes(t.type.dtype));
    // Bits are compared, as the fold does.
    return t.data()->size() >= size &&
           std::memcmp(t.data()->data(), t.data()->data() + size, t.data()->size() - size) == 0;
  }
  static int64_t row_bytes(const ConstantTensor& t, const Place& place) {
    return place.each * ir::elements_behind(t.type.shape, place.axis) * dtype_bytes(t.type.dtype);
  }
  bool samples_agree(const ConstantTensor& all, const Place& place) const {
    const auto row = static_cast<size_t>(row_bytes(all, place)), block = row * static_cast<size_t>(step_.whole);
    for (size_t at = 0; at < all.data()->size(); at += block)
      if (std::memcmp(all.data()->data() + at, all.data()->data() + at + row, block - row) != 0) return false;
    return true;
  }

  // Whether a form says that all samples are one, and the same for the piece as for the whole.
  static bool is_form_of_one_sample(const ConstantTensor& part, const ConstantTensor& all, const Place& place) {
    return place.each == 1 && form::equal(part.form(), all.form()) && !form::depends_on(all.form(), place.axis);
  }
  // The first sample, expanded: nothing is written out.
  ValueId expanded_slice(ir::GraphBuilder& b, ValueId v, const Place& place) {
    const auto axis = static_cast<int64_t>(place.axis);
    const ir::ExpandAttrs attrs{in_piece_[v.index]->type.shape, axis};
    return named_as(v, b.add1(OpKind::kExpand, {b.slice(v, axis, 0, 1)}, attrs));
  }

  // Whether each piece's slice of the whole's value is the piece's value.
  bool is_same_in_all_pieces(ValueId v) const {
    const ConstantTensor &part = *in_piece_[v.index], &all = *in_whole_[v.index];
    const std::optional<Place> place = place_of(part.type.shape, all.type.shape);
    if (place && is_form_of_one_sample(part, all, *place)) return true;
    if (!place || !part.is_of_bytes() || !all.is_of_bytes() || !samples_agree(all, *place)) return false;
    const auto row = static_cast<size_t>(row_bytes(all, *place)), samples = static_cast<size_t>(step_.piece),
               more = static_cast<size_t>(step_.whole);
    for (size_t at = 0, of_all = 0; at < part.data()->size(); at += row * samples, of_all += row * more)
      if (std::memcmp(part.data()->data() + at, all.data()->data() + of_all, row * samples) != 0) return false;
    return true;
  }

  // The model's own expand of what is the same for the piece and for the whole says that it repeats for each sample.
  bool marks_expand(ValueId v, const Place& place) {
    const ir::Value& value = piece_.value(v);
    if (value.kind != ir::ValueKind::kOpResult) return false;
    ir::Op& op = piece_.op(value.producer);
    if (op.kind != OpKind::kExpand || differs(op.operands[0])) return false;
    std::get<ir::ExpandAttrs>(op.attrs).samples = static_cast<int64_t>(place.axis);
    sampled_[v.index] = true;
    return true;
  }

  // Whether it moves elements of its operand, none of them along the axis of an expand.
  bool moves(const ir::Op& op, ValueId result) const {
    return op.kind == OpKind::kPermute || op.kind == OpKind::kSlice ||
           (op.kind == OpKind::kReshape && without_ones(op.operands[0]) == without_ones(result));
  }
  // An operator that moves elements of what the model's own expand repeats for each sample: in the whole it is a view.
  std::optional<ir::Op> moves_repeated(ValueId v) const {
    std::optional<ir::Op> view;
    while (piece_.value(v).kind == ir::ValueKind::kOpResult) {
      const ir::Op& op = piece_.op(piece_.value(v).producer);
      if (op.kind == OpKind::kExpand && !differs(op.operands[0])) return view;
      if (!moves(op, v)) return std::nullopt;
      if (!view) view = op;
      v = op.operands[0];
    }
    return std::nullopt;
  }
  // A view of numbers of the samples that an expand repeats: it is one in the whole, too (fold.cc).
  std::optional<ir::Op> repeats_samples(ValueId v) const {
    std::optional<ir::Op> view;
    while (piece_.value(v).kind == ir::ValueKind::kOpResult) {
      const ir::Op& op = piece_.op(piece_.value(v).producer);
      if ((op.kind != OpKind::kExpand && !moves(op, v)) || !differs(op.operands[0])) return std::nullopt;
      if (!view) view = op;
      if (op.kind == OpKind::kExpand) return view;
      v = op.operands[0];
    }
    return std::nullopt;
  }
  Shape without_ones(ValueId v) const {
    Shape shape = whole_.type(of_whole_[v.index]).shape;
    shape.erase(std::remove(shape.begin(), shape.end(), 1), shape.end());
    return shape;
  }

  ValueId repeated(ir::GraphBuilder& b, ValueId v, const Place& place) {
    const ConstantTensor &part = *in_piece_[v.index], &all = *in_whole_[v.index];
    const auto size = static_cast<size_t>(dtype_bytes(all.type.dtype));
    const auto axis = static_cast<int64_t>(place.axis);
    const ValueId element = constant(v, {all.type.dtype, {}},
                                     {all.data()->begin(), all.data()->begin() + static_cast<std::ptrdiff_t>(size)});
    return named_as(v, b.add1(OpKind::kExpand, {element}, ir::ExpandAttrs{part.type.shape, axis}));
  }

  ValueId expanded_row(ir::GraphBuilder& b, ValueId v, const Place& place) {
    const ConstantTensor &part = *in_piece_[v.index], &all = *in_whole_[v.index];
    const auto row = static_cast<size_t>(row_bytes(all, place)), block = row * static_cast<size_t>(step_.whole);
    std::vector<std::byte> bytes;
    for (size_t at = 0; at < all.data()->size(); at += block)
      bytes.insert(bytes.end(), all.data()->begin() + static_cast<std::ptrdiff_t>(at),
                   all.data()->begin() + static_cast<std::ptrdiff_t>(at + row));
    const ValueId one = constant(v, {all.type.dtype, split(part.type.shape, place, 1)}, std::move(bytes));
    const ir::ExpandAttrs attrs{split(part.type.shape, place, step_.piece), static_cast<int64_t>(place.axis)};
    return named_as(v, b.reshape(b.add1(OpKind::kExpand, {one}, attrs), part.type.shape));
  }

  ValueId rows(ir::GraphBuilder& b, ValueId v, const Place& place) {
    const ConstantTensor &part = *in_piece_[v.index], &all = *in_whole_[v.index];
    const ValueId table = constant(v, {all.type.dtype, split(all.type.shape, place, step_.whole)}, *all.data());
    const ir::DimAttrs dim{static_cast<int64_t>(place.axis)};
    const ValueId selected = b.add1(OpKind::kIndexSelect, {table, numbers_of_samples(b)}, dim);
    return named_as(v, b.reshape(selected, part.type.shape));
  }
  ValueId numbers_of_samples(ir::GraphBuilder& b) {
    if (numbers_.valid()) return numbers_;
    std::vector<int64_t> range(static_cast<size_t>(step_.piece));
    for (size_t i = 0; i < range.size(); ++i) range[i] = static_cast<int64_t>(i);
    const ValueId offset = piece_.sample_offset();
    return numbers_ = b.add1(OpKind::kAdd, {b.constant_i64({step_.piece}, range), offset});
  }

  // The axis of the batch in two, [samples, each]; only the first where each is 1.
  static Shape split(Shape shape, const Place& place, int64_t samples) {
    const auto at = shape.begin() + static_cast<std::ptrdiff_t>(place.axis);
    *at = samples;
    if (place.each > 1) shape.insert(at + 1, place.each);
    return shape;
  }
  ValueId constant(ValueId like, ir::TensorType type, std::vector<std::byte> bytes) {
    ir::WeightSource source;
    source.bytes = static_cast<int64_t>(bytes.size());
    source.data = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
    return piece_.add_constant(piece_.value(like).name + ".of_step", std::move(type), std::move(source));
  }
  // What stands for v has its name: others go by it.
  ValueId named_as(ValueId v, ValueId made) {
    if (piece_.value(v).kind == ir::ValueKind::kOpResult) std::swap(piece_.value(v).name, piece_.value(made).name);
    return made;
  }

  ir::Graph piece_;
  const ir::Graph& whole_;
  const SliceOfStep& step_;
  diag::Diagnostics& diags_;
  size_t num_values_ = 0;                                           // as imported
  std::vector<ValueId> of_whole_;                                   // [value] of the piece, as imported
  std::map<std::pair<uint32_t, uint32_t>, ValueId> own_constants_;  // by the piece's and the whole's
  std::vector<std::optional<ConstantTensor>> in_piece_, in_whole_;  // [value] where it is known
  std::vector<bool> sampled_;                                       // [value] a sample is in it, or it is of one
  std::vector<bool> made_for_samples_;                              // [value] the same, of those made here
  std::vector<bool> names_rows_;      // [value] it is read as an index into rows of samples, and as nothing else
  std::vector<bool> places_in_step_;  // [value] it is moved from slices that differ by piece
  std::map<uint32_t, ValueId> slices_;
  ValueId numbers_;  // of the piece's samples in the step
};

}  // namespace

Result<ir::Graph> slice_of_step(ir::Graph piece, const ir::Graph& whole, const SliceOfStep& step,
                                diag::Diagnostics& diags) {
  return Slicer(std::move(piece), whole, step, diags).run();
}

}  // namespace piper::frontend
