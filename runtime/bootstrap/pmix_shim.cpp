#include "runtime/bootstrap/pmix_shim.h"

#ifdef ROLLCALL_HAVE_PMIX

#include <dlfcn.h>

namespace rollcall::bootstrap {
namespace {

template <typename Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

}  // namespace

Result<PmixLibrary> load_pmix_library() {
  const auto refuse = [] {
    const char* const why = dlerror();
    return fail("PMIx", "libpmix.so.2", why != nullptr ? why : "cannot be opened",
                "installing PMIx (package libpmix2), or rendezvous=address", ExitCode::Unavailable);
  };
  // RTLD_GLOBAL: PMIx opens components of its own that take its symbols from here.
  void* const library = dlopen("libpmix.so.2", RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) {
    return refuse();
  }
  PmixLibrary functions;
  const bool complete =
      find(library, "PMIx_Init", functions.init) && find(library, "PMIx_Finalize", functions.finalize) &&
      find(library, "PMIx_Get", functions.get) && find(library, "PMIx_Put", functions.put) &&
      find(library, "PMIx_Commit", functions.commit) && find(library, "PMIx_Get_nb", functions.get_nb) &&
      find(library, "PMIx_Fence_nb", functions.fence_nb) && find(library, "PMIx_Error_string", functions.error_string);
  if (!complete) {
    return refuse();
  }
  return functions;
}

}  // namespace rollcall::bootstrap

#endif  // ROLLCALL_HAVE_PMIX
