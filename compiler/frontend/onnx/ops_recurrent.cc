// LSTM, GRU and RNN: the steps of ATen's calls, with weights in their order of gates.
#include <algorithm>

#include "compiler/frontend/aten/recurrent.h"
#include "compiler/frontend/onnx/ops.h"

namespace piper::frontend::onnx {
namespace {

using aten::Call;
using Activation = std::function<ValueId(Call&, ValueId)>;

// An activation by its name; alpha and beta are those of Affine and ScaledTanh, LeakyRelu and Elu.
std::optional<Activation> activation(std::string name, double alpha, double beta) {
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char ch) { return std::tolower(ch); });
  const auto plain = [](OpKind kind) { return Activation([kind](Call& c, ValueId x) { return c.op(kind, {x}); }); };
  if (name == "sigmoid") return plain(OpKind::kSigmoid);
  if (name == "tanh") return plain(OpKind::kTanh);
  if (name == "relu") return plain(OpKind::kRelu);
  if (name == "softplus") return plain(OpKind::kSoftplus);
  if (name == "leakyrelu")
    return Activation([alpha](Call& c, ValueId x) { return c.op(OpKind::kLeakyRelu, {x}, ir::SlopeAttrs{alpha}); });
  if (name == "affine")
    return Activation(
        [alpha, beta](Call& c, ValueId x) { return c.binary(OpKind::kAdd, c.binary(OpKind::kMul, x, alpha), beta); });
  if (name == "scaledtanh")
    return Activation([alpha, beta](Call& c, ValueId x) {
      return c.binary(OpKind::kMul, c.op(OpKind::kTanh, {c.binary(OpKind::kMul, x, beta)}), alpha);
    });
  return std::nullopt;
}

// Those of each direction in turn: of gates, of what is new, of a memory.
std::vector<Activation> read_activations(NodeImport& n, size_t count) {
  const OnnxAttribute* names = n.attribute("activations", OnnxAttribute::Kind::kStrings);
  const OnnxAttribute* alphas = n.attribute("activation_alpha", OnnxAttribute::Kind::kFloats);
  const OnnxAttribute* betas = n.attribute("activation_beta", OnnxAttribute::Kind::kFloats);
  std::vector<Activation> out;
  if (names == nullptr) return out;
  if (names->strings.size() != count) return n.refuse("it wants " + std::to_string(count) + " activations"), out;
  const auto number = [](const OnnxAttribute* a, size_t i, double usual) {
    return a != nullptr && i < a->floats.size() ? static_cast<double>(a->floats[i]) : usual;
  };
  for (size_t i = 0; i < count; ++i) {
    const std::optional<Activation> one = activation(names->strings[i], number(alphas, i, 0.01), number(betas, i, 0));
    if (!one) return n.refuse("its activation '" + names->strings[i].substr(0, 40) + "' is not supported"), out;
    out.push_back(*one);
  }
  return out;
}

// Gates, one below the other along axis 0, in another order.
ValueId reordered(Call& c, ValueId x, const std::vector<int64_t>& order) {
  const int64_t n = c.extent(x, 0) / static_cast<int64_t>(order.size());
  std::vector<ValueId> parts;
  for (const int64_t g : order) parts.push_back(c.slice(x, 0, g * n, (g + 1) * n));
  return c.cat(std::move(parts), 0);
}

// order: of ATen's gates among those of ONNX. Operands X, W, R, B, sequence_lens, initial_h, then of an LSTM initial_c
// and the peepholes. With layout = 1 samples come first.
void recurrent(NodeImport& n, aten::Step step, const std::vector<int64_t>& order, bool has_memory) {
  const ValueId x = n.in(0), w = n.in(1), r = n.in(2);
  const std::string direction = n.string_attr("direction", "forward");
  const int64_t time = n.int_attr("layout", 0) == 1 ? 1 : 0, gates = static_cast<int64_t>(order.size());
  if (!n.ok()) return;
  if (direction != "forward" && direction != "reverse" && direction != "bidirectional")
    return n.refuse("its direction '" + direction.substr(0, 40) + "' does not exist");
  const int64_t sides = direction == "bidirectional" ? 2 : 1;
  const Extents shape = n.shape(x), of_state = n.shape(r);
  if (shape.size() != 3 || n.rank(w) != 3 || of_state.size() != 3 || of_state[0] != sides ||
      of_state[1] != gates * of_state[2] || n.shape(w)[0] != sides ||
      n.int_attr("hidden_size", of_state[2]) != of_state[2])
    return n.refuse("its weights do not fit its direction or its hidden_size");
  const int64_t steps = shape[static_cast<size_t>(time)], batch = shape[static_cast<size_t>(1 - time)],
                hidden = of_state[2];
  if (steps < 1 || steps > aten::kMostSteps)
    return n.refuse("it is written out step by step, for 1 to " + std::to_string(aten::kMostSteps) + " steps, not " +
                    std::to_string(steps));
  const size_t each = has_memory ? 3 : gates == 1 ? 1 : 2;
  const std::vector<Activation> by = read_activations(n, each * static_cast<size_t>(sides));
  if (n.int_attr("input_forget", 0) != 0) return n.refuse("input_forget is not supported");
  aten::Cell usual;
  usual.clip = n.float_attr("clip", 0);
  usual.resets_before = gates == 3 && n.int_attr("linear_before_reset", 0) == 0;
  if (!n.ok()) return;
  Call c = n.as_call();
  const auto at = [&](ValueId v, int64_t axis, int64_t i) { return c.squeeze(c.slice(v, axis, i, i + 1), axis); };
  ValueId lengths;
  if (n.has(4)) {
    const std::optional<std::vector<int64_t>> all = n.known_ints(n.in(4));
    if (!all || std::any_of(all->begin(), all->end(), [&](int64_t l) { return l < steps; }))
      lengths = c.unsqueeze(c.cast(n.in(4), DType::kI64), 1);
  }
  const auto initial = [&](size_t operand, int64_t side) {
    return n.has(operand) ? at(n.in(operand), time, side) : c.filled({batch, hidden}, 0, n.dtype(x));
  };
  std::vector<ValueId> outputs, last, memories;
  for (int64_t side = 0; side < sides; ++side) {
    aten::Cell cell = usual;
    cell.input = reordered(c, at(w, 0, side), order);
    cell.state = reordered(c, at(r, 0, side), order);
    if (n.has(3)) {
      const ValueId both = at(n.in(3), 0, side);
      cell.input_bias = reordered(c, c.slice(both, 0, 0, gates * hidden), order);
      cell.state_bias = reordered(c, c.slice(both, 0, gates * hidden, 2 * gates * hidden), order);
    }
    if (has_memory && n.has(7)) cell.peepholes = at(n.in(7), 0, side);
    if (!by.empty()) {
      const Activation* own = by.data() + each * static_cast<size_t>(side);
      if (each == 1) cell.of_next = own[0];
      else cell.of_gates = own[0], cell.of_next = own[1];
      if (has_memory) cell.of_memory = own[2];
    }
    aten::State state{initial(5, side), has_memory ? initial(6, side) : ValueId()};
    const ValueId y = aten::run_direction(c, step, cell, x, time, direction == "reverse" || side == 1, state, lengths);
    outputs.push_back(c.unsqueeze(y, time + 1));
    last.push_back(c.unsqueeze(state.hidden, time));
    if (has_memory) memories.push_back(c.unsqueeze(state.memory, time));
  }
  std::vector<aten::Item> results{aten::Item::of_tensor(c.cat(std::move(outputs), time + 1)),
                                  aten::Item::of_tensor(c.cat(std::move(last), time))};
  if (has_memory) results.push_back(aten::Item::of_tensor(c.cat(std::move(memories), time)));
  n.set_all(n.finish(c, aten::Item::of_list(std::move(results))));
}

}  // namespace

void import_lstm(NodeImport& n) { recurrent(n, aten::lstm_step, {0, 2, 3, 1}, true); }  // of i, o, f, c
void import_gru(NodeImport& n) { recurrent(n, aten::gru_step, {1, 0, 2}, false); }      // of z, r, h
void import_rnn(NodeImport& n) { recurrent(n, aten::rnn_step, {0}, false); }

}  // namespace piper::frontend::onnx
