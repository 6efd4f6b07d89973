#pragma once

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
