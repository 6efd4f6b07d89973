// In the place of libcuda.so.1: NVIDIA's driver as the CUDA runtime first meets it, of version $STAND_IN_DRIVER (13000:
// 13.0), whose cuInit() returns $STAND_IN_DRIVER_STATUS (CUresult; default 100, no device).
#include <stdlib.h>
#include <string.h>

enum { kSuccess = 0, kNotInitialized = 3, kNoDevice = 100 };

static int number_of(const char* name, int otherwise) {
  const char* const text = getenv(name);
  return text != NULL ? atoi(text) : otherwise;
}

int cuDriverGetVersion(int* version) {
  *version = number_of("STAND_IN_DRIVER", 0);
  return kSuccess;
}

int cuInit(unsigned flags) {
  (void)flags;
  return number_of("STAND_IN_DRIVER_STATUS", kNoDevice);
}

// All that a driver has beside; nobody calls it where cuInit() fails.
static int other(void) { return kNotInitialized; }

int cuGetProcAddress_v2(const char* name, void** function, int version, unsigned long long flags, void* status) {
  (void)version, (void)flags, (void)status;
  *function = strcmp(name, "cuInit") == 0               ? (void*)cuInit
              : strcmp(name, "cuDriverGetVersion") == 0 ? (void*)cuDriverGetVersion
              : strcmp(name, "cuGetProcAddress") == 0   ? (void*)cuGetProcAddress_v2
                                                        : (void*)other;
  return kSuccess;
}
