#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "runtime/base/file.h"
#include "runtime/base/result.h"

namespace rollcall::metrics {

/// A value that is JSON already: an array, an object.
struct RawJson {
  std::string text;
};

/// One line of metrics.jsonl: names and values, in the order in which they are written. Numbers that JSON cannot hold
/// (NaN, infinite) become null, and so does a text that is not JSON.
using Field = std::variant<std::int64_t, double, bool, std::string, RawJson>;
using Record = std::vector<std::pair<std::string, Field>>;

/// Appends records to a file, one JSON object a line, each in one write(2) to the end of the file (O_APPEND): whatever
/// is killed when, earlier lines stay whole. One thread; move only; closes in the destructor.
class MetricsWriter {
 public:
  /// Creates the file and its folder where absent, and continues it where present; a last line that a killed writer
  /// left unfinished is ended first. Errors (CannotCreate): it cannot be created or opened, or is a link or another
  /// user's.
  static Result<MetricsWriter> open(const std::string& path);

  /// A line that could not be written whole is ended by the next one that can. Errors (InputOutput): disk full, quota.
  [[nodiscard]] Result<void> write(const Record& record);

 private:
  MetricsWriter(File file, std::string path) : file_(std::move(file)), path_(std::move(path)) {}
  [[nodiscard]] Result<void> append(const std::string& line);

  File file_;
  std::string path_;
  bool in_mid_line_ = false;
};

}  // namespace rollcall::metrics
