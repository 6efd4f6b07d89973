#include "trainer/data/sources/csv_rows.h"

namespace rollcall::data {

CsvRows::CsvRows(std::string_view text) : rest_(text) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  rest_.remove_prefix(rest_.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0);
}

bool CsvRows::next(std::vector<std::string>& fields) {
  do {
    fields.assign(1, "");
    number_ += 1;
    if (rest_.empty()) {
      return false;
    }
    read_row(fields);
  } while (fields.size() == 1 && fields.front().empty());
  return true;
}

void CsvRows::read_row(std::vector<std::string>& fields) {
  constexpr std::size_t kMostFields = 1024;
  while (!rest_.empty()) {
    const char c = rest_.front();
    rest_.remove_prefix(1);
    if (c == '"' && quoted_ && rest_.starts_with('"')) {
      fields.back() += c;
      rest_.remove_prefix(1);
    } else if (c == '"' && (quoted_ || fields.back().empty())) {
      quoted_ = !quoted_;
    } else if (c == ',' && !quoted_ && fields.size() < kMostFields) {
      fields.emplace_back();
    } else if (c == '\n' && !quoted_) {
      break;
    } else if (c != '\r' || quoted_ || !rest_.starts_with('\n')) {
      fields.back() += c;
    }
  }
}

}  // namespace rollcall::data
