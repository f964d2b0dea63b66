// Text form of a model graph (.pir): provenance, leaf values, ops, outputs; one entry per line.
#include <charconv>
#include <cmath>
#include <cstring>
#include <sstream>

#include "compiler/ir/attrs_text.h"
#include "compiler/ir/graph.h"
#include "compiler/ir/graph_text.h"

namespace piper::ir {
namespace {

// Constants up to this many elements are written as numbers, larger ones as hexadecimal bytes.
constexpr int64_t kMostNumbers = 16;

template <class T>
std::string float_text(T value) {
  char buffer[64];
  std::string text(buffer, std::to_chars(buffer, buffer + sizeof buffer, value).ptr);
  if (text.find_first_of(".enf") == std::string::npos) text += ".0";
  return text;
}

class GraphPrinter {
 public:
  GraphPrinter(const Graph& graph, std::ostream& out, std::string_view margin)
      : graph_(graph), out_(out), margin_(margin), indent_(std::string(margin) + "  ") {}

  void run() {
    out_ << margin_ << "graph {\n";
    print_provenance(graph_.provenance(), out_, indent_);
    for (size_t i = 0; i < graph_.num_values(); ++i) leaf(graph_.value(ValueId(i)));
    for (size_t i = 0; i < graph_.num_ops(); ++i) op(graph_.op(OpId(i)));
    for (const Graph::Output& output : graph_.outputs)
      out_ << indent_ << "output " << string_literal(output.name) << " = " << name(output.value) << "\n";
    for (ValueId number : graph_.dropped) out_ << indent_ << "dropped " << name(number) << "\n";
    for (ValueId term : graph_.loss_terms) out_ << indent_ << "loss_term " << name(term) << "\n";
    if (graph_.loss.valid()) out_ << indent_ << "loss " << name(graph_.loss) << "\n";
    out_ << margin_ << "}\n";
  }

 private:
  std::string name(ValueId v) const { return v.valid() ? value_text(graph_.value(v).name) : "none"; }

  void leaf(const Value& v) {
    if (v.kind == ValueKind::kOpResult) return;
    out_ << indent_ << value_text(v.name) << " = ";
    switch (v.kind) {
      case ValueKind::kInput: {
        const Input& input = graph_.inputs()[v.payload];
        out_ << "input " << string_literal(input.name) << " : " << to_string(v.type)
             << (input.batched ? "" : " static");
        break;
      }
      case ValueKind::kParameter: {
        const Parameter& p = graph_.parameters()[v.payload];
        named("parameter", p, v.type);
        if (p.buffer != plan::ModelBuffer::kNone) out_ << " buffer " << plan::model_buffer_name(p.buffer);
        else if (!p.trainable) out_ << " frozen";
        break;
      }
      case ValueKind::kBuffer: named("buffer", graph_.buffers()[v.payload], v.type); break;
      case ValueKind::kConstant:
        out_ << "constant : " << to_string(v.type);
        source(graph_.constants()[v.payload].source, v.type);
        break;
      case ValueKind::kSeedStep: out_ << "seed_step"; break;
      case ValueKind::kSampleOffset: out_ << "sample_offset"; break;
      case ValueKind::kPlace: out_ << "place"; break;
      case ValueKind::kLossScale: out_ << "loss_scale"; break;
      case ValueKind::kOpResult: break;
    }
    out_ << "\n";
  }

  void named(const char* what, const Parameter& p, const TensorType& type) {
    out_ << what << " " << list_text(p.names, string_literal) << " : " << to_string(type);
    if (p.shards > 1) out_ << " shards " << p.shards << " by " << p.shard;
    if (p.cut)
      out_ << " cut " << p.cut->cut << " axis " << p.cut->axis << " places " << p.cut->places
           << (!p.cut->extents.empty() ? " extents " + list_text(p.cut->extents)
               : p.cut->segments > 1   ? " segments " + std::to_string(p.cut->segments)
                                       : "")
           << (p.cut->extent > 0 ? " extent " + std::to_string(p.cut->extent) : "");
    if (p.share >= 0) out_ << " share " << p.share;
    if (p.master) out_ << " master " << dtype_name(*p.master);
    if (p.matrix) out_ << " matrix";
    if (p.stored) out_ << " stored " << dtype_name(*p.stored);
    source(p.source, p.in_source(type));
  }

  void source(const WeightSource& s, const TensorType& type) {
    if (!s.file.empty()) out_ << " file " << string_literal(s.file) << " offset " << s.offset << " bytes " << s.bytes;
    else if (s.data) data(*s.data, type);
    if (!s.permutation.empty()) out_ << " permutation " << list_text(s.permutation);
  }

  void data(const std::vector<std::byte>& bytes, const TensorType& type) {
    out_ << " data ";
    std::string numbers = as_numbers(bytes, type);
    if (!numbers.empty()) {
      out_ << numbers;
      return;
    }
    static const char* kDigits = "0123456789abcdef";
    out_ << '"';
    for (std::byte b : bytes) out_ << kDigits[static_cast<int>(b) >> 4] << kDigits[static_cast<int>(b) & 15];
    out_ << '"';
  }

  // "[1, 2]"; "" where the bytes would not come back (NaN payloads, bf16, f16, many elements).
  static std::string as_numbers(const std::vector<std::byte>& bytes, const TensorType& type) {
    if (type.elements() > kMostNumbers || static_cast<int64_t>(bytes.size()) != type.bytes()) return "";
    std::string text = "[";
    for (int64_t i = 0; i < type.elements(); ++i) {
      if (i) text += ", ";
      auto read = [&](auto value) {
        std::memcpy(&value, bytes.data() + static_cast<size_t>(i) * sizeof value, sizeof value);
        return value;
      };
      switch (type.dtype) {
        case DType::kF32: {
          float f = read(float{});
          if (std::isnan(f)) return "";
          text += float_text(f);
          break;
        }
        case DType::kF64: {
          double d = read(double{});
          if (std::isnan(d)) return "";
          text += float_text(d);
          break;
        }
        case DType::kI64: text += std::to_string(read(int64_t{})); break;
        case DType::kI32: text += std::to_string(read(int32_t{})); break;
        case DType::kBool: {
          uint8_t b = read(uint8_t{});
          if (b > 1) return "";
          text += b ? "true" : "false";
          break;
        }
        case DType::kBF16:
        case DType::kF16: return "";
      }
    }
    return text + "]";
  }

  void op(const Op& op) {
    out_ << indent_;
    for (size_t i = 0; i < op.results.size(); ++i) out_ << (i ? ", " : "") << name(op.results[i]);
    if (!op.results.empty()) out_ << " = ";
    out_ << op_name(op.kind) << "(";
    for (size_t i = 0; i < op.operands.size(); ++i) out_ << (i ? ", " : "") << name(op.operands[i]);
    out_ << ")";
    std::string attrs = to_string(op.attrs, &graph_);
    if (!attrs.empty()) out_ << " {" << attrs << "}";
    for (size_t i = 0; i < op.results.size(); ++i) out_ << (i ? ", " : " : ") << to_string(graph_.type(op.results[i]));
    switch (op.phase) {
      case Phase::kCount: out_ << " phase count"; break;
      case Phase::kCountFinish: out_ << " phase count_finish"; break;
      case Phase::kForward: break;
      case Phase::kBackward: out_ << " phase backward"; break;
      case Phase::kBackwardWeight: out_ << " phase backward_weight"; break;
    }
    if (op.chunk.valid()) out_ << " chunk " << op.chunk.index;
    if (op.scope.valid()) out_ << " scope " << string_literal(graph_.scope(op.scope));
    if (op.prov.valid()) out_ << " prov " << op.prov.index;
    out_ << "\n";
  }

  const Graph& graph_;
  std::ostream& out_;
  const std::string_view margin_;
  const std::string indent_;
};

}  // namespace

void print(const Graph& graph, std::ostream& out, std::string_view margin) { GraphPrinter(graph, out, margin).run(); }

std::string print(const Graph& graph) {
  std::ostringstream out;
  print(graph, out, "");
  return out.str();
}

void print_provenance(const Provenance& provenance, std::ostream& out, std::string_view indent) {
  for (size_t i = 0; i < provenance.size(); ++i) {
    out << indent << "prov " << i << " ";
    const ProvEntry& e = provenance.entry(ProvId(i));
    if (const auto* model = std::get_if<ModelOrigin>(&e)) {
      out << "model " << string_literal(model->node) << " " << string_literal(model->scope) << " "
          << string_literal(model->source);
    } else if (const auto* directive = std::get_if<DirectiveOrigin>(&e)) {
      out << "directive " << string_literal(directive->directive) << " " << string_literal(directive->place);
    } else if (const auto* derived = std::get_if<DerivedOrigin>(&e)) {
      const auto text = [](ProvId parent) { return parent.valid() ? std::to_string(parent.index) : "-1"; };
      out << "derived " << string_literal(derived->pass) << " " << list_text(derived->parents, text);
      if (!derived->why.empty()) out << " " << string_literal(derived->why);
    } else {
      out << "unknown " << string_literal(std::get<UnknownOrigin>(e).why);
    }
    out << "\n";
  }
}

}  // namespace piper::ir
