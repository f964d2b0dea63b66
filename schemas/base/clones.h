// PIPER_CLONES before a function: the loader picks the widest vector form the CPU has. For loops that keep one order of
// operations, compiled so that no a * b + c is contracted: every form and every cut of a range gives the same bits.
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
