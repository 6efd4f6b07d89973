#include "trainer/device/amx.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif
#include <cstdlib>

namespace rollcall::device {
namespace {

#if defined(__x86_64__)
// Leaves, bits and numbers: Intel's Software Developer's Manual (CPUID), Linux's Documentation/arch/x86/xstate.rst.
bool names_amx() {
  constexpr unsigned kAmxTile = 1U << 24;
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d & kAmxTile) != 0;
}

bool has_tiles() {
  constexpr unsigned kTileLeaf = 0x1D;
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  return __get_cpuid_count(kTileLeaf, 0, &a, &b, &c, &d) != 0 && a != 0;
}

bool kernel_permits_tiles() {
  constexpr int kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr int kTileData = 18;               // XFEATURE_XTILE_DATA
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

bool amx_is_unusable() { return names_amx() && !(has_tiles() && kernel_permits_tiles()); }
#else
bool amx_is_unusable() { return false; }
#endif

}  // namespace

void avoid_unusable_amx() {
  if (amx_is_unusable()) {
    constexpr int kKeepTheUsers = 0;
    setenv("ONEDNN_MAX_CPU_ISA", "AVX10_1_512", kKeepTheUsers);
  }
}

}  // namespace rollcall::device
