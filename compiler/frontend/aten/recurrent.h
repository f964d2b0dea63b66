// Recurrent networks step by step, for the calls of ATen and the operators of ONNX.
#pragma once

#include <cstdint>
#include <functional>

#include "compiler/frontend/aten/call.h"

namespace piper::frontend::aten {

constexpr int64_t kMostSteps = 2048;  // as each becomes operators

// The weights of one direction of one layer, as torch.nn keeps them: gates one below the other.
struct Cell {
  ValueId input, state, input_bias, state_bias;
  ValueId projection = {};  // of LSTMs with proj_size: [projected, hidden]
  // What ONNX has besides. Weights by which the memory enters the gates i, o and f of an LSTM, [3 x hidden].
  ValueId peepholes = {};
  bool resets_before = false;  // of a GRU: the state is reset before its product, not after
  double clip = 0;             // of what is activated; 0: none
  // Of gates, of what is new, of an LSTM's memory; none: sigmoid, tanh, tanh.
  std::function<ValueId(Call&, ValueId)> of_gates = {}, of_next = {}, of_memory = {};
};
struct State {
  ValueId hidden, memory;  // [batch, features]; memory: of LSTMs alone
};
// The state after one step; `x`: the contribution of the step's input to the gates.
using Step = State (*)(Call& c, const Cell& cell, ValueId x, const State& before);
State lstm_step(Call& c, const Cell& cell, ValueId x, const State& before);  // gates i, f, g, o
State gru_step(Call& c, const Cell& cell, ValueId x, const State& before);   // gates r, z, n
State rnn_step(Call& c, const Cell& cell, ValueId x, const State& before);

// One direction of one layer over x [.., steps, ..]: its outputs, in the order of the steps, and its last state.
// `lengths` [batch, 1]: how many steps a sample has, of which later ones change nothing and give zeros; invalid: all.
ValueId run_direction(Call& c, Step step, const Cell& cell, ValueId x, int64_t time, bool backwards, State& state,
                      ValueId lengths = {});

}  // namespace piper::frontend::aten
