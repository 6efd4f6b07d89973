#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "trainer/data/image/coded_blocks.h"

namespace rollcall::data {

/// The coded data of a scan without its stuffed zeros, piece by piece, up to the next marker: a restart or the end.
class CodedWindow {
 public:
  /// The most that an MCU takes: D_MAX_BLOCKS_IN_MCU blocks of 64 symbols of 31 bits, and what is read in advance.
  static constexpr std::ptrdiff_t kMostMcuBytes = 2560;

  /// Begins with the bytes behind a scan's header, which must stay.
  void start(const std::uint8_t* file, const std::uint8_t* file_end);

  /// Keeps what lies from `next` to end() and puts more behind it; gives the new place of `next`. Afterwards there are
  /// kMostMcuBytes or is_complete().
  [[nodiscard]] const std::uint8_t* refill(const std::uint8_t* next);

  [[nodiscard]] const std::uint8_t* end() const { return end_; }

  /// Whether no data follows end() before the next marker or the file's end.
  [[nodiscard]] bool is_complete() const { return is_complete_; }

  /// Goes behind the marker that follows the data if it is restart `number`, 0 to 7: refill(begin()) gives the data
  /// there. False where it is not.
  [[nodiscard]] bool pass_restart(unsigned number);

  [[nodiscard]] const std::uint8_t* begin() const { return bytes_.data(); }

  /// What of the file has not been taken yet; where is_complete(), it begins with the marker.
  [[nodiscard]] const std::uint8_t* file() const { return file_; }
  [[nodiscard]] const std::uint8_t* file_end() const { return file_end_; }

 private:
  void take_prefix();

  static constexpr std::size_t kPiece = 12 * 1024;  // a part of the first-level cache

  const std::uint8_t* file_ = nullptr;
  const std::uint8_t* file_end_ = nullptr;
  std::uint8_t* end_ = nullptr;
  bool is_complete_ = false;
  std::array<std::uint8_t, kPiece + kCodedSlack> bytes_;
};

}  // namespace rollcall::data
