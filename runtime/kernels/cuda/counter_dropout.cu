// Dropout: a thread makes the four words of one block of the generator and serves the four elements that they are for.
// The words are those of runtime/kernels/dropout.h, and so are the bits of the results.
#include "runtime/kernels/cuda/counter_dropout.h"

#include "runtime/kernels/cuda/device_code.h"

namespace piper::kernels::cuda {
namespace {

constexpr int kThreads = 256;

__device__ uint64_t splitmix64(uint64_t x) {
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

// Philox4x32-10, in place.
__device__ void generate(uint32_t (&c)[4], uint32_t key0, uint32_t key1) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = static_cast<uint64_t>(0xd2511f53u) * c[0], b = static_cast<uint64_t>(0xcd9e8d57u) * c[2];
    const uint32_t next0 = static_cast<uint32_t>(b >> 32) ^ c[1] ^ key0;
    const uint32_t next2 = static_cast<uint32_t>(a >> 32) ^ c[3] ^ key1;
    c[1] = static_cast<uint32_t>(b);
    c[3] = static_cast<uint32_t>(a);
    c[0] = next0;
    c[2] = next2;
    key0 += 0x9e3779b9u;
    key1 += 0xbb67ae85u;
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads) dropout_kernel(Dropout d, int64_t blocks_of_sample) {
  using C = Computed<T>;
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (thread >= blocks_of_sample * d.batch) return;
  const int64_t sample = thread / blocks_of_sample, block = thread % blocks_of_sample;
  const auto seed = static_cast<uint64_t>(d.seed_and_step[0]), step = static_cast<uint64_t>(d.seed_and_step[1]);
  const uint64_t purpose = splitmix64(d.key ^ 0x64726f706f757400ull);
  uint32_t words[4];
  const auto make_words = [&](int64_t of_block) {
    words[0] = static_cast<uint32_t>(of_block);
    words[1] = static_cast<uint32_t>(*d.first_sample + sample);
    words[2] = static_cast<uint32_t>(step);
    words[3] = static_cast<uint32_t>(purpose);
    generate(words, static_cast<uint32_t>(seed),
             static_cast<uint32_t>(seed >> 32) ^ static_cast<uint32_t>(purpose >> 32));
  };
  int64_t made = -1;  // the block whose words these are: a part's elements are of one, or of several
  const T* x = static_cast<const T*>(d.x);
  T* y = static_cast<T*>(d.y);
  const auto scale = static_cast<C>(d.scale);
  for (int word = 0; word < 4; ++word) {
    const int64_t element = 4 * block + word;  // of the sample
    if (element >= d.outer * d.inner) return;
    const int64_t index = (element / d.inner * d.batch + sample) * d.inner + element % d.inner;
    const int64_t in_whole =
        d.place == nullptr ? element
                           : (element / d.part.row * d.part.places + *d.place) * d.part.row + element % d.part.row;
    if (in_whole / 4 != made) make_words(made = in_whole / 4);
    const bool kept = (words[in_whole % 4] >> 8) >= d.threshold;
    y[d.y_layout.at(index)] = rounded<T>(kept ? widen(x[d.x_layout.at(index)]) * scale : C(0));
  }
}

}  // namespace

void launch_dropout(const Dropout& dropout, cudaStream_t stream) {
  const int64_t blocks_of_sample = ceil_div(dropout.outer * dropout.inner, 4);
  const int64_t count = blocks_of_sample * dropout.batch;
  if (count == 0) return;
  by_floating_type(dropout.type, [&](auto type) {
    using T = typename decltype(type)::type;
    PIPER_LAUNCH((dropout_kernel<T>), grid_of(ceil_div(count, kThreads)), kThreads, 0, stream, dropout,
                 blocks_of_sample);
  });
}

}  // namespace piper::kernels::cuda
