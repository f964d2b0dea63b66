#include "compiler/emit/plan_workspace.h"

#include <map>
#include <set>

#include "compiler/emit/offset_allocator.h"
#include "schemas/plan/kernels.h"

namespace piper::emit {

void plan_workspace(plan::Program& program, const std::vector<std::vector<uint32_t>>& roots,
                    const std::vector<int64_t>& root_bytes) {
  struct Life {
    size_t first = 0, last = 0;
    int64_t offset = -1;
  };
  std::map<uint32_t, Life> lives;
  for (size_t c = 0; c < roots.size(); ++c)
    for (uint32_t r : roots[c]) {
      auto [it, fresh] = lives.emplace(r, Life{c, c, -1});
      if (!fresh) it->second.last = c;
    }
  OffsetAllocator allocator;
  for (size_t c = 0; c < roots.size(); ++c) {
    plan::KernelCall& call = program.calls[c];
    const plan::KernelInfo* kernel = plan::find_kernel(call.kernel);
    // A kernel that may write over one of its inputs takes that input's bytes where they die here.
    if (kernel != nullptr && kernel->in_place >= 0 && !call.outputs.empty() &&
        call.outputs[0].slot == plan::Operand::kWorkspace &&
        static_cast<size_t>(kernel->in_place) < call.inputs.size()) {
      const plan::Operand& in = call.inputs[kernel->in_place];
      const plan::Operand& out = call.outputs[0];
      if (in.slot == plan::Operand::kWorkspace && in.dtype == out.dtype && in.shape == out.shape &&
          in.strides == out.strides && in.offset == 0) {
        size_t position = 0, in_position = 0;
        for (const plan::Operand& o : call.outputs) position += o.slot == plan::Operand::kWorkspace;
        in_position = position;
        for (int64_t k = 0; k < kernel->in_place; ++k) in_position += call.inputs[k].slot == plan::Operand::kWorkspace;
        const uint32_t from = roots[c][in_position], to = roots[c][0];
        Life& dying = lives.at(from);
        Life& born = lives.at(to);
        size_t reads_here = 0;
        for (size_t k = position; k < roots[c].size(); ++k) reads_here += roots[c][k] == from;
        if (from != to && dying.last == c && born.first == c && born.offset < 0 && reads_here == 1 &&
            root_bytes[from] == root_bytes[to]) {
          born.offset = dying.offset;
          dying.offset = -2;  // taken over: not released
        }
      }
    }
    for (uint32_t r : roots[c]) {
      Life& life = lives.at(r);
      if (life.first == c && life.offset == -1) life.offset = allocator.allocate(root_bytes[r]);
    }
    size_t position = 0;
    auto place = [&](plan::Operand& o) {
      if (o.slot != plan::Operand::kWorkspace) return;
      const uint32_t r = roots[c][position++];
      int64_t offset = lives.at(r).offset;
      if (offset == -2) offset = lives.at(roots[c][0]).offset;
      o.offset += offset;
    };
    for (plan::Operand& o : call.outputs) place(o);
    for (plan::Operand& o : call.inputs) place(o);
    std::set<uint32_t> seen;
    for (uint32_t r : roots[c]) {
      const Life& life = lives.at(r);
      if (life.last == c && life.offset >= 0 && seen.insert(r).second) allocator.release(life.offset, root_bytes[r]);
    }
  }
  program.workspace_bytes = allocator.high_water();
}

}  // namespace piper::emit
