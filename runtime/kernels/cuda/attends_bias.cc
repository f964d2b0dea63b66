#include "runtime/kernels/cuda/attends_bias.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/where.h>

#include <algorithm>
#include <utility>

#include "schemas/plan/kernel_scratch.h"

namespace piper::kernels::cuda {
namespace {

using form::StepKind;

at::Tensor as_number(const at::Tensor& x) { return x.scalar_type() == at::kBool ? x.to(at::kLong) : x; }

// The elements of vector `number` at `places` [batch or 1, 1, queries or 1, keys or 1].
at::Tensor read(const at::Tensor& vectors, int64_t number, const at::Tensor& places) {
  const int64_t batch = std::max(vectors.size(0), places.size(0));
  const at::Tensor vector = vectors.select(2, number).select(1, 0).expand({batch, vectors.size(3)});
  const at::Tensor at = places.expand({batch, 1, places.size(2), places.size(3)});
  return vector.gather(1, at.reshape({batch, -1})).view(at.sizes());
}

}  // namespace

std::vector<AttendsBlock> blocks_of(const form::Attends& attends, int64_t batch) {
  const int64_t rows = plan::attends_queries_on_gpu(batch, attends.keys);
  std::vector<AttendsBlock> blocks;
  for (int64_t query = 0; query < attends.queries; query += rows) {
    const int64_t last = std::min(query + rows, attends.queries);
    form::KeyRange keys = form::keys_of(attends, query, last);
    if (keys.first == keys.last) keys = {0, 1};
    blocks.push_back({query, last - query, keys.first, keys.last - keys.first});
  }
  return blocks;
}

at::Tensor attends_in(const AttendsBlock& block, const std::vector<form::Step>& steps, const at::Tensor& vectors,
                      at::Device device) {
  const auto options = at::TensorOptions(at::kLong).device(device);
  std::vector<at::Tensor> stack;
  const auto pop = [&] {
    at::Tensor x = std::move(stack.back());
    stack.pop_back();
    return x;
  };
  for (const form::Step& step : steps) switch (step.kind) {
      case StepKind::kNumber: stack.push_back(at::full({1, 1, 1, 1}, step.number, options)); break;
      case StepKind::kAxis:
        if (step.number == 0)
          stack.push_back(at::arange(block.query, block.query + block.queries, options).view({1, 1, -1, 1}));
        else stack.push_back(at::arange(block.key, block.key + block.keys, options).view({1, 1, 1, -1}));
        break;
      case StepKind::kRead: stack.back() = read(vectors, step.number, stack.back()); break;
      case StepKind::kAddTimes: {
        const at::Tensor x = as_number(pop());
        stack.back() = as_number(stack.back()).add(x, step.number);
        break;
      }
      case StepKind::kQuotient: stack.back() = as_number(stack.back()).div(step.number, "floor"); break;
      case StepKind::kNotNegative: stack.back() = stack.back().ge(0); break;
      case StepKind::kIsZero:
      case StepKind::kNot: stack.back() = stack.back().eq(0); break;
      case StepKind::kAnd: {
        const at::Tensor p = pop();
        stack.back() = stack.back().ne(0).logical_and(p.ne(0));
        break;
      }
      case StepKind::kSelect: {
        const at::Tensor b = as_number(pop()), a = as_number(pop());
        stack.back() = at::where(stack.back().ne(0), a, b);
        break;
      }
    }
  return stack.back().ne(0);
}

}  // namespace piper::kernels::cuda
