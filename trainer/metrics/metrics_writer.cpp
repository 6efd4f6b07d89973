#include "trainer/metrics/metrics_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>
#include <type_traits>

#include "runtime/base/owned_file.h"

namespace rollcall::metrics {
namespace {

using Json = nlohmann::ordered_json;

Json json_of(const Field& field) {
  return std::visit(
      [](const auto& value) -> Json {
        if constexpr (std::is_same_v<std::decay_t<decltype(value)>, RawJson>) {
          Json parsed = Json::parse(value.text, nullptr, false);
          return parsed.is_discarded() ? Json() : parsed;
        } else {
          return value;
        }
      },
      field);
}

std::string json_line(const Record& record) {
  Json line = Json::object();
  for (const auto& [name, field] : record) {
    line[name] = json_of(field);
  }
  // Host names and paths may not be UTF-8, which must not stop the run.
  return line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

bool ends_in_mid_line(int descriptor) {
  const off_t size = ::lseek(descriptor, 0, SEEK_END);
  char last = '\n';
  return size > 0 && ::pread(descriptor, &last, 1, size - 1) == 1 && last != '\n';
}

}  // namespace

Result<MetricsWriter> MetricsWriter::open(const std::string& path) {
  std::error_code ignored;  // open() reports the error
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), ignored);
  const OpenedOutput opened = open_output(path, O_RDWR | O_APPEND);
  if (opened.descriptor < 0) {
    return fail("--run-dir", path, "cannot be opened for appending: " + opened.reason,
                "naming a folder that you can write to, where no other user has a file of this name",
                ErrorKind::CannotCreate);
  }
  MetricsWriter writer(File(opened.descriptor), path);
  if (ends_in_mid_line(opened.descriptor)) {
    RETURN_IF_ERROR(writer.append("\n"));
  }
  return writer;
}

Result<void> MetricsWriter::write(const Record& record) {
  return append(in_mid_line_ ? "\n" + json_line(record) : json_line(record));
}

Result<void> MetricsWriter::append(const std::string& line) {
  const std::string_view rest = write_all(file_.descriptor(), line);
  in_mid_line_ = rest.empty() ? false : rest.size() < line.size() || in_mid_line_;
  if (!rest.empty()) {
    return fail("--run-dir", path_, "cannot be written: " + errno_text(errno),
                what_to_try(errno, "naming another folder"), ErrorKind::InputOutput);
  }
  return {};
}

}  // namespace rollcall::metrics
