// Rows in groups of experts: the order of the rows, reading rows by it, and one matrix product for each
// group on the rows where they lie. How many rows a group has is known at run time alone, so the products
// run on views made at bind whose extent and place are set for each group.
#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "runtime/kernels/binding.h"
#include "runtime/kernels/library_products.h"
#include "runtime/kernels/sgemm.h"

namespace piper::kernels {
namespace {

constexpr int64_t kGrainBytes = 64 * 1024;

// A matrix of which a run of rows can be looked at, without allocation.
class RowWindow {
 public:
  RowWindow(const at::Tensor& matrix, bool transposed)
      : view_(at::from_blob(matrix.data_ptr(), matrix.sizes(), matrix.strides(), matrix.options())),
        columns_(matrix.size(1)),
        row_(matrix.stride(0)),
        column_(matrix.stride(1)),
        transposed_(transposed) {}

  at::Tensor& rows(int64_t first, int64_t count) {
    c10::TensorImpl* view = view_.unsafeGetTensorImpl();
    const int64_t sizes[2] = {count, columns_}, strides[2] = {row_, column_};
    const int64_t turned_sizes[2] = {columns_, count}, turned_strides[2] = {column_, row_};
    if (transposed_) view->set_sizes_and_strides(turned_sizes, turned_strides, first * row_);
    else view->set_sizes_and_strides(sizes, strides, first * row_);
    return view_;
  }

 private:
  at::Tensor view_;
  int64_t columns_, row_, column_;
  bool transposed_;
};

// counts [segments, experts] over `rows` rows, checked at bind; the numbers are checked when they are read.
class Groups {
 public:
  Groups(const at::Tensor& counts, int64_t rows, int64_t experts) : counts_(counts), rows_(rows), experts_(experts) {
    want_dtype(counts, at::kLong, "the counts");
    if (counts.dim() != 2 || counts.size(1) != experts)
      refuse("the counts have shape ", counts.sizes(), " for ", experts, " experts");
    if (counts.size(0) < 1 || rows % counts.size(0) != 0) refuse(rows, " rows in ", counts.size(0), " segments");
  }

  // group(expert, first row, rows) for every group with rows; padding(first row, rows) after each segment.
  template <class Group, class Padding>
  void for_each(Group&& group, Padding&& padding) const {
    const int64_t segments = counts_.size(0), segment_rows = rows_ / segments;
    const int64_t* count = counts_.const_data_ptr<int64_t>();
    for (int64_t segment = 0; segment < segments; ++segment) {
      const int64_t end = (segment + 1) * segment_rows;
      int64_t row = segment * segment_rows;
      for (int64_t expert = 0; expert < experts_; ++expert) {
        const int64_t rows = count[segment * counts_.stride(0) + expert * counts_.stride(1)];
        if (rows < 0 || rows > end - row)
          refuse("expert ", expert, " has ", rows, " rows where ", end - row, " are left");
        if (rows > 0) group(expert, row, rows);
        row += rows;
      }
      if (row < end) padding(row, end - row);
    }
  }

 private:
  at::Tensor counts_;
  int64_t rows_, experts_;
};

at::Tensor as_rows(const at::Tensor& t) {
  if (t.dim() == 2) return t;
  return merged_axes(t.dim() == 1 ? t.unsqueeze(1) : t, 1, std::max<int64_t>(t.dim(), 2));
}

// `t` as a matrix whose rows are dense; a copy in scratch where it is not.
at::Tensor dense_rows(const at::Tensor& t) {
  at::Tensor rows = as_rows(t);
  if (!rows.defined()) rows = as_rows(dense(t));
  if (rows.size(1) > 1 && rows.stride(1) != 1) rows = dense(rows);
  return rows;
}

int64_t grain(int64_t row_bytes) { return std::max<int64_t>(1, kGrainBytes / std::max<int64_t>(row_bytes, 1)); }

void multiply(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b, bool accumulate) {
  if (const auto product = as_sgemm(out, a, b, {}, accumulate)) sgemm(*product);
  else library_product(out, a, b, {}, accumulate);
}

template <class T>
void add_rows(T* sum, const T* rows, int64_t stride, int64_t count, int64_t columns) {
  for (int64_t r = 0; r < count; ++r)
    for (int64_t c = 0; c < columns; ++c) sum[c] += rows[r * stride + c];
}

}  // namespace

std::unique_ptr<PreparedKernel> bind_expert_order(const Call& call) {
  const at::Tensor ids = call.in(0), order = call.out(0), position = call.out(1), counts = call.out(2),
                   dropped = call.out(3);
  const int64_t experts = call.attr_int("experts"), segments = call.attr_int("segments"),
                capacity = call.attr_int("capacity");
  const bool strict = call.attr_bool("strict");
  if (experts < 1 || segments < 1 || experts % segments != 0 || capacity < 0)
    refuse("attributes that do not fit each other");
  if (ids.dim() != 1) refuse("the ids are not a list");
  const int64_t count = ids.size(0), per_segment = experts / segments;
  const int64_t segment_rows = capacity >= count ? count : std::min(count, capacity * per_segment);
  want_shape(order, {segments * segment_rows}, "the order");
  for (const at::Tensor& t : {ids, order, position, counts, dropped})
    if (t.defined()) want_dtype(t, at::kLong, "an operand");
  if (position.defined()) want_shape(position, ids.sizes(), "the positions");
  if (counts.defined()) want_shape(counts, {segments, per_segment}, "the counts");
  if (dropped.defined()) want_shape(dropped, {}, "the number of dropped rows");
  // asked: rows that ask for an expert; next, end: the places that are left for those it takes.
  const auto per_expert = std::vector<int64_t>(static_cast<size_t>(experts));
  return make_kernel(call, [=, asked = per_expert, next = per_expert, end = per_expert]() mutable {
    const int64_t* id = ids.const_data_ptr<int64_t>();
    const int64_t id_step = ids.stride(0);
    std::fill(asked.begin(), asked.end(), 0);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t expert = id[i * id_step];
      if (expert < 0 || expert >= experts) refuse("row ", i, " asks for expert ", expert, " of ", experts);
      ++asked[static_cast<size_t>(expert)];
    }
    int64_t lost = 0;
    for (const int64_t rows : asked) lost += std::max<int64_t>(rows - capacity, 0);
    if (strict && lost > 0) {
      const auto fullest = std::max_element(asked.begin(), asked.end());
      throw OverCapacity(std::to_string(lost) + " of " + std::to_string(count) + " rows are over the capacity of " +
                         std::to_string(capacity) + " rows of an expert; expert " +
                         std::to_string(fullest - asked.begin()) + " is asked for " + std::to_string(*fullest));
    }
    if (dropped.defined()) *dropped.mutable_data_ptr<int64_t>() = lost;
    int64_t* place = order.mutable_data_ptr<int64_t>();
    int64_t* back = position.defined() ? position.mutable_data_ptr<int64_t>() : nullptr;
    const int64_t place_step = order.stride(0), back_step = back != nullptr ? position.stride(0) : 0;
    for (int64_t segment = 0; segment < segments; ++segment) {
      int64_t start = segment * segment_rows;
      for (int64_t e = 0; e < per_segment; ++e) {
        const auto expert = static_cast<size_t>(segment * per_segment + e);
        const int64_t rows = std::min(asked[expert], capacity);
        if (counts.defined())
          counts.mutable_data_ptr<int64_t>()[segment * counts.stride(0) + e * counts.stride(1)] = rows;
        next[expert] = start;
        start += rows;
        end[expert] = start;
      }
      for (; start < (segment + 1) * segment_rows; ++start) place[start * place_step] = -1;
    }
    for (int64_t i = 0; i < count; ++i) {
      const auto expert = static_cast<size_t>(id[i * id_step]);
      const bool taken = next[expert] < end[expert];
      if (taken) place[next[expert] * place_step] = i;
      if (back != nullptr) back[i * back_step] = taken ? next[expert] : -1;
      if (taken) ++next[expert];
    }
  });
}

std::unique_ptr<PreparedKernel> bind_take_rows(const Call& call) {
  const at::Tensor x = call.in(0), index = call.in(1), y = call.out(0);
  const int64_t repeat = call.attr_int("repeat");
  if (repeat < 1 || x.dim() < 1) refuse("no rows to take");
  want_dtype(index, at::kLong, "the index");
  if (index.dim() != 1) refuse("the index is not a list");
  want_shape(call.in(2), {x.size(0) * repeat}, "the inverse");
  std::vector<int64_t> shape = x.sizes().vec();
  shape[0] = index.size(0);
  want_shape(y, shape, "the output");
  want_same_dtype(y, x);
  return make_kernel(call, [x, index, y, repeat]() mutable {
    produce(y, false, [&](at::Tensor& out) {
      if (out.numel() == 0) return;
      const at::Tensor from = dense_rows(x);
      const int64_t bytes = from.size(1) * static_cast<int64_t>(from.element_size());
      const int64_t stride = from.stride(0) * static_cast<int64_t>(from.element_size());
      const int64_t indices = x.size(0) * repeat, step = index.stride(0);
      const auto* source = static_cast<const std::byte*>(from.const_data_ptr());
      auto* target = static_cast<std::byte*>(out.mutable_data_ptr());
      const int64_t* i = index.const_data_ptr<int64_t>();
      for (int64_t row = 0; row < out.size(0); ++row)
        if (i[row * step] < -1 || i[row * step] >= indices) refuse("index ", i[row * step], " of ", indices);
      at::parallel_for(0, out.size(0), grain(bytes), [&](int64_t first, int64_t last) {
        for (int64_t row = first; row < last; ++row) {
          const int64_t at = i[row * step];
          if (at < 0) std::memset(target + row * bytes, 0, static_cast<size_t>(bytes));
          else std::memcpy(target + row * bytes, source + at / repeat * stride, static_cast<size_t>(bytes));
        }
      });
    });
  });
}

std::unique_ptr<PreparedKernel> bind_grouped_matmul(const Call& call) {
  const at::Tensor x = call.in(0), w = call.in(1), y = call.out(0);
  want_same_dtype(y, x);
  want_same_dtype(y, w);
  if (x.dim() != 2 || w.dim() != 3) refuse("operands of rank ", x.dim(), " and ", w.dim());
  const at::Tensor matrices = call.attr_bool("transposed") ? w.transpose(1, 2) : w;
  if (x.size(1) != matrices.size(1)) refuse("inner extents ", x.size(1), " and ", matrices.size(1), " differ");
  want_shape(y, {x.size(0), matrices.size(2)}, "the output");
  std::vector<at::Tensor> of_expert;
  for (int64_t e = 0; e < w.size(0); ++e) of_expert.push_back(matrices.select(0, e));
  return make_kernel(call, [of_expert, groups = Groups(call.in(2), x.size(0), w.size(0)), from = RowWindow(x, false),
                            to = RowWindow(y, false), accumulate = call.accumulate()]() mutable {
    groups.for_each(
        [&](int64_t expert, int64_t first, int64_t rows) {
          at::Tensor& out = to.rows(first, rows);
          const at::Tensor& matrix = of_expert[static_cast<size_t>(expert)];
          multiply(out, from.rows(first, rows), matrix, accumulate);
        },
        [&](int64_t first, int64_t rows) {
          if (!accumulate) to.rows(first, rows).zero_();
        });
  });
}

std::unique_ptr<PreparedKernel> bind_grouped_matmul_weight(const Call& call) {
  const at::Tensor a = call.in(0), b = call.in(1), w = call.out(0);
  want_same_dtype(w, a);
  want_same_dtype(w, b);
  if (a.dim() != 2 || b.dim() != 2 || a.size(0) != b.size(0))
    refuse("operands of shapes ", a.sizes(), " and ", b.sizes());
  if (w.dim() != 3) refuse("an output of rank ", w.dim());
  want_shape(w, {w.size(0), a.size(1), b.size(1)}, "the output");
  std::vector<at::Tensor> of_expert;
  for (int64_t e = 0; e < w.size(0); ++e) of_expert.push_back(w.select(0, e));
  return make_kernel(call, [of_expert, groups = Groups(call.in(2), a.size(0), w.size(0)), left = RowWindow(a, true),
                            right = RowWindow(b, false), written = std::vector<bool>(of_expert.size()),
                            accumulate = call.accumulate()]() mutable {
    std::fill(written.begin(), written.end(), accumulate);
    groups.for_each(
        [&](int64_t expert, int64_t first, int64_t rows) {
          at::Tensor& out = of_expert[static_cast<size_t>(expert)];
          multiply(out, left.rows(first, rows), right.rows(first, rows), written[static_cast<size_t>(expert)]);
          written[static_cast<size_t>(expert)] = true;
        },
        [](int64_t, int64_t) {});
    for (size_t e = 0; e < of_expert.size(); ++e)
      if (!written[e]) of_expert[e].zero_();
  });
}

std::unique_ptr<PreparedKernel> bind_grouped_expand(const Call& call) {
  const at::Tensor table = call.in(0), y = call.out(0);
  want_same_dtype(y, table);
  if (table.dim() < 1) refuse("a table of rank 0");
  std::vector<int64_t> shape = table.sizes().vec();
  shape[0] = call.attr_int("rows");
  want_shape(y, shape, "the output");
  return make_kernel(call, [table, y, groups = Groups(call.in(1), y.size(0), table.size(0))]() mutable {
    produce(y, false, [&](at::Tensor& out) {
      if (out.numel() == 0) return;
      const at::Tensor from = dense_rows(table);
      const int64_t bytes = from.size(1) * static_cast<int64_t>(from.element_size());
      const int64_t stride = from.stride(0) * static_cast<int64_t>(from.element_size());
      const auto* source = static_cast<const std::byte*>(from.const_data_ptr());
      auto* target = static_cast<std::byte*>(out.mutable_data_ptr());
      groups.for_each(
          [&](int64_t expert, int64_t first, int64_t rows) {
            for (int64_t row = first; row < first + rows; ++row)
              std::memcpy(target + row * bytes, source + expert * stride, static_cast<size_t>(bytes));
          },
          [&](int64_t first, int64_t rows) {
            std::memset(target + first * bytes, 0, static_cast<size_t>(rows * bytes));
          });
    });
  });
}

// Rows are added in their order, into zeros or into the accumulator.
std::unique_ptr<PreparedKernel> bind_grouped_sum(const Call& call) {
  const at::Tensor x = call.in(0), sum = call.out(0);
  want_same_dtype(sum, x);
  if (x.dim() < 1 || sum.dim() < 1) refuse("an operand of rank 0");
  std::vector<int64_t> shape = x.sizes().vec();
  shape[0] = sum.size(0);
  want_shape(sum, shape, "the output");
  return make_kernel(
      call, [x, sum, groups = Groups(call.in(1), x.size(0), sum.size(0)), accumulate = call.accumulate()]() mutable {
        const bool direct = sum.is_contiguous() && computed_type(sum) == sum.scalar_type();
        at::Tensor total = direct ? sum : scratch(sum.sizes(), computed_type(sum), sum);
        if (!direct || !accumulate) total.zero_();
        if (x.numel() != 0) {
          const at::Tensor from = dense_rows(computed_type(x) == x.scalar_type() ? x : dense_computed(x));
          const int64_t columns = from.size(1), stride = from.stride(0);
          AT_DISPATCH_FLOATING_TYPES(from.scalar_type(), "grouped_sum", [&] {
            const auto* rows_of_x = from.const_data_ptr<scalar_t>();
            auto* totals = total.mutable_data_ptr<scalar_t>();
            groups.for_each(
                [&](int64_t expert, int64_t first, int64_t rows) {
                  add_rows(totals + expert * columns, rows_of_x + first * stride, stride, rows, columns);
                },
                [](int64_t, int64_t) {});
          });
        }
        if (!direct) store(sum, total, accumulate);
      });
}

}  // namespace piper::kernels
