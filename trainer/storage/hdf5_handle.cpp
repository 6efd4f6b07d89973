#include "trainer/storage/hdf5_handle.h"

#include <string_view>

namespace rollcall::storage {
namespace {

thread_local std::string latest_reason;

herr_t keep_innermost(unsigned /*depth*/, const H5E_error2_t* error, void* text) {
  if (error->desc != nullptr) {
    *static_cast<std::string*>(text) = error->desc;
  }
  return 0;
}

/// HDF5 calls this where it would print. Its stack of errors is gone with the next call into it, even one that only
/// closes.
herr_t remember_reason(hid_t stack, void* /*unused*/) {
  latest_reason.clear();
  return H5Ewalk2(stack, H5E_WALK_DOWNWARD, keep_innermost, &latest_reason);
}

}  // namespace

bool Handle::close() {
  if (id_ < 0) {
    return true;
  }
  return close_(std::exchange(id_, H5I_INVALID_HID)) >= 0;
}

void silence_hdf5() {
  // Damaged files leave objects behind in HDF5 that it cannot close; its clean-up at exit would complain on stderr.
  [[maybe_unused]] static const herr_t no_clean_up_at_exit = H5dont_atexit();
  H5Eset_auto2(H5E_DEFAULT, remember_reason, nullptr);
}

std::string hdf5_reason() {
  if (latest_reason.empty()) {
    return "HDF5 gave no reason";
  }
  constexpr std::string_view kSystem = "error message = '";  // how HDF5's file driver reports errno
  const auto begin = latest_reason.find(kSystem);
  if (begin == std::string::npos) {
    return latest_reason;
  }
  const auto words = begin + kSystem.size();
  return latest_reason.substr(words, latest_reason.find('\'', words) - words);
}

}  // namespace rollcall::storage
