#include "trainer/data/jpeg/errors.h"

#include <jerror.h>

#include "trainer/data/jpeg/entropy_decoder.h"

namespace rollcall::data {
namespace {

static_assert(std::is_standard_layout_v<JpegErrors>, "its address must be that of its first member");

JpegErrors& errors_of(j_common_ptr object) { return *reinterpret_cast<JpegErrors*>(object->err); }

/// Returns whether skipped bytes before a marker cannot be data of a scan that flipped bits made shorter.
bool are_foreign_bytes(j_common_ptr object) {
  const auto& libjpeg = *reinterpret_cast<j_decompress_ptr>(object);
  return libjpeg.input_scan_number == 0 || scan_ended_cleanly(libjpeg);
}

/// Returns whether libjpeg has read every coefficient from the file in spite of the current warning. Source: the calls
/// of WARNMS in libjpeg-turbo 2.1.5 and 3.1.
bool leaves_every_pixel(j_common_ptr object) {
  switch (object->err->msg_code) {
    case JWRN_JFIF_MAJOR:      // a version on which nothing depends
    case JWRN_ADOBE_XFORM:     // an unknown number for the colours, which are YCbCr or YCCK then
    case JWRN_NOT_SEQUENTIAL:  // numbers in a scan's header that sequential files do not use
      return true;
    case JWRN_EXTRANEOUS_DATA:
      return are_foreign_bytes(object);
    case JWRN_BOGUS_PROGRESSION: {  // of an AC scan's coefficient 0: it comes before the DC scan, and both are read
      const bool is_ac_scan = object->is_decompressor != FALSE && reinterpret_cast<j_decompress_ptr>(object)->Ss > 0;
      return is_ac_scan && object->err->msg_parm.i[1] == 0;
    }
    default:
      return false;
  }
}

}  // namespace

JpegErrors::JpegErrors() {
  jpeg_std_error(&manager_);
  manager_.error_exit = on_error;
  manager_.emit_message = on_message;
  manager_.output_message = [](j_common_ptr) {};
}

void JpegErrors::raise(j_common_ptr object, const char* text) {
  JpegErrors& errors = errors_of(object);
  std::snprintf(errors.text_.data(), errors.text_.size(), "%s", text);
  std::longjmp(errors.failed_, 1);
}

void JpegErrors::on_error(j_common_ptr object) {
  JpegErrors& errors = errors_of(object);
  object->err->format_message(object, errors.text_.data());
  std::longjmp(errors.failed_, 1);
}

void JpegErrors::on_message(j_common_ptr object, int level) {
  if (level < 0 && !leaves_every_pixel(object)) {  // below 0: a warning; else a trace
    on_error(object);
  }
}

}  // namespace rollcall::data
