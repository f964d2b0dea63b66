// ATen calls of recurrent networks, written out step by step: aten.lstm, aten.gru, aten.rnn_tanh, aten.rnn_relu; and
// the single steps that aten.lstm_cell and its like are.
//
// Products with the inputs of all steps are one; each step adds its product with the state before. A model of many
// steps becomes as many operators, so that the number of steps has a bound.
#include "compiler/frontend/aten/recurrent.h"

#include "compiler/frontend/aten/dropout.h"
#include "compiler/frontend/aten/table.h"

namespace piper::frontend::aten {
namespace {

ValueId gate_part(Call& c, ValueId gates, int64_t index, int64_t features) {
  return c.slice(gates, 1, index * features, (index + 1) * features);
}
ValueId times(Call& c, ValueId a, ValueId b) { return c.op(OpKind::kMul, {a, b}); }
ValueId plus(Call& c, ValueId a, ValueId b) { return c.op(OpKind::kAdd, {a, b}); }
ValueId of_state(Call& c, const Cell& cell, const State& before) {
  return c.op(OpKind::kLinear, {before.hidden, cell.state, cell.state_bias});
}
ValueId activated(Call& c, const Cell& cell, const std::function<ValueId(Call&, ValueId)>& by, OpKind usual,
                  ValueId x) {
  if (cell.clip > 0) x = c.op(OpKind::kClamp, {x}, ir::ClampAttrs{-cell.clip, cell.clip});
  return by ? by(c, x) : c.op(usual, {x});
}
ValueId gate(Call& c, const Cell& cell, ValueId x) { return activated(c, cell, cell.of_gates, OpKind::kSigmoid, x); }
ValueId next_of(Call& c, const Cell& cell, ValueId x) { return activated(c, cell, cell.of_next, OpKind::kTanh, x); }

}  // namespace

// c' = f c + i g, h' = o tanh(c') (torch.nn.LSTM).
State lstm_step(Call& c, const Cell& cell, ValueId x, const State& before) {
  const ValueId gates = plus(c, x, of_state(c, cell, before));
  const int64_t n = c.extent(gates, 1) / 4;
  const auto part = [&](int64_t index, int64_t peephole, ValueId memory) {
    const ValueId own = gate_part(c, gates, index, n);
    if (!cell.peepholes.valid()) return own;
    return plus(c, own, times(c, c.slice(cell.peepholes, 0, peephole * n, (peephole + 1) * n), memory));
  };
  const ValueId in = gate(c, cell, part(0, 0, before.memory)), forget = gate(c, cell, part(1, 2, before.memory)),
                next = next_of(c, cell, gate_part(c, gates, 2, n));
  State after;
  after.memory = plus(c, times(c, forget, before.memory), times(c, in, next));
  const ValueId out = gate(c, cell, part(3, 1, after.memory));
  after.hidden = times(c, out, cell.of_memory ? cell.of_memory(c, after.memory) : c.op(OpKind::kTanh, {after.memory}));
  if (cell.projection.valid()) after.hidden = c.op(OpKind::kLinear, {after.hidden, cell.projection, ValueId()});
  return after;
}

// n = tanh(x_n + r h_n), h' = n + z (h - n) (torch.nn.GRU).
State gru_step(Call& c, const Cell& cell, ValueId x, const State& before) {
  const int64_t n = c.extent(x, 1) / 3;
  const auto rows = [&](ValueId v, int64_t from, int64_t to) {
    return v.valid() ? c.slice(v, 0, from * n, to * n) : v;
  };
  const ValueId h = cell.resets_before
                        ? c.op(OpKind::kLinear, {before.hidden, rows(cell.state, 0, 2), rows(cell.state_bias, 0, 2)})
                        : of_state(c, cell, before);
  const ValueId both = plus(c, c.slice(x, 1, 0, 2 * n), c.slice(h, 1, 0, 2 * n));
  const ValueId reset = gate(c, cell, gate_part(c, both, 0, n)), update = gate(c, cell, gate_part(c, both, 1, n));
  const ValueId recalled =
      cell.resets_before
          ? c.op(OpKind::kLinear, {times(c, reset, before.hidden), rows(cell.state, 2, 3), rows(cell.state_bias, 2, 3)})
          : times(c, reset, gate_part(c, h, 2, n));
  const ValueId next = next_of(c, cell, plus(c, gate_part(c, x, 2, n), recalled));
  return {plus(c, next, times(c, update, c.op(OpKind::kSub, {before.hidden, next}))), ValueId()};
}

// h' = tanh(x + h) (torch.nn.RNN), or what else activates what is new.
State rnn_step(Call& c, const Cell& cell, ValueId x, const State& before) {
  return {next_of(c, cell, plus(c, x, of_state(c, cell, before))), ValueId()};
}

ValueId run_direction(Call& c, Step step, const Cell& cell, ValueId x, int64_t time, bool backwards, State& state,
                      ValueId lengths) {
  const ValueId inputs = c.op(OpKind::kLinear, {x, cell.input, cell.input_bias});
  const int64_t steps = c.extent(x, time);
  std::vector<ValueId> outputs(static_cast<size_t>(steps));
  for (int64_t i = 0; i < steps && c.status().ok(); ++i) {
    const int64_t at = backwards ? steps - 1 - i : i;
    State after = step(c, cell, c.squeeze(c.slice(inputs, time, at, at + 1), time), state);
    ValueId output = after.hidden;
    if (lengths.valid()) {
      const ValueId is_some = c.binary(OpKind::kGt, lengths, static_cast<double>(at));
      output = c.op(OpKind::kWhere, {is_some, output, c.scalar(0, c.dtype(output))});
      after.hidden = c.op(OpKind::kWhere, {is_some, after.hidden, state.hidden});
      if (after.memory.valid()) after.memory = c.op(OpKind::kWhere, {is_some, after.memory, state.memory});
    }
    state = after;
    outputs[static_cast<size_t>(at)] = c.unsqueeze(output, time);
  }
  return c.status().ok() ? c.cat(std::move(outputs), time) : x;
}

namespace {

ValueId of_index(Call& c, ValueId states, int64_t index) { return c.squeeze(c.slice(states, 0, index, index + 1), 0); }
ValueId stacked(Call& c, std::vector<ValueId> states) {
  for (ValueId& v : states) v = c.unsqueeze(v, 0);
  return c.cat(std::move(states), 0);
}

std::function<ValueId(Call&, ValueId)> of_next(Call& c) {
  if (c.kind() != OpKind::kRelu) return {};
  return [](Call& call, ValueId x) { return call.op(OpKind::kRelu, {x}); };
}

State one_step(Call& c, Step step, const State& before) {
  Cell cell{c.tensor("w_ih"), c.tensor("w_hh"), c.tensor_or_none("b_ih"), c.tensor_or_none("b_hh")};
  cell.of_next = of_next(c);
  const ValueId x = c.op(OpKind::kLinear, {c.tensor("input"), cell.input, cell.input_bias});
  if (c.rank(x) != 2) c.fail("a recurrent cell wants an input of two axes");
  return step(c, cell, x, before);
}

// Output, last hidden states [layers x directions, batch, features], and last memories of an LSTM.
Item recurrent(Call& c, Step step, ValueId hidden, ValueId memory) {
  ValueId x = c.tensor("input");
  const std::vector<ValueId> weights = c.tensors("params");
  const int64_t layers = c.integer("num_layers"), directions = c.flag("bidirectional") ? 2 : 1,
                time = c.flag("batch_first") ? 1 : 0;
  const size_t biases = c.flag("has_biases") ? 2 : 0, cells = static_cast<size_t>(layers * directions);
  if (c.rank(x) != 3 || layers < 1) return c.fail("a recurrent network wants an input of three axes");
  const bool projects = memory.valid() && weights.size() == cells * (3 + biases);
  const size_t each = 2 + biases + (projects ? 1 : 0);
  if (weights.size() != cells * each) return c.fail("the number of weights does not fit the number of layers");
  if (c.extent(x, time) < 1 || c.extent(x, time) > kMostSteps)
    return c.fail("a recurrent network is unrolled, which is supported for 1 to " + std::to_string(kMostSteps) +
                  " steps, not " + std::to_string(c.extent(x, time)));
  std::vector<ValueId> last_hidden, last_memory;
  for (int64_t layer = 0; layer < layers; ++layer) {
    std::vector<ValueId> sides;
    for (int64_t side = 0; side < directions; ++side) {
      const int64_t index = layer * directions + side;
      const ValueId* w = weights.data() + static_cast<size_t>(index) * each;
      Cell cell{w[0], w[1], biases ? w[2] : ValueId(), biases ? w[3] : ValueId()};
      if (projects) cell.projection = w[2 + biases];
      cell.of_next = of_next(c);
      State state{of_index(c, hidden, index), memory.valid() ? of_index(c, memory, index) : ValueId()};
      sides.push_back(run_direction(c, step, cell, x, time, side == 1, state));
      last_hidden.push_back(state.hidden);
      if (memory.valid()) last_memory.push_back(state.memory);
    }
    x = sides.size() == 1 ? sides[0] : c.cat(std::move(sides), 2);
    if (layer + 1 < layers && c.flag("train") && c.real("dropout") > 0) x = dropped(c, x, c.real("dropout"));
  }
  std::vector<Item> results{made(x), made(stacked(c, std::move(last_hidden)))};
  if (memory.valid()) results.push_back(made(stacked(c, std::move(last_memory))));
  return Item::of_list(std::move(results));
}

}  // namespace

Item lstm(Call& c) {
  const std::vector<ValueId> states = c.tensors("hx");
  if (states.size() != 2) return c.fail("an LSTM wants two states");
  return recurrent(c, lstm_step, states[0], states[1]);
}
Item gru(Call& c) { return recurrent(c, gru_step, c.tensor("hx"), ValueId()); }
Item rnn(Call& c) { return recurrent(c, rnn_step, c.tensor("hx"), ValueId()); }

Item lstm_cell(Call& c) {
  const std::vector<ValueId> states = c.tensors("hx");
  if (states.size() != 2) return c.fail("an LSTM wants two states");
  const State after = one_step(c, lstm_step, {states[0], states[1]});
  return Item::of_list({made(after.hidden), made(after.memory)});
}
Item gru_cell(Call& c) { return made(one_step(c, gru_step, {c.tensor("hx"), ValueId()}).hidden); }
Item rnn_cell(Call& c) { return made(one_step(c, rnn_step, {c.tensor("hx"), ValueId()}).hidden); }

}  // namespace piper::frontend::aten
