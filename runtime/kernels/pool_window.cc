#include "runtime/kernels/pool_window.h"

#include <algorithm>

#include "runtime/kernels/call_reader.h"

namespace piper::kernels {
namespace {

void read_spatial(const CallReader& call, const char* name, int64_t (&numbers)[2]) {
  const std::vector<int64_t> given = call.attr_ints(name);
  if (given.size() != 2) refuse("attributes of another number of spatial axes");
  std::copy(given.begin(), given.end(), numbers);
}

}  // namespace

PoolWindow read_pool_window(const CallReader& call, bool dilated) {
  PoolWindow w;
  read_spatial(call, "kernel", w.kernel);
  read_spatial(call, "stride", w.stride);
  read_spatial(call, "padding", w.padding);
  read_spatial(call, "dilation", w.dilation);
  w.ceil_mode = call.attr_bool("ceil_mode");
  for (int s = 0; s < 2; ++s) {
    if (w.stride[s] < 1 || w.kernel[s] < 1) refuse("an empty window or stride");
    if (w.dilation[s] < 1 || (!dilated && w.dilation[s] != 1)) refuse("attribute `dilation` is ", w.dilation[s]);
    if (w.padding[s] < 0) refuse("attribute `padding` is ", w.padding[s]);
  }
  return w;
}

std::vector<int64_t> PoolWindow::pooled(std::vector<int64_t> shape) const {
  if (shape.size() < 3 || shape.size() > 4) refuse("an operand of rank ", shape.size());
  for (size_t s = 0; s < 2; ++s) {
    int64_t& extent = shape[shape.size() - 2 + s];
    const int64_t in = extent;
    const int64_t reach = in + 2 * padding[s] - dilation[s] * (kernel[s] - 1) - 1;
    extent = (reach + (ceil_mode ? stride[s] - 1 : 0)) / stride[s] + 1;
    if (ceil_mode && (extent - 1) * stride[s] >= in + padding[s]) --extent;
  }
  return shape;
}

}  // namespace piper::kernels
