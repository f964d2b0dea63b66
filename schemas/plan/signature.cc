#include "schemas/plan/signature.h"

#include <algorithm>
#include <array>
#include <optional>

#include "schemas/base/check.h"
#include "schemas/plan/head_blocks.h"

namespace piper::plan {
namespace {

// The part of `text` before `end`, which is taken off with what ends it; the whole where there is no end.
std::string_view take(std::string_view& text, std::string_view end) {
  const size_t at = text.find(end);
  const std::string_view taken = text.substr(0, at);
  text = at == std::string_view::npos ? std::string_view() : text.substr(at + end.size());
  return taken;
}
bool strip(std::string_view& text, std::string_view suffix) {
  if (text.size() < suffix.size() || text.substr(text.size() - suffix.size()) != suffix) return false;
  text.remove_suffix(suffix.size());
  return true;
}

OperandSignature::Axis parse_axis(std::string_view text) {
  OperandSignature::Axis axis;
  axis.many = strip(text, "..");
  if (!text.empty() && text[0] == '~') {
    axis.broadcasts = true;
    text.remove_prefix(1);
  }
  PIPER_CHECK(text.size() <= 1, "no axis: ", text);
  if (text.empty()) return axis;
  if (text[0] >= '0' && text[0] <= '9') axis.extent = text[0] - '0';
  else axis.name = text[0];
  return axis;
}

OperandSignature parse_operand(std::string_view text) {
  OperandSignature operand;
  std::string_view name = take(text, ":");
  for (bool more = true; more;) {
    more = false;
    const auto mark = [&](std::string_view suffix, bool& flag) {
      if (strip(name, suffix)) flag = more = true;
    };
    mark("?", operand.optional);
    mark("...", operand.repeated);
    mark("&", operand.in_place);
    mark("!", operand.by_name);
    mark("#", operand.work);
  }
  operand.name = name;
  operand.type = take(text, "[");
  for (std::string_view axes = take(text, "]"); !axes.empty();) operand.axes.push_back(parse_axis(take(axes, ",")));
  return operand;
}

std::vector<OperandSignature> parse_operands(std::string_view text) {
  std::vector<OperandSignature> operands;
  while (!text.empty()) operands.push_back(parse_operand(take(text, ", ")));
  return operands;
}

std::vector<Signature> parse_all() {
  std::vector<Signature> all;
  for (const KernelInfo& kernel : kKernels) {
    std::string_view outputs = kernel.signature;
    std::string_view inputs = take(outputs, "->");
    if (!inputs.empty()) strip(inputs, " ");
    outputs.remove_prefix(1);
    Signature signature{parse_operands(inputs), parse_operands(outputs)};
    signature.reads_outputs = std::any_of(signature.outputs.begin(), signature.outputs.end(),
                                          [](const OperandSignature& output) { return output.in_place; });
    all.push_back(std::move(signature));
  }
  return all;
}

std::string shape_text(const int64_t* begin, const int64_t* end) {
  std::string text = "[";
  for (const int64_t* extent = begin; extent != end; ++extent)
    text += (extent == begin ? "" : ",") + std::to_string(*extent);
  return text + "]";
}

// One call against its signature: what its variables turned out to be.
class Fit {
 public:
  // "" or what is wrong.
  std::string operand(const OperandSignature& wanted, const Operand& operand) {
    std::string wrong = type(wanted, operand.dtype);
    if (wrong.empty()) wrong = shape(wanted, operand.shape);
    return wrong.empty() ? "" : std::string(wanted.name) + " " + wrong;
  }
  // After all operands: what broadcasts to what.
  std::string broadcasts() const {
    for (const Broadcast& each : broadcasts_) {
      const Extents& to = axes_[index(each.axis)];
      bool fits = to.known && each.from.size() <= to.size();
      for (size_t back = 1; fits && back <= static_cast<size_t>(each.from.size()); ++back)
        fits = each.from.end[-static_cast<std::ptrdiff_t>(back)] == 1 ||
               each.from.end[-static_cast<std::ptrdiff_t>(back)] == to.end[-static_cast<std::ptrdiff_t>(back)];
      if (!fits)
        return std::string(each.operand) + " does not broadcast: " + shape_text(each.from.begin, each.from.end) +
               " to " + shape_text(to.begin, to.end);
    }
    return "";
  }

 private:
  struct Extents {
    const int64_t *begin = nullptr, *end = nullptr;
    bool known = false;
    std::ptrdiff_t size() const { return end - begin; }
  };
  struct Broadcast {
    char axis;
    Extents from;
    std::string_view operand;
  };
  static size_t index(char name) { return static_cast<size_t>(name - 'a'); }

  std::string type(const OperandSignature& wanted, DType dtype) {
    const std::string is = "has element type " + std::string(dtype_name(dtype));
    if (wanted.type.size() != 1)
      return dtype_name(dtype) == wanted.type ? "" : is + ", not " + std::string(wanted.type);
    const char variable = wanted.type[0];
    if (variable >= 'F' && variable <= 'H' && !is_floating(dtype)) return is + ", no floating one";
    std::optional<DType>& known = types_[static_cast<size_t>(variable - 'A')];
    if (!known) known = dtype;
    return *known == dtype ? "" : is + ", other operands have " + std::string(dtype_name(*known));
  }

  std::string shape(const OperandSignature& wanted, const std::vector<int64_t>& shape) {
    const int64_t* at = shape.data();
    const int64_t* const end = at + shape.size();
    const auto whole = [&] { return shape_text(shape.data(), end); };
    const auto axes = static_cast<std::ptrdiff_t>(wanted.axes.size());
    const bool any = std::any_of(wanted.axes.begin(), wanted.axes.end(), [](const auto& axis) { return axis.many; });
    const std::ptrdiff_t rest = end - at - (axes - (any ? 1 : 0));  // axes of the one that is many
    if (rest < 0 || (!any && rest != 0))
      return "has shape " + whole() + ", with " + std::to_string(shape.size()) + " axes, not " + std::to_string(axes);
    for (const auto& axis : wanted.axes) {
      const Extents here{at, at + (axis.many ? rest : 1), true};
      at = here.end;
      if (axis.extent >= 0 && *here.begin != axis.extent)
        return "has shape " + whole() + ": extent " + std::to_string(*here.begin) + ", not " +
               std::to_string(axis.extent);
      if (axis.name == 0) continue;
      if (axis.broadcasts) {
        broadcasts_.push_back({axis.name, here, wanted.name});
        continue;
      }
      Extents& known = axes_[index(axis.name)];
      if (!known.known) known = here;
      if (!std::equal(known.begin, known.end, here.begin, here.end))
        return "has shape " + whole() + ": " + shape_text(here.begin, here.end) + " where other operands have " +
               shape_text(known.begin, known.end);
    }
    return "";
  }

  std::array<std::optional<DType>, 26> types_;
  std::array<Extents, 26> axes_;
  std::vector<Broadcast> broadcasts_;
};

std::string misfit(Fit& fit, const std::vector<OperandSignature>& wanted, const std::vector<Operand>& operands,
                   const char* kind) {
  const bool repeats = !wanted.empty() && wanted.back().repeated;
  if (!repeats && operands.size() > wanted.size())
    return std::to_string(operands.size()) + " " + kind + "s where " + std::to_string(wanted.size()) + " are expected";
  for (size_t i = 0; i < std::max(wanted.size(), operands.size()); ++i) {
    const OperandSignature& each = wanted[std::min(i, wanted.size() - 1)];
    if (i >= operands.size() || operands[i].slot == Operand::kAbsent) {
      if (!each.optional) return std::string(kind) + " " + std::string(each.name) + " is absent";
      continue;
    }
    if (std::string wrong = fit.operand(each, operands[i]); !wrong.empty()) return std::string(kind) + " " + wrong;
  }
  return "";
}

}  // namespace

const Signature& signature_of(const KernelInfo& kernel) {
  static const std::vector<Signature> all = parse_all();
  return all[static_cast<size_t>(&kernel - kKernels)];
}

std::string misfit(const KernelInfo& kernel, const KernelCall& call) {
  const Signature& signature = signature_of(kernel);
  Fit fit;
  std::string wrong = misfit(fit, signature.inputs, call.inputs, "input");
  if (wrong.empty()) wrong = misfit(fit, signature.outputs, call.outputs, "output");
  if (wrong.empty()) wrong = fit.broadcasts();
  if (wrong.empty() && is_of_blocks(call.kernel)) wrong = head_misfit(call);
  if (!wrong.empty()) return wrong;
  if (call.accumulate && !kernel.can_accumulate) return "it cannot accumulate";
  const bool any = std::any_of(call.outputs.begin(), call.outputs.end(),
                               [](const Operand& output) { return output.slot != Operand::kAbsent; });
  return any ? "" : "it has no output";
}

}  // namespace piper::plan
