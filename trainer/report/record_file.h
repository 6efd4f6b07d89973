#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/base/file.h"
#include "runtime/base/result.h"

namespace rollcall::report {

/// One line of metrics.jsonl: its numbers, texts and arrays of numbers by name, at most 300 of each. Nested values are
/// only in line().
class ReadRecord {
 public:
  [[nodiscard]] const std::string& event() const { return event_; }
  /// Returns the number, or NaN where it is missing or null.
  [[nodiscard]] double number(std::string_view name) const;
  [[nodiscard]] std::int64_t integer(std::string_view name, std::int64_t otherwise = -1) const;
  [[nodiscard]] bool has(std::string_view name) const;
  /// Returns the text, or an empty one where it is missing.
  [[nodiscard]] std::string text(std::string_view name) const;
  /// Returns the array, with NaN for null; empty where it is missing.
  [[nodiscard]] const std::vector<double>& numbers(std::string_view name) const;
  /// Returns the whole line, which is valid as long as the record.
  [[nodiscard]] std::string_view line() const { return line_; }

  /// Parses `line` and replaces the previous content. Returns false where it is not a JSON object. Unexpected parts (a
  /// duplicate name, a nested object) are skipped.
  [[nodiscard]] bool parse(std::string_view line);

 private:
  friend class RecordHandler;

  std::string_view line_;
  std::string event_;
  std::map<std::string, double, std::less<>> numbers_;
  std::map<std::string, std::string, std::less<>> texts_;
  std::map<std::string, std::vector<double>, std::less<>> arrays_;
};

/// Statistics and problems of a record file.
struct FileNotes {
  std::uint64_t bytes = 0;
  std::int64_t records = 0;
  std::int64_t unreadable_lines = 0;
  std::int64_t first_unreadable = 0;  ///< number of the first unreadable line, from 1
  bool unfinished_line = false;       ///< the last line has no end: a writer was killed, or is writing it
  bool out_of_time = false;           ///< the rest was not read
};

/// A file of records that is read line by line. It needs memory for one line (at most 64 MiB; longer ones are
/// unreadable), and can be read again after it has grown. One thread; move only.
class RecordFile {
 public:
  /// Errors (NoInput): the file does not exist, is not a regular file, or may not be read.
  [[nodiscard]] static Result<RecordFile> open(const std::string& path);

  /// Reads to the current end of the file, and calls `take` for each record, which is valid during the call. `go_on` is
  /// called every few thousand lines; false ends the reading for good. Errors: InputOutput.
  [[nodiscard]] Result<void> read(const std::function<void(const ReadRecord&)>& take,
                                  const std::function<bool()>& go_on = {});
  [[nodiscard]] const FileNotes& notes() const { return notes_; }

 private:
  RecordFile(File file, std::string path) : file_(std::move(file)), path_(std::move(path)) {}
  void take_line(std::string_view line, const std::function<void(const ReadRecord&)>& take);
  /// Takes the lines that end in `block` and keeps the rest. Returns false where `go_on` returned false.
  bool take_block(std::string_view block, const std::function<void(const ReadRecord&)>& take,
                  const std::function<bool()>& go_on);

  File file_;
  std::string path_;
  FileNotes notes_;
  ReadRecord record_;
  std::int64_t lines_ = 0;
  std::string rest_;  ///< the beginning of a line whose end was not read yet
};

}  // namespace rollcall::report
