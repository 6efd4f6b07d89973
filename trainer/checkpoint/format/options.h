#pragma once

#include <string>

namespace rollcall::checkpoint::format {

/// How much of a file is compared with its checksums.
enum class VerifyLevel {
  Metadata,  ///< seal, manifest and HDF5's structures: some kilobytes a hundred tensors
  Full,      ///< every byte of every data set as well
};

/// Where reading back what was written gets it from.
enum class ReadBack {
  Device,  ///< past the page cache: O_DIRECT where the file system takes it, else after dropping the cached pages
  Memory,  ///< the page cache, where it still is: proves that the right bytes are in the right places, not the disk
};

}  // namespace rollcall::checkpoint::format

namespace rollcall::checkpoint {

/// From which checkpoint a training goes on.
struct LoadOptions {
  /// "never" (nothing happens), "auto" (the newest sound checkpoint of `folder`, or nothing where there is none) or the
  /// path of a checkpoint
  std::string resume = "auto";
  std::string folder{};
  /// "auto": other users' checkpoints in `folder` do not count; else they are refused
  bool passes_over_others = false;
  format::VerifyLevel verify = format::VerifyLevel::Full;  ///< how much of what is loaded is checked
};

}  // namespace rollcall::checkpoint
