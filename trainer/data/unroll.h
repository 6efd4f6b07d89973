#pragma once

/// Before a loop with a known, small number of turns: unroll it wholly, so that arrays it indexes live in registers.
/// At -O2 compilers leave them in memory.
#if defined(__clang__)
#define ROLLCALL_UNROLL _Pragma("unroll")
#else
#define ROLLCALL_UNROLL _Pragma("GCC unroll 16")
#endif

/// A function whose arguments are to stay in its caller's registers.
#define ROLLCALL_INLINE __attribute__((always_inline)) inline
