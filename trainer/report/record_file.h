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

/// One line of metrics.jsonl: its numbers, texts and arrays of numbers by name. Nested values are only in `line`.
class ReadRecord {
 public:
  [[nodiscard]] const std::string& event() const { return event_; }
  /// NaN where there is none, or null.
  [[nodiscard]] double number(std::string_view name) const;
  [[nodiscard]] std::int64_t integer(std::string_view name, std::int64_t otherwise = -1) const;
  [[nodiscard]] bool has(std::string_view name) const;
  /// Empty where there is none.
  [[nodiscard]] std::string text(std::string_view name) const;
  /// Empty where there is none; null is NaN.
  [[nodiscard]] const std::vector<double>& numbers(std::string_view name) const;
  /// The whole line; valid as long as the record is.
  [[nodiscard]] std::string_view line() const { return line_; }

  /// Reads `line`, whatever was read before; false where it is no JSON object. What does not fit (a name that is there
  /// twice, a nested object) costs nothing but itself.
  [[nodiscard]] bool parse(std::string_view line);

 private:
  friend class RecordHandler;

  std::string_view line_;
  std::string event_;
  std::map<std::string, double, std::less<>> numbers_;
  std::map<std::string, std::string, std::less<>> texts_;
  std::map<std::string, std::vector<double>, std::less<>> arrays_;
};

/// What reading a file found besides its records.
struct FileNotes {
  std::uint64_t bytes = 0;
  std::int64_t records = 0;
  std::int64_t unreadable_lines = 0;
  std::int64_t first_unreadable = 0;  ///< number of the line, from 1
  bool unfinished_line = false;       ///< the last line has no end: a writer was killed, or is writing it
  bool out_of_time = false;           ///< the rest was not read
};

/// A file of records that is read line by line, in memory for one line (at most 64 MiB; longer ones count as
/// unreadable), and may be read on once it has grown. One thread; move only.
class RecordFile {
 public:
  /// Errors (NoInput): there is none, it is no file, or may not be read.
  [[nodiscard]] static Result<RecordFile> open(const std::string& path);

  /// Reads to the present end of the file. `take` gets each record for the time of the call. `go_on` is asked every few
  /// thousand lines; false ends reading for good. Errors: InputOutput.
  [[nodiscard]] Result<void> read(const std::function<void(const ReadRecord&)>& take,
                                  const std::function<bool()>& go_on = {});
  [[nodiscard]] const FileNotes& notes() const { return notes_; }

 private:
  RecordFile(File file, std::string path) : file_(std::move(file)), path_(std::move(path)) {}
  void take_line(std::string_view line, const std::function<void(const ReadRecord&)>& take);
  /// The lines that end in `block`; the rest of it is kept. False where `go_on` said so.
  bool take_block(std::string_view block, const std::function<void(const ReadRecord&)>& take,
                  const std::function<bool()>& go_on);

  File file_;
  std::string path_;
  FileNotes notes_;
  ReadRecord record_;
  std::int64_t lines_ = 0;
  std::string rest_;  ///< of a line whose end was not read yet
};

}  // namespace rollcall::report
