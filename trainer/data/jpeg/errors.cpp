#include "trainer/data/jpeg/errors.h"

namespace rollcall::data {
namespace {

static_assert(std::is_standard_layout_v<JpegErrors>, "its address must be that of its first member");

JpegErrors& errors_of(j_common_ptr object) { return *reinterpret_cast<JpegErrors*>(object->err); }

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
  if (level < 0) {  // a warning; the others are traces
    on_error(object);
  }
}

}  // namespace rollcall::data
