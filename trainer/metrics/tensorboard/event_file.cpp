#include "trainer/metrics/tensorboard/event_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <utility>

#include "runtime/base/own_file.h"
#include "runtime/base/this_process.h"
#include "trainer/metrics/tensorboard/event.h"

namespace rollcall::metrics::tensorboard {
namespace {

/// 0, or an errno value.
int write_whole(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) {
      continue;
    }
    if (written <= 0) {
      return written < 0 ? errno : ENOSPC;
    }
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return 0;
}

}  // namespace

Result<EventFile> EventFile::create(const std::string& folder, double time) {
  std::error_code ignored;  // open() tells better what is wrong
  std::filesystem::create_directories(folder, ignored);
  const std::string path = fmt::format("{}/events.out.tfevents.{:010d}.{}.{}.0", folder,
                                       static_cast<std::int64_t>(time), this_host_name(), ::getpid());
  const OpenedOutput opened = open_output(path, O_WRONLY | O_APPEND);
  if (opened.descriptor < 0) {
    return fail("--tensorboard", path, "cannot be created: " + opened.reason,
                "naming another --run-dir, or --tensorboard=off", ErrorKind::CannotCreate);
  }
  EventFile file(opened.descriptor, path);
  file.end_ = ::lseek(opened.descriptor, 0, SEEK_END);  // 0, but where a process of another container has this number
  RETURN_IF_ERROR(file.write(encode_file_version(time)));
  return file;
}

EventFile::EventFile(EventFile&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      path_(std::move(other.path_)),
      end_(other.end_),
      torn_(other.torn_) {}

EventFile& EventFile::operator=(EventFile&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(path_, other.path_);
  std::swap(end_, other.end_);
  std::swap(torn_, other.torn_);
  return *this;
}

EventFile::~EventFile() {
  if (descriptor_ >= 0) {
    ::close(descriptor_);
  }
}

Result<void> EventFile::write(std::string_view event) {
  const std::string record = framed(event);
  int error = torn_ && ::ftruncate(descriptor_, end_) != 0 ? errno : 0;
  if (error == 0) {
    error = write_whole(descriptor_, record);
    torn_ = error != 0 && ::ftruncate(descriptor_, end_) != 0;
  }
  if (error != 0) {
    return fail("--tensorboard", path_, "cannot be written: " + errno_text(error),
                "freeing space or quota there, or naming another --run-dir", ErrorKind::InputOutput);
  }
  end_ += static_cast<std::int64_t>(record.size());
  return {};
}

}  // namespace rollcall::metrics::tensorboard
