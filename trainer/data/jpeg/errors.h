#pragma once

#include <array>
#include <csetjmp>
#include <cstdio>
#include <type_traits>

#include <jpeglib.h>

namespace rollcall::data {

/// Makes libjpeg report failures to its caller instead of printing them and ending the process. Warnings that libjpeg
/// guessed pixels are failures too; warnings that leave every pixel correct are ignored.
///
/// libjpeg leaves a failed call by longjmp. The stack frames that this skips must not hold objects with destructors.
class JpegErrors {
 public:
  JpegErrors();
  JpegErrors(const JpegErrors&) = delete;
  JpegErrors& operator=(const JpegErrors&) = delete;

  /// Returns the value for cinfo.err of one compressor or decompressor; it must not move.
  [[nodiscard]] jpeg_error_mgr* manager() { return &manager_; }

  /// Calls work(), which calls libjpeg. Returns false if that failed: text() is the reason, and the libjpeg object must
  /// be aborted or destroyed.
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

  /// Fails the running work() with our own text.
  [[noreturn]] static void raise(j_common_ptr object, const char* text);

 private:
  [[noreturn]] static void on_error(j_common_ptr object);
  static void on_message(j_common_ptr object, int level);

  jpeg_error_mgr manager_{};  // first: libjpeg gives its address back
  std::jmp_buf failed_{};
  std::array<char, JMSG_LENGTH_MAX> text_{};
};

}  // namespace rollcall::data
