#pragma once

#include <cstddef>

namespace rollcall::testing_support {

/// System calls of this program that can be made to fail, those of the HDF5 library among them: the program defines the
/// C library's functions anew.
enum class Call { Write, Sync, Rename, Allocate, Read };

enum class Fault {
  Error,    ///< fails with `error_number`
  Short,    ///< transfers half of the bytes and says so
  Lost,     ///< says that it wrote all, and writes nothing
  Flipped,  ///< writes all, one bit of it wrong
};

/// Until the next call of inject() or stop(), the `nth` call (from 1) of this kind has that fault. All calls are
/// counted.
void inject(Call call, std::size_t nth, Fault fault, int error_number = 0);
/// No more faults; how many calls of the kind given to inject() there were.
std::size_t stop();

}  // namespace rollcall::testing_support
