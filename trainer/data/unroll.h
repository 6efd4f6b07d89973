#pragma once

/// Unrolls the following loop completely, whose number of iterations is known and small, so that the arrays it indexes
/// stay in registers. At -O2 compilers leave them in memory.
#if defined(__clang__)
#define ROLLCALL_UNROLL _Pragma("unroll")
#else
#define ROLLCALL_UNROLL _Pragma("GCC unroll 16")
#endif

/// Forces inlining of a function whose arguments must stay in the caller's registers.
#define ROLLCALL_INLINE __attribute__((always_inline)) inline
