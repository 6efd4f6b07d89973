#include "trainer/checkpoint/format/hdf5_handle.h"

#include <string_view>

namespace rollcall::checkpoint::format {
namespace {

herr_t keep_innermost(unsigned /*depth*/, const H5E_error2_t* error, void* text) {
  if (error->desc != nullptr) {
    *static_cast<std::string*>(text) = error->desc;
  }
  return 0;
}

}  // namespace

bool Handle::close() {
  if (id_ < 0) {
    return true;
  }
  return close_(std::exchange(id_, H5I_INVALID_HID)) >= 0;
}

void silence_hdf5() { H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr); }

std::string hdf5_reason() {
  std::string text = "HDF5 gave no reason";
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_DOWNWARD, keep_innermost, &text);
  constexpr std::string_view kSystem = "error message = '";  // how HDF5's file driver reports errno
  const auto begin = text.find(kSystem);
  if (begin == std::string::npos) {
    return text;
  }
  const auto words = begin + kSystem.size();
  return text.substr(words, text.find('\'', words) - words);
}

}  // namespace rollcall::checkpoint::format
