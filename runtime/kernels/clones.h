// PIPER_CLONES before a function: the loader picks the widest vector form the CPU has. Used by the own
// kernels of this folder. The folder is compiled without contraction of a * b + c, and these loops keep
// one order of operations, so every form and every cut of a range gives the same bits.
// PIPER_INLINE: bodies that several such functions share.
#pragma once

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define PIPER_CLONES  // the resolver would run before the sanitizer does
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define PIPER_CLONES
#endif
#endif
#if !defined(PIPER_CLONES) && defined(__x86_64__)
#define PIPER_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#elif !defined(PIPER_CLONES)
#define PIPER_CLONES
#endif
#define PIPER_INLINE inline __attribute__((always_inline))
