#pragma once

#include <string>

namespace rollcall::checkpoint::format {

/// How much of a file is compared with its checksums.
enum class VerifyLevel {
  Metadata,  ///< commit header, manifest and HDF5's structures: some kilobytes for each hundred tensors
  Full,      ///< also every byte of every data set
};

/// From where the written data is read back.
enum class ReadBack {
  /// Bypasses the page cache: by O_DIRECT if the file system supports it, else after dropping the cached pages.
  Device,
  Memory,  ///< the page cache, if it still has the pages: checks the right bytes in the right places, but not the disk
};

}  // namespace rollcall::checkpoint::format

namespace rollcall::checkpoint {

/// The checkpoint from which a training resumes.
struct LoadOptions {
  /// "never" (loads nothing), "auto" (the newest sound checkpoint of `folder`, or nothing if there is none) or the path
  /// of a checkpoint.
  std::string resume = "auto";
  std::string folder{};
  /// With "auto": ignore other users' checkpoints in `folder`; otherwise they are refused.
  bool passes_over_others = false;
  format::VerifyLevel verify = format::VerifyLevel::Full;  ///< how much of the loaded data is checked
};

}  // namespace rollcall::checkpoint
