#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/base/text.h"
#include "trainer/checkpoint/format/folder.h"
#include "trainer/checkpoint/format/host.h"

namespace rollcall::checkpoint::format {
namespace {

namespace fs = std::filesystem;

struct Writer {
  std::string host;
  pid_t pid = 0;
};

/// The writer that "NAME.tmp-HOST-PID" names. Host names may hold '-'.
std::optional<Writer> writer_of(std::string_view name) {
  constexpr std::string_view kMark = ".h5.tmp-";
  const auto mark = name.find(kMark);
  const auto dash = name.rfind('-');
  if (mark == std::string_view::npos || dash < mark + kMark.size()) {
    return std::nullopt;
  }
  const auto pid = parse_integer<pid_t>(name.substr(dash + 1));
  if (!pid || *pid <= 0) {
    return std::nullopt;
  }
  const auto host_begin = mark + kMark.size();
  return Writer{std::string(name.substr(host_begin, dash - host_begin)), *pid};
}

bool is_dead(const Writer& writer, const fs::path& path) {
  if (writer.host == host_name()) {
    return writer.pid != ::getpid() && ::kill(writer.pid, 0) != 0 && errno == ESRCH;
  }
  std::error_code unknown;
  const auto written = fs::last_write_time(path, unknown);
  return !unknown && fs::file_time_type::clock::now() - written > std::chrono::hours(24);
}

}  // namespace

void remove_stale_temporaries(const std::string& folder) {
  std::error_code ignored;
  for (fs::directory_iterator entry(folder, ignored), end; !ignored && entry != end; entry.increment(ignored)) {
    const auto writer = writer_of(entry->path().filename().string());
    if (writer && is_dead(*writer, entry->path())) {
      ::unlink(entry->path().c_str());
    }
  }
}

}  // namespace rollcall::checkpoint::format
