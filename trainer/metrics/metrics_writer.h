#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "runtime/base/file.h"
#include "runtime/base/result.h"

namespace rollcall::metrics {

/// JSON text, such as an array or an object.
struct RawJson {
  std::string text;
};

/// One line of metrics.jsonl: names and values in the written order. Numbers that JSON cannot represent (NaN, infinity)
/// become null, and so does a RawJson that is not valid.
using Field = std::variant<std::int64_t, double, bool, std::string, RawJson>;
using Record = std::vector<std::pair<std::string, Field>>;

/// Appends records to a file, one JSON object per line, each with one write(2) to the end of the file (O_APPEND), so
/// that earlier lines stay complete when the process is killed. One thread; move only; closes in the destructor.
class MetricsWriter {
 public:
  /// Opens the file for appending, and creates it and its folder where they do not exist. An unfinished last line of a
  /// killed writer is ended first. Errors (CannotCreate): it cannot be created or opened, is a link, or belongs to
  /// another user.
  static Result<MetricsWriter> open(const std::string& path);

  /// Writes a record. A partly written line is ended by the next call. Errors (InputOutput): disk full, quota.
  [[nodiscard]] Result<void> write(const Record& record);

 private:
  MetricsWriter(File file, std::string path) : file_(std::move(file)), path_(std::move(path)) {}
  [[nodiscard]] Result<void> append(const std::string& line);

  File file_;
  std::string path_;
  bool in_mid_line_ = false;
};

}  // namespace rollcall::metrics
