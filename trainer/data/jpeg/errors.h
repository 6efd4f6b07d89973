#pragma once

#include <array>
#include <csetjmp>
#include <cstdio>
#include <type_traits>

#include <jpeglib.h>

namespace rollcall::data {

/// Makes libjpeg report failures to its caller instead of printing them and ending the process. Warnings of guessed
/// pixels fail too; those that leave every pixel as the file has it are none.
///
/// libjpeg leaves a failed call by longjmp. The frames that this skips may hold nothing that has a destructor.
class JpegErrors {
 public:
  JpegErrors();
  JpegErrors(const JpegErrors&) = delete;
  JpegErrors& operator=(const JpegErrors&) = delete;

  /// For cinfo.err of one compressor or decompressor; it must not move.
  [[nodiscard]] jpeg_error_mgr* manager() { return &manager_; }

  /// Calls work(), which calls libjpeg. False where that failed: text() says why, and the libjpeg object must be
  /// aborted or destroyed.
  template <typename Work>
  [[nodiscard]] bool run(const Work& work) {
    static_assert(std::is_trivially_destructible_v<Work>);
    if (setjmp(failed_) != 0) {
      return false;
    }
    work();
    return true;
  }

  [[nodiscard]] const char* text() const { return text_.data(); }

  /// Fails the running work() with a text of our own.
  [[noreturn]] static void raise(j_common_ptr object, const char* text);

 private:
  [[noreturn]] static void on_error(j_common_ptr object);
  static void on_message(j_common_ptr object, int level);

  jpeg_error_mgr manager_{};  // first: libjpeg gives its address back
  std::jmp_buf failed_{};
  std::array<char, JMSG_LENGTH_MAX> text_{};
};

}  // namespace rollcall::data
