#include "compiler/emit/plan_workspace.h"

#include <algorithm>
#include <map>

#include "compiler/emit/pack.h"
#include "schemas/plan/kernels.h"

namespace piper::emit {

void plan_workspace(plan::Program& program, const std::vector<std::vector<uint32_t>>& roots,
                    const std::vector<int64_t>& root_bytes) {
  struct Value {
    uint32_t first = 0, last = 0;  // calls
    uint32_t bytes_of = 0;         // the value whose bytes it has: itself, or the one that it was made over
  };
  std::map<uint32_t, Value> values;
  for (uint32_t c = 0; c < roots.size(); ++c)
    for (uint32_t r : roots[c]) {
      auto [it, fresh] = values.emplace(r, Value{c, c, r});
      if (!fresh) it->second.last = c;
    }
  // A kernel that may write over one of its inputs takes that input's bytes where they die here.
  for (uint32_t c = 0; c < roots.size(); ++c) {
    const plan::KernelCall& call = program.calls[c];
    const plan::KernelInfo* kernel = plan::find_kernel(call.kernel);
    if (kernel == nullptr || kernel->in_place < 0 || call.outputs.empty() ||
        call.outputs[0].slot != plan::Operand::kWorkspace ||
        static_cast<size_t>(kernel->in_place) >= call.inputs.size())
      continue;
    const plan::Operand& in = call.inputs[kernel->in_place];
    const plan::Operand& out = call.outputs[0];
    if (in.slot != plan::Operand::kWorkspace || in.dtype != out.dtype || in.shape != out.shape ||
        in.strides != out.strides || in.offset != 0)
      continue;
    size_t position = 0;
    for (const plan::Operand& o : call.outputs) position += o.slot == plan::Operand::kWorkspace;
    size_t in_position = position;
    for (int64_t k = 0; k < kernel->in_place; ++k) in_position += call.inputs[k].slot == plan::Operand::kWorkspace;
    const uint32_t from = roots[c][in_position], to = roots[c][0];
    const Value& dying = values.at(from);
    Value& born = values.at(to);
    const auto reads_here = std::count(roots[c].begin() + static_cast<ptrdiff_t>(position), roots[c].end(), from);
    if (from != to && dying.last == c && born.first == c && reads_here == 1 && root_bytes[from] == root_bytes[to])
      born.bytes_of = dying.bytes_of;
  }
  std::map<uint32_t, size_t> life_of;  // of the values that have bytes of their own
  std::vector<plan::Life> lives;
  for (const auto& [r, value] : values)
    if (value.bytes_of == r) {
      life_of.emplace(r, lives.size());
      lives.push_back({value.first, value.last + 1, root_bytes[r]});
    }
  for (const auto& [r, value] : values) {
    plan::Life& life = lives[life_of.at(value.bytes_of)];
    life.end = std::max(life.end, value.last + 1);
  }
  const Packed packed = pack(lives, kLine);
  for (size_t c = 0; c < roots.size(); ++c) {
    size_t position = 0;
    const auto place = [&](plan::Operand& o) {
      if (o.slot == plan::Operand::kWorkspace)
        o.offset += packed.offsets[life_of.at(values.at(roots[c][position++]).bytes_of)];
    };
    for (plan::Operand& o : program.calls[c].outputs) place(o);
    for (plan::Operand& o : program.calls[c].inputs) place(o);
  }
  program.workspace_bytes = packed.bytes;
}

}  // namespace piper::emit
