// Scratch bounds of kernels.def at sizes of real models: a kernel that takes more than its formula says
// throws, so running is the test. Few threads and many, because tiles are per thread.
#include "tests/unit/kernels_testing.h"
#include "schemas/plan/kernel_scratch.h"

namespace piper::kernels::testing {
namespace {

struct Fixture {
  Fixture() {
    initialise_process();
    enter_worker_thread(1);
  }
  ~Fixture() { enter_worker_thread(1); }
};

at::Tensor some(at::IntArrayRef shape) { return at::rand(shape); }

void run(const std::string& name, const Tensors& out, const Tensors& in, const std::vector<Attr>& attrs = {}) {
  INFO(name);
  Status status;
  CHECK_NOTHROW(status = run_kernel(name, out, in, attrs));
  INFO((status.ok() ? "" : status.error().message));
  CHECK(status.ok());
}

// Activations in `layout`: oneDNN pads other operands for channels-last ones.
void convolve(Ints x, Ints w, int64_t stride, int64_t padding, int64_t groups,
              at::MemoryFormat layout = at::MemoryFormat::Contiguous, at::ScalarType type = at::kFloat) {
  INFO("x " << at::IntArrayRef(x) << " w " << at::IntArrayRef(w) << " stride " << stride << " groups " << groups);
  const size_t spatial = x.size() - 2;
  const std::vector<Attr> attrs{{"stride", Ints(spatial, stride)},
                                {"padding", Ints(spatial, padding)},
                                {"dilation", Ints(spatial, 1)},
                                {"groups", groups}};
  std::vector<Attr> with_x = attrs, with_w = attrs;
  with_x.push_back({"shape", x});
  with_w.push_back({"shape", w});
  Ints y{x[0], w[0]};
  for (size_t axis = 2; axis < x.size(); ++axis) y.push_back((x[axis] + 2 * padding - w[axis]) / stride + 1);
  const auto activation = [&](const Ints& shape) { return some(shape).to(type).contiguous(layout); };
  const at::Tensor weight = some(w).to(type), bias = some({w[0]}).to(type);
  run("convolution", {activation(y)}, {activation(x), weight, bias}, attrs);
  run("convolution_backward_input", {activation(x)}, {activation(y), weight}, with_x);
  run("convolution_backward_weight", {weight}, {activation(y), activation(x)}, with_w);
}

void attend(Ints q, Ints k, const at::Tensor& mask, bool causal) {
  INFO("q " << at::IntArrayRef(q) << " k " << at::IntArrayRef(k) << " causal " << causal);
  const std::vector<Attr> attrs{{"is_causal", causal}, {"scale", 0.125}};
  const at::Tensor lse = some({q[0], q[1], q[2]});
  run("scaled_dot_product_attention", {some(q), lse}, {some(q), some(k), some(k), mask}, attrs);
  run("scaled_dot_product_attention_backward", {some(q), some(k), some(k)},
      {some(q), some(q), some(k), some(k), some(q), lse, mask}, attrs);
}

// All that factors matrices of a shape, as they lie and transposed.
void factor(Ints shape) {
  INFO("matrices " << at::IntArrayRef(shape));
  const int64_t m = shape[shape.size() - 2], n = shape.back(), k = std::min(m, n);
  const auto with = [&](Ints own) {
    Ints all(shape.begin(), shape.end() - 2);
    all.insert(all.end(), own.begin(), own.end());
    return some(all);
  };
  const auto pivots = [&](int64_t count) { return with({count, 1}).to(at::kLong); };
  for (const bool turned : {false, true}) {
    const at::Tensor a = turned ? (some(shape) + 0.1).mT().contiguous().mT() : some(shape) + 0.1;
    run("lu_factor", {with({m, n}), pivots(k)}, {a}, {{"check", false}});
    run("permutation", {with({m, m})}, {pivots(k)}, {{"rows", m}});
    for (const bool full : {false, true})
      run("svd", {with({m, full ? m : k}), with({k}), with({full ? n : k, n})}, {a}, {{"full", full}});
    run("svd", {{}, with({k}), {}}, {a}, {{"full", false}});
    run("pinv", {with({n, m})}, {a}, {{"atol", 0.0}, {"rtol", 1e-5}, {"hermitian", false}});
    if (m >= n) run("qr", {with({m, n}), with({n, n})}, {a});
    if (m != n) continue;
    run("cholesky", {some(shape)}, {a}, {{"check", false}});
    run("solve", {some(shape)}, {a, some(shape)}, {{"check", false}});
    run("solve", {with({n, 1})}, {a, with({n, 1})}, {{"check", false}});
    run("triangular_solve", {some(shape)}, {a, some(shape)}, {{"upper", true}, {"unitriangular", false}});
    run("det", {with({}), some(shape), pivots(n)}, {a});
    run("slogdet", {with({}), with({})}, {a});
    run("eigh", {with({n}), some(shape)}, {a});
    run("eigh", {with({n}), {}}, {a});
    for (const double size : {0.001, 0.02, 1.0, 20.0}) {
      run("matrix_exp", {some(shape)}, {a * (size / static_cast<double>(n))});
      run("matrix_exp_backward", {some(shape)}, {a, a * (size / static_cast<double>(n))});
    }
  }
}

// Products of matrices that lie in rows, in columns, and in neither; rows that are one row.
void multiply_as_they_lie() {
  const at::Tensor rows = some({256, 96}), columns = some({96, 256}).t(),
                   neither = some({256, 192}).slice(1, 0, 192, 2), one_row = some({1, 96}).expand({256, 96});
  const at::Tensor weight = some({384, 96}), bias = some({384});
  for (const at::Tensor& x : {rows, columns, neither, one_row}) {
    run("linear", {some({256, 384})}, {x, weight, bias});
    run("linear", {some({384, 256}).t()}, {x, weight});
    run("linear", {some({256, 768}).slice(1, 0, 768, 2)}, {x, weight});
    run("linear_backward_weight", {some({384, 96})}, {some({256, 384}), x});
    run("matmul", {some({8, 256, 256})}, {x.unsqueeze(0).expand({8, 256, 96}), some({8, 96, 256})});
    run("matmul", {some({8, 256, 512}).slice(2, 0, 512, 2)},
        {x.unsqueeze(0).expand({8, 256, 96}), some({8, 256, 96}).mT()});
  }
  run("linear_backward_input", {some({256, 96})}, {some({384, 256}).t(), weight});
}

// The same for the rows of experts and their weights.
void multiply_by_groups() {
  const at::Tensor rows = some({512, 96}), columns = some({96, 512}).t(),
                   neither = some({512, 192}).slice(1, 0, 192, 2);
  const at::Tensor weights = some({4, 96, 384}), turned = some({4, 384, 96}).mT(),
                   apart = some({4, 96, 768}).slice(2, 0, 768, 2), counts = at::full({1, 4}, 128, at::kLong);
  for (const at::Tensor& x : {rows, columns, neither}) {
    for (const at::Tensor& w : {weights, turned, apart})
      run("grouped_matmul", {some({512, 384})}, {x, w, counts}, {{"transposed", false}});
    run("grouped_matmul", {some({384, 512}).t()}, {x, some({4, 384, 96}), counts}, {{"transposed", true}});
    for (const at::Tensor& w : {some({4, 96, 384}), some({4, 384, 96}).mT(), some({4, 96, 768}).slice(2, 0, 768, 2)})
      run("grouped_matmul_weight", {w}, {x, some({512, 384}), counts});
  }
}

// Large tables, few rows of them, many rows of a small one.
void look_up_as_they_lie() {
  const Attr shape{"shape", Ints{20000, 96}}, plain{"scale_grad_by_freq", false}, weighed{"scale_grad_by_freq", true};
  const at::Tensor ids = integers(20000, {8, 256}), strided = integers(20000, {256, 8}).t();
  const at::Tensor tables[] = {some({20000, 96}), some({96, 20000}).t(), some({20000, 192}).slice(1, 0, 192, 2)};
  const at::Tensor gradients[] = {some({8, 256, 96}), some({96, 8, 256}).permute({1, 2, 0}),
                                  some({256, 8, 96}).transpose(0, 1), some({1, 256, 96}).expand({8, 256, 96})};
  for (const at::Tensor& table : tables)
    for (const at::Tensor& index : {ids, strided}) {
      const Attr no_padding{"padding_idx", int64_t{-1}};
      run("embedding", {some({8, 256, 96})}, {table, index}, {no_padding, plain});
      run("embedding", {some({256, 8, 96}).transpose(0, 1)}, {table, index}, {no_padding, plain});
      for (const at::Tensor& g : gradients)
        for (const Attr& padding : {no_padding, Attr{"padding_idx", int64_t{0}}})
          for (const Attr& scale : {plain, weighed})
            run("embedding_backward", {table}, {g, index}, {shape, padding, scale});
    }
  const at::Tensor many = integers(16, {64, 1024});
  run("embedding", {some({64, 1024, 8})}, {some({16, 8}), many}, {{"padding_idx", int64_t{-1}}, plain});
  run("embedding_backward", {some({16, 8})}, {some({64, 1024, 8}), many},
      {{"shape", Ints{16, 8}}, {"padding_idx", int64_t{0}}, weighed});
}

}  // namespace

TEST_CASE_METHOD(Fixture, "kernels stay within their scratch bounds at the sizes of real models") {
  for (const int threads : {1, 4}) {
    enter_worker_thread(threads);
    INFO("threads " << threads);
    for (const int64_t batch : {1, 8}) {
      convolve({batch, 1, 28, 28}, {32, 1, 3, 3}, 1, 1, 1);
      convolve({batch, 3, 32, 32}, {16, 3, 5, 5}, 1, 2, 1);
      convolve({batch, 3, 96, 96}, {64, 3, 7, 7}, 2, 3, 1);
      convolve({batch, 64, 28, 28}, {64, 64, 3, 3}, 1, 1, 1);
      convolve({batch, 64, 28, 28}, {256, 64, 1, 1}, 1, 0, 1);
      convolve({batch, 64, 28, 28}, {64, 1, 3, 3}, 1, 1, 64);
      convolve({batch, 17, 9, 9}, {5, 17, 3, 3}, 2, 0, 1);
      convolve({batch, 3, 64, 64}, {192, 3, 16, 16}, 16, 0, 1);
      // As products of columns: of one sample, and of types that oneDNN does not have.
      for (const auto type : {at::kFloat, at::kDouble}) {
        const auto plain = at::MemoryFormat::Contiguous;
        convolve({batch, 8, 24, 24, 24}, {8, 8, 3, 3, 3}, 1, 1, 1, plain, type);
        convolve({batch, 16, 1000}, {16, 16, 64}, 1, 0, 1, plain, type);
        convolve({batch, 16, 1200}, {16, 16, 31}, 1, 15, 1, plain, type);
        convolve({batch, 3, 40, 40}, {8, 3, 9, 9}, 1, 4, 1, plain, type);
        convolve({batch, 8, 40, 40}, {8, 1, 9, 9}, 1, 4, 8, plain, type);
        convolve({batch, 16, 300}, {16, 4, 31}, 1, 15, 4, plain, type);
      }
      for (const auto layout : {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast})
        for (const auto type : {at::kFloat, at::kBFloat16}) {
          convolve({batch, 16, 8, 8}, {16, 1, 7, 7}, 1, 3, 16, layout, type);
          convolve({batch, 32, 4, 4}, {32, 1, 7, 7}, 1, 3, 32, layout, type);
          convolve({batch, 64, 16, 16}, {128, 1, 11, 11}, 1, 5, 64, layout, type);
          convolve({batch, 256, 8, 8}, {256, 1, 7, 7}, 1, 3, 256, layout, type);
          convolve({batch, 24, 8, 8}, {48, 8, 5, 5}, 1, 2, 3, layout, type);
          convolve({batch, 64, 28, 28}, {64, 64, 3, 3}, 1, 1, 1, layout, type);
        }
    }
    attend({2, 12, 1024, 64}, {2, 12, 1024, 64}, {}, true);
    attend({4, 6, 128, 32}, {4, 6, 128, 32}, {}, true);
    attend({2, 8, 333, 128}, {2, 2, 333, 128}, {}, true);
    attend({1, 2, 700, 256}, {1, 2, 900, 256}, {}, false);
    attend({8, 4, 128, 64}, {8, 4, 128, 64}, at::ones({8, 1, 1, 128}, at::kBool).expand({8, 1, 128, 128}), false);
    attend({8, 4, 128, 64}, {8, 4, 128, 64}, at::ones({8, 1, 128, 128}, at::kBool), false);
    attend({2, 2, 16, 8}, {2, 2, 16, 8}, {}, false);
    attend({1, 2, 1500, 64}, {1, 2, 1500, 64}, {}, true);
    multiply_as_they_lie();
    multiply_by_groups();
    look_up_as_they_lie();

    for (const int64_t n : {1, 5, 64, 300}) factor({n, n});
    factor({40, 12, 12});
    factor({3, 200, 7});
    factor({3, 7, 200});

    const at::Tensor x = some({8, 256, 384}), w = some({384}), row = some({8 * 256});
    const std::vector<Attr> norm{{"axes", int64_t{1}}, {"eps", 1e-5}}, last{{"dim", int64_t{2}}},
        first{{"dim", int64_t{0}}};
    run("layer_norm_backward_input", {some(x.sizes())}, {x, x, row, row, w}, norm);
    run("layer_norm_backward_weight", {some({384}), some({384})}, {x, x, row, row}, norm);
    run("softmax", {some(x.sizes())}, {x}, first);
    run("cumsum", {some(x.sizes())}, {x}, first);
    run("topk", {some({8, 256, 2}), integers(2, {8, 256, 2})}, {x}, {{"dim", int64_t{2}}, {"k", int64_t{2}}});
    for (const Attr& axis : {last[0], first[0]})
      run("topk", {some(x.sizes()), integers(2, x.sizes())}, {x}, {axis, {"k", x.size(std::get<int64_t>(axis.value))}});
    run("max_dim", {some({8, 1, 384}), integers(2, {8, 1, 384})}, {x}, {{"dim", int64_t{1}}, {"k", int64_t{1}}});
    run("sum", {some({384})}, {x}, {{"dims", Ints{0, 1}}, {"keepdim", false}});
    run("sum", {some({})}, {x}, {{"dims", Ints{0, 1, 2}}, {"keepdim", false}});
    run("amax", {some({8, 256, 1})}, {x}, {{"dims", Ints{2}}, {"keepdim", true}});
    const at::Tensor table = some({5000, 96}), ids = integers(5000, {8, 256}), g = some({8, 256, 96});
    run("embedding", {some({8, 256, 96})}, {table, ids}, {{"padding_idx", int64_t{-1}}, {"scale_grad_by_freq", false}});
    run("embedding_backward", {some({5000, 96})}, {g, ids},
        {{"shape", Ints{5000, 96}}, {"padding_idx", int64_t{0}}, {"scale_grad_by_freq", false}});
    const at::Tensor flat = ids.view({2048}), rows = g.view({2048, 96}), index = flat.unsqueeze(1).expand({2048, 96});
    run("index_add", {some({5000, 96})}, {table, flat, rows}, first);
    run("index_select", {some({2048, 96})}, {table, flat}, first);
    run("gather", {some({2048, 96})}, {table, index}, first);
    run("scatter", {some({5000, 96})}, {table, index, rows}, first);
    run("scatter_add", {some({5000, 96})}, {table, index, rows}, first);
    run("scatter_add", {some({5000, 96})}, {table, index.contiguous(), rows}, first);
    run("matmul", {some({8, 12, 64, 64})}, {some({8, 12, 64, 32}), some({8, 12, 32, 64})});
  }
}

}  // namespace piper::kernels::testing
