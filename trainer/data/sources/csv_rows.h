#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace rollcall::data {

/// The largest CSV file that is read, in bytes.
inline constexpr std::size_t kMostCsvBytes = std::size_t{4} << 30U;

/// The rows of a CSV file (RFC 4180), one after the other. Lines may end as on Windows, and a byte order mark at the
/// beginning is left out.
class CsvRows {
 public:
  /// `text`: the content of the file, which outlives the object.
  explicit CsvRows(std::string_view text);

  /// Reads the fields of the next row that is not empty; returns false after the last one. A row has at most 1,024
  /// fields; what follows is part of the last one.
  [[nodiscard]] bool next(std::vector<std::string>& fields);

  /// Returns the number of the row that was read last, counted from 1 with empty ones.
  [[nodiscard]] std::int64_t number() const { return number_; }
  /// Returns whether the text ended within quotes.
  [[nodiscard]] bool has_open_quote() const { return quoted_; }

 private:
  void read_row(std::vector<std::string>& fields);

  std::string_view rest_;
  std::int64_t number_ = 0;
  bool quoted_ = false;
};

}  // namespace rollcall::data
