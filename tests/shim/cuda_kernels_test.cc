// What holds for CUDA's own kernels beyond the cases of the CPU's: the bits of the CPU where the formula has no
// function but a root, faults instead of accesses out of bounds, and that every row is there. The last file of its
// program.
#include <cmath>
#include <set>

#include "runtime/hal/cpu/position_sum.h"
#include "runtime/kernels/cuda/group_commands.h"
#include "schemas/plan/convert_elements.h"
#include "schemas/plan/kernels.h"
#include "schemas/plan/optimizers.h"
#include "tests/shim/cuda_subject.h"
#include "tests/shim/device_side.h"

namespace piper::kernels::testing {
namespace {

using Fixture = Seeded<19>;

class CpuOnly : public Subject {
 public:
  const Library& library() override { return cpu_library(); }
  void run(PreparedKernel& kernel) override {
    hal::Queue none;
    kernel.run(none);
  }
  bool concerns(const std::string&) override { return true; }
};

Tensors clones(const Tensors& tensors) {
  Tensors copies;
  for (const at::Tensor& t : tensors) copies.push_back(t.defined() ? t.clone() : t);
  return copies;
}
bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  return a.scalar_type() == b.scalar_type() && a.sizes() == b.sizes() &&
         at::equal(a.reshape({-1}).view(at::kByte), b.reshape({-1}).view(at::kByte));
}

// The same call on the CPU and here; outputs start from the same numbers.
void check_bits(const std::string& name, const Tensors& outputs, const Tensors& inputs, const std::vector<Attr>& attrs,
                bool accumulate = false, const TrainingNumbers& numbers = {}) {
  INFO(name << " " << toString(outputs[0].scalar_type()));
  static CpuOnly cpu;
  const Tensors expected = clones(outputs), expected_inputs = clones(inputs), own = clones(outputs),
                own_inputs = clones(inputs);
  choose_subject(cpu);
  const Status there = run_kernel(name, expected, expected_inputs, attrs, accumulate, numbers);
  choose_subject(CudaSubject::instance());
  REQUIRE(there.ok());
  REQUIRE(run_kernel(name, own, own_inputs, attrs, accumulate, numbers).ok());
  for (size_t i = 0; i < own.size(); ++i) {
    INFO("output " << i);
    if (own[i].defined()) CHECK(same_bits(own[i], expected[i]));
  }
}

std::byte* bytes_of(const at::Tensor& t) { return static_cast<std::byte*>(t.data_ptr()); }
hal::Address place_of(const at::Tensor& t) { return hal::Address(bytes_of(t)); }

// Issues a command on copies of the tensors.
void on_device(const Tensors& tensors, const std::function<hal::MadeCommand(const Mirrors&)>& make) {
  Mirrors mirrors;
  for (const at::Tensor& t : tensors) mirrors.add(bytes_of(t), static_cast<int64_t>(t.nbytes()));
  mirrors.allocate();
  auto command = make(mirrors);
  REQUIRE(command.ok());
  mirrors.to_device();
  REQUIRE((*command)->issue(device_side().queue(), {1, {}}).ok());
  CudaSubject::instance().finish();
  mirrors.to_host();
}

const at::ScalarType kTypes[] = {at::kFloat, at::kBFloat16, at::kHalf};

}  // namespace

TEST_CASE_METHOD(Fixture, "updates give the CPU's bits") {
  for (const at::ScalarType type : kTypes)
    for (const char* rule : {"sgd", "sgd momentum", "sgd nesterov", "adam", "adamw"})
      for (const int64_t step : {1, 2, 1000}) {
        plan::Optimizer o;
        o.kind = std::string(rule).substr(0, std::string(rule).find(' '));
        o.momentum = o.kind == rule ? 0 : 0.9;
        o.nesterov = std::string(rule) == "sgd nesterov";
        // Two blocks and an end that is no pack.
        const int64_t n = 2051;
        const auto state = [&] { return at::randn({n}).to(type); };
        Tensors states = {state(), state()};
        if (o.kind != "sgd" || o.momentum != 0) states.push_back(state());
        if (o.kind != "sgd") states.push_back(state().abs());
        states.resize(static_cast<size_t>(plan::find_kernel(o.kind)->outputs) - 1);
        states.push_back(at::zeros({n}, type == at::kBFloat16 ? at::kHalf : at::kBFloat16));
        const at::Tensor rate = at::full({}, 0.003, at::kDouble), count = at::full({}, step, at::kLong),
                         factor = at::full({}, 0.37f);
        for (const float overflow : {0.0f, 1.0f})
          check_bits(o.kind, states, {rate, count, factor, at::full({}, overflow)}, {}, false,
                     {.optimizer = o, .weight_decay = 0.1});
      }
}

TEST_CASE_METHOD(Fixture, "copies, casts and sums give the CPU's bits in every pair of types") {
  const std::map<at::ScalarType, std::string> types = {
      {at::kFloat, "f32"}, {at::kDouble, "f64"}, {at::kBFloat16, "bf16"}, {at::kHalf, "f16"},
      {at::kLong, "i64"},  {at::kInt, "i32"},    {at::kBool, "bool"}};
  const at::Tensor x = at::cat({at::randn({1500}) * 50, at::zeros({27})});
  for (const auto& [to, name] : types)
    for (const auto& [from, from_name] : types) {
      INFO(from_name);
      for (const bool strided : {false, true}) {
        const at::Tensor values = strided ? strided_copy(x.to(from)) : x.to(from);
        check_bits("cast", {at::zeros(x.sizes(), to)}, {values}, {{"to", name}});
        if (at::isFloatingType(to) && at::isFloatingType(from))
          check_bits("cast", {at::randn(x.sizes()).to(to)}, {values}, {{"to", name}}, true);
      }
    }
  for (const auto& [type, name] : types) {
    if (type == at::kBool) continue;
    check_bits("add_into", {(at::randn({77}) * 9).to(type)}, {(at::randn({77}) * 9).to(type)}, {}, true);
    check_bits("copy", {at::zeros({4, 7}, type)}, {(at::randn({7}) * 9).to(type).expand({4, 7})}, {});
  }
}

TEST_CASE_METHOD(Fixture, "masks, rotations, gradients of losses and sums of groups give the CPU's bits") {
  for (const at::ScalarType type : {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf}) {
    const auto values = [&](at::IntArrayRef shape) { return at::randn(shape).to(type); };
    // 35 elements a sample: blocks of the generator end within it.
    check_bits(
        "dropout", {values({5, 6, 7})}, {values({5, 6, 7}), list({9 + (int64_t{1} << 40), 2}), list({3})},
        {{"p", 0.3}, {"key", int64_t{-42}}, {"outer", int64_t{5}}, {"batch", int64_t{6}}, {"inner", int64_t{7}}});
    // For a part: rows of it begin within blocks of the generator.
    check_bits("dropout", {values({5, 6, 7})}, {values({5, 6, 7}), list({9, 2}), list({3}), list({1})},
               {{"p", 0.3},
                {"key", int64_t{-42}},
                {"outer", int64_t{5}},
                {"batch", int64_t{6}},
                {"inner", int64_t{7}},
                {"places", int64_t{2}},
                {"row", int64_t{7}}});
    for (const char* name : {"rotary", "rotary_backward"})
      check_bits(name, {values({2, 3, 5, 12})}, {values({2, 3, 5, 12}), values({5, 12}), values({5, 12})}, {});
    const at::Tensor counts = list({2, 0, 5, 1, 0, 3, 0, 7}).view({2, 4});
    for (const bool accumulate : {false, true})
      check_bits("grouped_sum", {values({4, 300})}, {values({20, 300}), counts}, {}, accumulate);
    check_bits("grouped_expand", {values({20, 5})}, {values({4, 5}), counts}, {{"rows", int64_t{20}}});
  }
}

TEST_CASE_METHOD(Fixture, "experts that are asked for by more rows than a block has threads give the CPU's order") {
  const at::Tensor ids = at::randint(8, {3000}, at::kLong);
  for (const int64_t segments : {1, 2, 8})
    for (const int64_t capacity : {3000, 300, 1}) {
      const int64_t rows = capacity >= 3000 ? 3000 : std::min<int64_t>(3000, capacity * 8 / segments);
      const auto numbers = [](at::IntArrayRef shape) { return at::full(shape, -9, at::kLong); };
      check_bits("expert_order",
                 {numbers({segments * rows}), numbers({3000}), numbers({segments, 8 / segments}), numbers({})}, {ids},
                 {{"experts", int64_t{8}}, {"segments", segments}, {"capacity", capacity}, {"strict", false}});
    }
}

TEST_CASE_METHOD(Fixture, "norms and losses of long rows equal the CPU's, also where a row is a block's") {
  for (const int64_t columns : {1024, 1028, 5003}) {
    const at::Tensor x = at::randn({3, columns}) + 0.5, g = at::randn({3, columns}), w = at::randn({columns});
    const std::vector<Attr> attrs{{"axes", int64_t{1}}, {"eps", 1e-5}};
    check({"layer_norm", attrs, {x, w, w}, [&](const Tensors& t) {
             return Tensors{at::layer_norm(t[0], {columns}, t[1], t[2], 1e-5)};
           }});
    check({"softmax", {{"dim", int64_t{1}}}, {x}, [](const Tensors& t) { return Tensors{at::softmax(t[0], 1)}; }});
    const at::Tensor target = list({7, -100, columns - 1}), one = at::ones({});
    const std::vector<Attr> loss{{"ignore_index", int64_t{-100}}, {"label_smoothing", 0.0}};
    check({"cross_entropy_sum", loss, {x * 5, target, {}}, [](const Tensors& t) {
             return Tensors{at::cross_entropy_loss(t[0], t[1], {}, at::Reduction::Sum), at::Tensor()};
           }});
    at::Tensor sum = at::zeros({}), lse = at::empty({3});
    REQUIRE(run_kernel("cross_entropy_sum", {sum, lse}, {x, target}, loss).ok());
    CHECK(close(lse.select(0, 2), at::logsumexp(x[2], 0), 1e-5));
    CHECK(lse[1].item<float>() == 0);
    // The gradient in the logits' place is the gradient beside them.
    at::Tensor beside = at::empty_like(x), in_place = x.clone();
    REQUIRE(run_kernel("cross_entropy_backward", {beside}, {one, x, target, lse}, loss).ok());
    REQUIRE(run_kernel("cross_entropy_backward", {in_place}, {one, in_place, target, lse}, loss).ok());
    CHECK(same_bits(beside, in_place));
  }
  // Many rows: the weights' gradient is made of parts, whose number depends on the extents alone.
  const at::Tensor x = at::randn({2500, 70}), g = at::randn({2500, 70}), w = at::randn({70}),
                   rstd = (x * x).mean(-1).add(1e-5).rsqrt();
  const std::vector<Attr> attrs{{"axes", int64_t{1}}, {"eps", 1e-5}};
  check({"rms_norm_backward_weight",
         attrs,
         {g, x, rstd},
         [&](const Tensors& t) { return Tensors{(t[0] * t[1] * t[2].unsqueeze(1)).sum(0)}; },
         {false, false, true},
         {},
         true,
         false,
         5e-4});
}

TEST_CASE_METHOD(Fixture, "results are the same in every order of blocks and threads") {
  // A launch runs forwards, the next one backwards.
  const at::Tensor x = at::randn({700, 130}), target = at::randint(130, {700}, at::kLong),
                   ids = at::randint(7, {3000}, at::kLong);
  const auto twice = [](const std::string& name, const Tensors& outputs, const Tensors& inputs,
                        const std::vector<Attr>& attrs) {
    INFO(name);
    const Tensors first = clones(outputs), second = clones(outputs), third = clones(outputs);
    for (const Tensors& out : {first, second, third}) REQUIRE(run_kernel(name, out, inputs, attrs).ok());
    // One launch more shifts which of a kernel's launches run backwards.
    REQUIRE(run_kernel("fill", {at::empty({1})}, {}, {{"value", 1.0}}).ok());
    REQUIRE(run_kernel(name, third, inputs, attrs).ok());
    for (size_t i = 0; i < outputs.size(); ++i) {
      CHECK(same_bits(first[i], second[i]));
      CHECK(same_bits(first[i], third[i]));
    }
  };
  twice("square_sum", {at::zeros({})}, {x}, {});
  twice("cross_entropy_sum", {at::zeros({}), at::empty({700})}, {x, target},
        {{"ignore_index", int64_t{-100}}, {"label_smoothing", 0.1}});
  twice("rms_norm_backward_weight", {at::zeros({130})}, {x, x, at::rand({700})}, {{"axes", int64_t{1}}, {"eps", 1e-5}});
  twice("cumsum", {at::zeros({700, 130})}, {x}, {{"dim", int64_t{0}}});
  twice("expert_order", {at::empty({3000}, at::kLong), at::empty({3000}, at::kLong)}, {ids},
        {{"experts", int64_t{7}}, {"segments", int64_t{1}}, {"capacity", int64_t{3000}}, {"strict", false}});
}

TEST_CASE_METHOD(Fixture, "sums of pieces are added in the order of the positions, to the CPU's bits") {
  struct Types {
    DType message, sum;
    at::ScalarType tensor;
  };
  for (const Types& types :
       {Types{DType::kF32, DType::kF32, at::kFloat}, Types{DType::kF64, DType::kF64, at::kDouble},
        Types{DType::kBF16, DType::kF32, at::kBFloat16}, Types{DType::kF16, DType::kF32, at::kHalf},
        Types{DType::kI64, DType::kI64, at::kLong}, Types{DType::kI32, DType::kI32, at::kInt}})
    for (const int64_t position : {0, 1, 3})
      for (const int64_t shift : {0, 1}) {  // a place that packs cannot be read from, too
        INFO(dtype_name(types.message) << " at " << position);
        const int64_t n = 1030;
        const at::Tensor own = (at::randn({n + 1}) * 100).to(types.tensor),
                         others = (at::randn({3, n + 2}) * 100).to(types.tensor);
        const at::Tensor expected = own.clone(), expected_others = others.clone();
        const auto sum_of = [&](hal::Address mine, hal::Address theirs) {
          const int64_t skipped = shift * dtype_bytes(types.message);
          return hal::PieceSum{types.message,
                               types.sum,
                               4,
                               position,
                               mine + skipped,
                               theirs + skipped,
                               (n + 2) * dtype_bytes(types.message),
                               n};
        };
        hal::add_piece(sum_of(place_of(expected), place_of(expected_others)), &add_f32);
        on_device({own, others}, [&](const Mirrors& mirrors) {
          return cuda::make_piece_sum(sum_of(mirrors.place(bytes_of(own)), mirrors.place(bytes_of(others))));
        });
        CHECK(same_bits(own, expected));
      }
  CHECK(cuda::make_piece_sum({.message = DType::kBF16, .sum = DType::kBF16}).error().code == "R0404");
  CHECK(cuda::make_conversion({{}, DType::kF32}, {{}, DType::kI64}, 1).error().code == "R0404");
  const at::Tensor x = at::randn({100}), narrow = at::empty({100}, at::kBFloat16);
  on_device({x, narrow}, [&](const Mirrors& mirrors) {
    return cuda::make_conversion({mirrors.place(bytes_of(narrow)), DType::kBF16},
                                 {mirrors.place(bytes_of(x)), DType::kF32}, 100);
  });
  CHECK(same_bits(narrow, x.to(at::kBFloat16)));
}

TEST_CASE_METHOD(Fixture, "data that kernels cannot work with is reported, once, and reads nothing out of bounds") {
  using Catch::Matchers::Contains;
  CudaSubject& cuda = CudaSubject::instance();
  // The first of two calls that fail keeps the record.
  const at::Tensor x = at::randn({4, 3}), inverse = list({0, 0, 0, 0});
  at::Tensor y = at::ones({2, 3}), sum = at::ones({2, 3});
  plan::KernelCall take, group;
  const auto operand = [](const at::Tensor& t, DType dtype) {
    return plan::Operand{0, 0, dtype, t.sizes().vec(), t.strides().vec()};
  };
  const at::Tensor index = list({0, int64_t{1} << 40}), counts = list({9, -1}).view({1, 2});
  take.kernel = "take_rows";
  take.origin = "experts.1";
  take.attrs = {{"repeat", int64_t{1}}};
  take.outputs = {operand(y, DType::kF32)};
  take.inputs = {operand(x, DType::kF32), operand(index, DType::kI64), operand(inverse, DType::kI64)};
  group.kernel = "grouped_sum";
  group.outputs = {operand(sum, DType::kF32)};
  group.inputs = {operand(x, DType::kF32), operand(counts, DType::kI64)};
  auto taken = cuda.library().bind(
      take, {{place_of(y), &take.outputs[0]}},
      {{place_of(x), &take.inputs[0]}, {place_of(index), &take.inputs[1]}, {place_of(inverse), &take.inputs[2]}});
  auto grouped = cuda.library().bind(group, {{place_of(sum), &group.outputs[0]}},
                                     {{place_of(x), &group.inputs[0]}, {place_of(counts), &group.inputs[1]}});
  REQUIRE(taken.ok());
  REQUIRE(grouped.ok());
  (*taken)->run(device_side().queue());
  (*grouped)->run(device_side().queue());
  CHECK_THROWS_WITH(cuda.finish(), Contains("take_rows of experts.1: index 1099511627776 of 4"));
  CHECK(at::equal(y[1], at::zeros({3})));
  CHECK(at::equal(y[0], x[0]));
  // Cleared: the next one is reported.
  (*grouped)->run(device_side().queue());
  CHECK_THROWS_WITH(cuda.finish(), Contains("expert 0 has 9 rows where 4 are left"));
  REQUIRE_NOTHROW(cuda.finish());
  at::Tensor order = at::empty({3}, at::kLong), position = at::empty({3}, at::kLong);
  CHECK_THROWS_WITH(
      run_kernel("expert_order", {order, position}, {list({1, 5, 0})},
                 {{"experts", int64_t{2}}, {"segments", int64_t{1}}, {"capacity", int64_t{3}}, {"strict", false}}),
      Contains("row 1 asks for expert 5 of 2"));
  CHECK(at::equal(position, list({1, -1, 0})));
  CHECK(at::equal(order, list({2, 0, -1})));
  at::Tensor loss = at::zeros({}), lse = at::empty({2}), gradient = at::ones({2, 3});
  const std::vector<Attr> attrs{{"ignore_index", int64_t{-100}}, {"label_smoothing", 0.0}};
  CHECK_THROWS_WITH(run_kernel("cross_entropy_backward", {gradient},
                               {at::ones({}), at::randn({2, 3}), list({1, -5}), at::zeros({2})}, attrs),
                    Contains("target -5 is outside of 0..2"));
  CHECK(at::equal(gradient[1], at::zeros({3})));
}

TEST_CASE_METHOD(Fixture, "an index that is none is reported, and nothing past the operand is read or written") {
  using Catch::Matchers::Contains;
  const std::vector<Attr> rows{{"padding_idx", int64_t{-1}}, {"scale_grad_by_freq", false}}, dim{{"dim", int64_t{0}}};
  const at::Tensor table = at::randn({4, 3}), wrong = list({1, 4});
  at::Tensor y = at::ones({2, 3});
  CHECK_THROWS_WITH(run_kernel("embedding", {y}, {table, wrong}, rows),
                    Contains("index 4 lies outside of the table, which has 4 rows"));
  CHECK(at::equal(y, at::stack({table[1], at::zeros({3})})));
  CHECK_THROWS_WITH(run_kernel("index_select", {y}, {table, list({-1, 2})}, dim), Contains("index -1 of 4"));
  CHECK(at::equal(y, at::stack({at::zeros({3}), table[2]})));
  CHECK_THROWS_WITH(run_kernel("gather", {y}, {table, at::full({2, 3}, int64_t{1} << 40, at::kLong)}, dim),
                    Contains("index 1099511627776 of 4"));
  const at::Tensor source = at::ones({2, 3});
  at::Tensor sum = at::zeros({4, 3});
  CHECK_THROWS_WITH(run_kernel("index_add", {sum}, {at::zeros({4, 3}), wrong, source}, dim), Contains("index 4 of 4"));
  CHECK(sum.sum().item<float>() == 3);
  for (const char* name : {"scatter", "scatter_add"}) {
    at::Tensor out = at::zeros({4, 3});
    CHECK_THROWS_WITH(
        run_kernel(name, {out}, {at::zeros({4, 3}), wrong.view({2, 1}).expand({2, 3}).contiguous(), source}, dim),
        Contains("index 4 of 4"));
    CHECK(out.sum().item<float>() == 3);
  }
  at::Tensor gradient = at::empty({4, 3});
  CHECK_THROWS_WITH(run_kernel("embedding_backward", {gradient}, {source, wrong},
                               {{"shape", Ints{4, 3}}, {"padding_idx", int64_t{-1}}, {"scale_grad_by_freq", false}}),
                    Contains("index 4 of 4"));
  CHECK(gradient.sum().item<float>() == 3);
  at::Tensor loss = at::zeros({});
  CHECK_THROWS_WITH(run_kernel("nll_sum", {loss}, {table, list({0, 1, 2, 3})}, {{"ignore_index", int64_t{-100}}}),
                    Contains("target 3 is outside of 0..2"));
}

TEST_CASE_METHOD(Fixture, "of several elements for one place sums are taken in order, and the last is written") {
  // 600 rows: several pieces of a block's list of rows, and of its columns.
  const at::Tensor ids = at::randint(7, {600}, at::kLong), rows = at::randn({600, 1100});
  for (const char* name : {"index_add", "scatter_add", "scatter"}) {
    const bool by_row = std::string(name) == "index_add";
    const at::Tensor index = by_row ? ids : ids.view({600, 1}).expand({600, 1100}).contiguous();
    check_bits(name, {at::zeros({7, 1100})}, {at::randn({7, 1100}), index, rows}, {{"dim", int64_t{0}}});
  }
  check_bits("embedding_backward", {at::zeros({7, 1100})}, {rows, ids},
             {{"shape", Ints{7, 1100}}, {"padding_idx", int64_t{-1}}, {"scale_grad_by_freq", false}}, true);
}

TEST_CASE_METHOD(Fixture, "gradients of max pooling add up in the order of the windows, to the CPU's bits") {
  struct Pooling {
    Ints kernel, stride, padding, dilation;
  };
  for (const Pooling& p : {Pooling{{3, 3}, {1, 1}, {1, 1}, {1, 1}}, Pooling{{5, 3}, {2, 1}, {2, 0}, {1, 1}},
                           Pooling{{2, 3}, {1, 2}, {1, 1}, {3, 2}}, Pooling{{2, 2}, {3, 3}, {0, 0}, {1, 1}}})
    for (const bool ceil_mode : {false, true})
      for (const at::ScalarType type : {at::kFloat, at::kDouble}) {
        const at::Tensor x = at::randn({2, 3, 11, 13}).to(type);
        const auto [y, indices] = at::max_pool2d_with_indices(x, p.kernel, p.stride, p.padding, p.dilation, ceil_mode);
        const at::Tensor g = at::randn(y.sizes()).to(type);
        for (const bool channels_last : {false, true}) {
          const auto laid = [&](const at::Tensor& t) {
            return channels_last ? t.contiguous(at::MemoryFormat::ChannelsLast) : t;
          };
          check_bits("max_pool2d_backward", {laid(at::zeros_like(x))}, {laid(g), laid(indices)},
                     {{"shape", x.sizes().vec()},
                      {"kernel", p.kernel},
                      {"stride", p.stride},
                      {"padding", p.padding},
                      {"dilation", p.dilation},
                      {"ceil_mode", ceil_mode}});
        }
      }
}

TEST_CASE_METHOD(Fixture, "running sums of lines of several tiles are those of each line") {
  for (const int64_t steps : {1, 4, 1023, 1024, 1025, 5003}) {
    INFO(steps);
    const auto sums = [](const Tensors& t) { return Tensors{at::cumsum(t[0], 0)}; };
    const std::vector<Attr> along{{"dim", int64_t{0}}};
    check({"cumsum", along, {at::randn({steps, 3})}, sums, {}, {}, true, true, 1e-4});
    check_bits("cumsum", {at::zeros({steps, 3}, at::kLong)}, {at::randint(100, {steps, 3}, at::kLong)}, along);
  }
  // What is after a number that is none has none; what is before it has.
  at::Tensor x = at::ones({3000}), y = at::zeros({3000});
  x[1500] = std::nan("");
  REQUIRE(run_kernel("cumsum", {y}, {x}, {{"dim", int64_t{0}}}).ok());
  CHECK(at::equal(y.narrow(0, 0, 1500), at::arange(1, 1501, at::kFloat)));
  CHECK(y.narrow(0, 1500, 1500).isnan().all().item<bool>());
}

TEST_CASE_METHOD(Fixture, "grouped products of several tiles are those of the rows of each expert") {
  const at::Tensor counts = list({70, 0, 130, 5}).view({1, 4});
  for (const at::ScalarType type : {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf}) {
    INFO(toString(type));
    // Sums of 70 and of 130 products in f32, rounded once.
    const double tolerance = type == at::kBFloat16 ? 0x1p-8 : type == at::kHalf ? 0x1p-11 : 0;
    const at::Tensor x = at::randn({230, 70}).to(type), w = at::randn({4, 70, 90}).to(type),
                     g = at::randn({230, 90}).to(type);
    at::Tensor y = at::ones({230, 90}, type), dw = at::ones({4, 70, 90}, type);
    REQUIRE(run_kernel("grouped_matmul", {y}, {x, w, counts}, {{"transposed", false}}).ok());
    REQUIRE(run_kernel("grouped_matmul_weight", {dw}, {x, g, counts}).ok());
    const auto rows = [](const at::Tensor& t, int64_t first, int64_t count) {
      return t.narrow(0, first, count).to(at::kDouble);
    };
    const auto product = [&](const at::Tensor& result, const at::Tensor& a, const at::Tensor& b) {
      return at::allclose(result.to(at::kDouble), at::mm(a, b), tolerance, 1e-4);
    };
    CHECK(product(y.narrow(0, 0, 70), rows(x, 0, 70), w[0].to(at::kDouble)));
    CHECK(product(y.narrow(0, 70, 130), rows(x, 70, 130), w[2].to(at::kDouble)));
    CHECK(product(y.narrow(0, 200, 5), rows(x, 200, 5), w[3].to(at::kDouble)));
    CHECK(y.narrow(0, 205, 25).eq(0).all().item<bool>());
    CHECK(dw[1].eq(0).all().item<bool>());
    CHECK(product(dw[2], rows(x, 70, 130).t(), rows(g, 70, 130)));
  }
}

TEST_CASE_METHOD(Fixture, "a score that is no number makes its query's result none, and no other's") {
  at::Tensor q = at::randn({1, 1, 3, 8}), out = at::empty({1, 1, 3, 8});
  q[0][0][1][0] = std::nan("");
  REQUIRE(run_kernel("scaled_dot_product_attention", {out}, {q, at::randn({1, 1, 40, 8}), at::randn({1, 1, 40, 8})},
                     {{"is_causal", false}, {"scale", 0.5}})
              .ok());
  CHECK(out[0][0][1].isnan().all().item<bool>());
  CHECK(out[0][0][0].isfinite().all().item<bool>());
  CHECK(out[0][0][2].isfinite().all().item<bool>());
}

// Runs after the other cases of this program.
TEST_CASE("every kernel of kernels.def has a row on CUDA, each of them tried") {
  const Library& library = CudaSubject::instance().device_library();
  for (const plan::KernelInfo& info : plan::kKernels) {
    const std::string name(info.name);
    INFO(name);
    plan::KernelCall call;
    call.kernel = name;
    CHECK(library.bind(call, {}, {}).error().code == "R0402");  // known, and refused for its operands
    const plan::OptimizerInfo* const optimizer = plan::find_optimizer(name);
    if (optimizer != nullptr && optimizer->of_matrices) continue;  // for CPU ranks alone: P0252
    CHECK(seen_allocations().count(name) == 1);
  }
  plan::KernelCall call;
  call.kernel = "no_such";
  CHECK(library.bind(call, {}, {}).error().code == "R0401");
  CHECK(refused_halves() == kWithoutHalves);
}

}  // namespace piper::kernels::testing
