#include "tests/shim/fibre.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <utility>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif
#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace piper::shim {
namespace {

constexpr size_t kStackBytes = 256 * 1024;  // pages that are not used take no memory

}  // namespace

#if defined(__x86_64__)
// What a function keeps for its caller, on the stack that is left; swapcontext() would ask the kernel for signal masks.
extern "C" void piper_shim_switch(void** left, void* entered);
asm(R"(
.text
.globl piper_shim_switch
.type piper_shim_switch, @function
piper_shim_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size piper_shim_switch, .-piper_shim_switch
)");
#endif

struct Fibre::Context {
  std::function<void()> body;
  void* stack = nullptr;
#if defined(__x86_64__)
  void *inside = nullptr, *outside = nullptr;  // stack pointers
#else
  ucontext_t inside, outside;
#endif
  // What sanitizers want to know of the stacks.
  void *fake_inside = nullptr, *fake_outside = nullptr;
  const void* outer_stack = nullptr;
  size_t outer_bytes = 0;
  void *tsan_inside = nullptr, *tsan_outside = nullptr;

  static Context* starting;
  static void begin() {
    Context& context = *starting;
    context.arrived_inside();
    context.body();
    std::abort();
  }

  void arrived_inside() {
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(fake_inside, &outer_stack, &outer_bytes);
#endif
  }
};
Fibre::Context* Fibre::Context::starting = nullptr;

Fibre::Fibre(std::function<void()> body) : context_(std::make_unique<Context>()) {
  Context& c = *context_;
  c.body = std::move(body);
  c.stack = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (c.stack == MAP_FAILED) throw std::bad_alloc();
  // The lowest page is a guard.
  (void)mprotect(c.stack, 4096, PROT_NONE);
#if defined(__x86_64__)
  auto* top = reinterpret_cast<uint64_t*>(static_cast<std::byte*>(c.stack) + kStackBytes);
  *--top = 0;  // nobody to return to
  *--top = reinterpret_cast<uint64_t>(&Context::begin);
  for (int i = 0; i < 6; ++i) *--top = 0;
  c.inside = top;
#else
  getcontext(&c.inside);
  c.inside.uc_stack.ss_sp = c.stack;
  c.inside.uc_stack.ss_size = kStackBytes;
  c.inside.uc_link = nullptr;
  makecontext(&c.inside, &Context::begin, 0);
#endif
#if defined(__SANITIZE_THREAD__)
  c.tsan_inside = __tsan_create_fiber(0);
#endif
}

Fibre::~Fibre() {
#if defined(__SANITIZE_THREAD__)
  __tsan_destroy_fiber(context_->tsan_inside);
#endif
  (void)munmap(context_->stack, kStackBytes);
}

void Fibre::enter() {
  Context& c = *context_;
  Context::starting = &c;
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(&c.fake_outside, c.stack, kStackBytes);
#endif
#if defined(__SANITIZE_THREAD__)
  c.tsan_outside = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(c.tsan_inside, 0);
#endif
#if defined(__x86_64__)
  piper_shim_switch(&c.outside, c.inside);
#else
  swapcontext(&c.outside, &c.inside);
#endif
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(c.fake_outside, nullptr, nullptr);
#endif
}

void Fibre::leave() {
  Context& c = *context_;
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(&c.fake_inside, c.outer_stack, c.outer_bytes);
#endif
#if defined(__SANITIZE_THREAD__)
  __tsan_switch_to_fiber(c.tsan_outside, 0);
#endif
#if defined(__x86_64__)
  piper_shim_switch(&c.inside, c.outside);
#else
  swapcontext(&c.inside, &c.outside);
#endif
  c.arrived_inside();
}

}  // namespace piper::shim
