#include "compiler/frontend/patterns/mask_documents.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "schemas/forms/attends.h"
#include "schemas/forms/form_program.h"

namespace piper::frontend {
namespace {

using ir::OpId;
using ir::OpKind;
using ir::ValueId;

// An attention with its predicate.
struct MaskedAttention {
  OpId op;
  std::string attends;
  ValueId vectors;  // that the predicate read before; invalid: none
};

class DocumentMask {
 public:
  DocumentMask(ir::Graph& graph, int64_t samples, const diag::Span& span, diag::Diagnostics& diags)
      : graph_(graph), samples_(samples), span_(span), diags_(diags) {}

  Status find() {
    for (size_t i = 0; i < graph_.num_ops(); ++i)
      if (graph_.op(OpId(i)).kind == OpKind::kSdpa) PIPER_RETURN_IF_ERROR(add(OpId(i)));
    for (size_t i = 0; i < graph_.num_ops(); ++i) PIPER_RETURN_IF_ERROR(check_written_out(graph_.op(OpId(i))));
    return found_.empty() ? refuse("the model has no attention that stays within documents") : Status();
  }

  Status write(const std::string& name) {
    PIPER_ASSIGN(const ValueId documents, documents_of(name));
    ir::GraphBuilder b(graph_, graph_.intern_scope(""),
                       graph_.provenance().directive({"documents", diags_.place(span_)}));
    const ValueId row = b.reshape(b.cast(documents, DType::kI64), {samples_, 1, 1, places_});
    std::map<uint32_t, ValueId> joined;  // by what was there: layers read one mask
    for (const MaskedAttention& attention : found_) {
      ValueId vectors = row;
      if (attention.vectors.valid()) {
        ValueId& made = joined[attention.vectors.index];
        if (!made.valid()) made = with_row(b, attention.vectors, row);
        vectors = made;
      }
      ir::Op& op = graph_.op(attention.op);
      op.operands.resize(std::max<size_t>(op.operands.size(), 4));
      op.operands[3] = vectors;
      auto& attrs = std::get<ir::SdpaAttrs>(op.attrs);
      attrs.is_causal = false;
      attrs.attends = attention.attends;
    }
    graph_.move_ops_before_readers();
    return b.status().ok() ? Status() : Status(b.status().error());
  }

 private:
  template <class... Text>
  Status refuse(const Text&... text) {
    auto error = diags_.error("P0255", span_);
    ((error << text), ...);
    return error;
  }
  std::string place(const ir::Op& op) const {
    const std::string& scope = graph_.scope(op.scope);
    return scope.empty() ? "the model" : "'" + scope + "'";
  }

  Status add(OpId id) {
    const ir::Op& op = graph_.op(id);
    const std::vector<int64_t>& q = graph_.type(op.operands[0]).shape;
    const int64_t queries = q[2], keys = graph_.type(op.operands[1]).shape[2];
    if (found_.empty()) places_ = queries;
    if (queries != keys || queries != places_ || q[0] != samples_)
      return refuse("attention in ", place(op), " is from ", queries, " to ", keys, " places of ", q[0],
                    " samples, not from and to the ", places_, " places of ", samples_, " samples");
    const auto& attrs = std::get<ir::SdpaAttrs>(op.attrs);
    const ValueId mask = op.operands.size() > 3 ? op.operands[3] : ValueId();
    const Form query = form::axis(0, queries), key = form::axis(1, keys);
    Form before = attrs.is_causal ? form::not_negative(form::sum(0, {{1, query}, {-1, key}})) : form::number(1);
    int64_t vectors = 0;
    if (!attrs.attends.empty()) {
      const std::vector<int64_t> shape =
          mask.valid() ? graph_.type(mask).shape : std::vector<int64_t>{1, 1, 0, places_};
      if (shape[3] != places_)
        return refuse("the mask of attention in ", place(op), " reads vectors of ", shape[3], " places, not of ",
                      places_);
      vectors = shape[2];
      PIPER_ASSIGN(const form::Attends parsed, form::parse_attends(attrs.attends, queries, keys, vectors, shape[3]));
      before = parsed.where;
    } else if (mask.valid()) {
      return refuse("the mask of attention in ", place(op),
                    " is no predicate of places (numbers that are added to scores, or a mask of heads)");
    }
    const auto number = static_cast<size_t>(vectors);
    const Form same =
        form::is_zero(form::sum(0, {{1, form::read(number, query, false)}, {-1, form::read(number, key, false)}}));
    const Form where = form::all({before, same});
    if (!form::program_of(where))
      return refuse("the mask of attention in ", place(op), " cannot also describe documents");
    found_.push_back({id, form::attends_text(where, queries, keys), vectors > 0 ? mask : ValueId()});
    return {};
  }

  // Scores that attention's kernels do not see.
  Status check_written_out(const ir::Op& op) {
    if (op.kind != OpKind::kSoftmax) return {};
    const std::vector<int64_t>& shape = graph_.type(op.operands[0]).shape;
    const size_t axes = shape.size();
    if (axes < 3 || shape[axes - 1] != shape[axes - 2] || (!found_.empty() && shape[axes - 1] != places_)) return {};
    return refuse("attention in ", place(op), " is written out as a softmax over ", shape[axes - 2], " x ",
                  shape[axes - 1], " scores; write it as scaled_dot_product_attention");
  }

  Result<ValueId> documents_of(const std::string& name) {
    for (const ir::Input& input : graph_.inputs()) {
      if (input.name != name) continue;
      const ir::TensorType& type = graph_.type(input.value);
      if ((type.dtype == DType::kI64 || type.dtype == DType::kI32) &&
          type.shape == std::vector<int64_t>{samples_, places_})
        return input.value;
      return refuse("the input '", name, "' is ", ir::to_string(type), ", not a number of a document for each of ",
                    places_, " places");
    }
    return graph_.add_input(name, {DType::kI64, {samples_, places_}}, true);
  }

  // Vectors [samples or 1, 1, vectors, places] with one more.
  ValueId with_row(ir::GraphBuilder& b, ValueId vectors, ValueId row) const {
    std::vector<int64_t> shape = graph_.type(vectors).shape;
    if (shape[0] != samples_) {
      shape[0] = samples_;
      vectors = b.add1(OpKind::kExpand, {vectors}, ir::ExpandAttrs{shape, 0});
    }
    return b.add1(OpKind::kCat, {vectors, row}, ir::DimAttrs{2});
  }

  ir::Graph& graph_;
  int64_t samples_ = 0, places_ = 0;
  diag::Span span_;
  diag::Diagnostics& diags_;
  std::vector<MaskedAttention> found_;
};

}  // namespace

Status mask_documents(ir::Graph& graph, const std::string& input, int64_t samples, const diag::Span& span,
                      diag::Diagnostics& diags) {
  DocumentMask mask(graph, samples, span, diags);
  PIPER_RETURN_IF_ERROR(mask.find());
  return mask.write(input);
}

}  // namespace piper::frontend
