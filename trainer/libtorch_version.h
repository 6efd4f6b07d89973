#pragma once

// Makes code with the names of LibTorch 2.15 compile against 2.11, which lacks some of them or calls them differently.
// Include it after c10d's headers in each file that uses one of these names.
#include <c10/core/StorageImpl.h>
#include <torch/headeronly/version.h>

#include <string>
#include <utility>

#if TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR < 15
#define ROLLCALL_LIBTORCH_2_11 1
#else
#define ROLLCALL_LIBTORCH_2_11 0
#endif

#if ROLLCALL_LIBTORCH_2_11
// Macros, since they name virtual functions that are overridden as well as called.
#define all_gather_single _allgather_base
#define all_to_all_single alltoall_base
#define reduce_scatter_single _reduce_scatter_base
#endif

namespace rollcall {

/// Makes reads of `storage` fail with `reason` from now on. LibTorch 2.11 cannot undo that, so with it reads get a null
/// pointer instead.
inline void forbid_access(c10::StorageImpl& storage, std::string reason) {
  if constexpr (!ROLLCALL_LIBTORCH_2_11) {
    storage.release_data_and_set_meta_custom_data_ptr_error_msg_(std::move(reason));
  }
}

inline void allow_access([[maybe_unused]] c10::StorageImpl& storage) {
#if !ROLLCALL_LIBTORCH_2_11
  storage.clear_data_ptr_access_error_msg_();
#endif
}

}  // namespace rollcall
