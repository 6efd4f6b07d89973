#pragma once

#ifdef ROLLCALL_HAVE_PMIX

#include <pmix.h>

#include <string>

#include "runtime/base/result.h"

namespace rollcall::bootstrap {

/// The functions of libpmix.so.2 that rollcall calls, with the types of <pmix.h>. The library is opened at the first
/// use and stays open: it starts threads of its own.
struct PmixLibrary {
  decltype(&PMIx_Init) init = nullptr;
  decltype(&PMIx_Finalize) finalize = nullptr;
  decltype(&PMIx_Get) get = nullptr;
  decltype(&PMIx_Put) put = nullptr;
  decltype(&PMIx_Commit) commit = nullptr;
  decltype(&PMIx_Get_nb) get_nb = nullptr;
  decltype(&PMIx_Fence_nb) fence_nb = nullptr;
  decltype(&PMIx_Error_string) error_string = nullptr;
};

/// Opens the library. Errors (Unavailable): it is not installed, or a function is missing from it. Thread-safe.
[[nodiscard]] Result<PmixLibrary> load_pmix_library();

}  // namespace rollcall::bootstrap

#endif  // ROLLCALL_HAVE_PMIX
