#include "trainer/metrics/tensorboard/event_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <utility>

#include "runtime/base/owned_file.h"
#include "runtime/base/this_process.h"
#include "trainer/metrics/tensorboard/event.h"

namespace rollcall::metrics::tensorboard {
Result<EventFile> EventFile::create(const std::string& folder, double time) {
  std::error_code ignored;  // open() reports the error
  std::filesystem::create_directories(folder, ignored);
  const std::string path = fmt::format("{}/events.out.tfevents.{:010d}.{}.{}.0", folder,
                                       static_cast<std::int64_t>(time), this_host_name(), ::getpid());
  const OpenedOutput opened = open_output(path, O_WRONLY | O_APPEND);
  if (opened.descriptor < 0) {
    return fail("--tensorboard", path, "cannot be created: " + opened.reason,
                what_to_try(opened.error_number, "naming another --run-dir"), ErrorKind::CannotCreate);
  }
  EventFile file(File(opened.descriptor), path);
  file.end_ = ::lseek(opened.descriptor, 0, SEEK_END);  // 0, unless a process of another container has the same id
  RETURN_IF_ERROR(file.write(encode_file_version(time)));
  return file;
}

Result<void> EventFile::write(std::string_view event) {
  const std::string record = framed(event);
  const auto cut = [this] { return ::ftruncate(file_.descriptor(), end_) == 0; };
  int error = torn_ && !cut() ? errno : 0;
  if (error == 0) {
    error = write_all(file_.descriptor(), record).empty() ? 0 : errno;
    torn_ = error != 0 && !cut();
  }
  if (error != 0) {
    return fail("--tensorboard", path_, "cannot be written: " + errno_text(error),
                what_to_try(error, "naming another --run-dir"), ErrorKind::InputOutput);
  }
  end_ += static_cast<std::int64_t>(record.size());
  return {};
}

}  // namespace rollcall::metrics::tensorboard
