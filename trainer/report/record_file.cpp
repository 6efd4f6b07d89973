#include "trainer/report/record_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

namespace rollcall::report {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
constexpr std::size_t kLongestLine = 64 << 20;
constexpr std::int64_t kLinesBetweenQuestions = 4096;

/// The limit of names in a record; rollcall's records have fewer than a hundred.
constexpr std::size_t kMostNames = 300;

template <typename Map>
void clear_values(Map& map, const typename Map::mapped_type& empty) {
  if (map.size() >= kMostNames) {
    map.clear();
  }
  for (auto& [name, value] : map) {
    value = empty;
  }
}

Error cannot_read(const std::string& path, int error_number) {
  return fail("RUN", path, "cannot be read: " + errno_text(error_number),
              "naming the folder of a run, in which rollcall-train writes metrics.jsonl", ErrorKind::NoInput);
}

}  // namespace

/// Handles the members of the top-level object, including arrays of numbers. Members of nested objects are skipped.
class RecordHandler : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit RecordHandler(ReadRecord& record) : record_(record) {}

  bool null() override { return number(kNone); }
  bool boolean(bool value) override { return number(value ? 1 : 0); }
  bool number_integer(number_integer_t value) override { return number(static_cast<double>(value)); }
  bool number_unsigned(number_unsigned_t value) override { return number(static_cast<double>(value)); }
  bool number_float(number_float_t value, const string_t& /*text*/) override { return number(value); }
  bool string(string_t& value) override {
    if (depth_ == 1) {
      if (key_ == "event") {
        record_.event_ = value;
      } else {
        if (std::string* const place = place_in(record_.texts_)) {
          *place = value;
        }
      }
    }
    return depth_ > 0;
  }
  bool binary(binary_t& /*value*/) override { return true; }
  bool start_object(std::size_t /*size*/) override {
    depth_ += 1;
    return true;
  }
  bool key(string_t& name) override {
    if (depth_ == 1) {
      key_.swap(name);
    }
    return true;
  }
  bool end_object() override {
    depth_ -= 1;
    return true;
  }
  bool start_array(std::size_t /*size*/) override {
    depth_ += 1;
    return depth_ > 1;  // a line is an object
  }
  bool end_array() override {
    depth_ -= 1;
    return true;
  }
  bool parse_error(std::size_t /*where*/, const std::string& /*last*/,
                   const nlohmann::detail::exception& /*error*/) override {
    return false;
  }

 private:
  bool number(double value) {
    if (depth_ == 1) {
      if (double* const place = place_in(record_.numbers_)) {
        *place = value;
      }
    } else if (depth_ == 2) {
      if (std::vector<double>* const place = place_in(record_.arrays_)) {
        place->push_back(value);
      }
    }
    return depth_ > 0;
  }

  /// Returns where the value of the present name is kept; null for a name beyond the limit.
  template <typename Map>
  typename Map::mapped_type* place_in(Map& map) {
    const auto found = map.find(key_);
    if (found != map.end()) {
      return &found->second;
    }
    return map.size() < kMostNames ? &map[key_] : nullptr;
  }

  ReadRecord& record_;
  std::string key_;
  int depth_ = 0;
};

double ReadRecord::number(std::string_view name) const {
  const auto found = numbers_.find(name);
  return found == numbers_.end() ? kNone : found->second;
}

std::int64_t ReadRecord::integer(std::string_view name, std::int64_t otherwise) const {
  constexpr double kMostExact = 9e15;
  const double value = number(name);
  return std::isfinite(value) && std::abs(value) < kMostExact ? static_cast<std::int64_t>(value) : otherwise;
}

bool ReadRecord::has(std::string_view name) const { return std::isfinite(number(name)); }

std::string ReadRecord::text(std::string_view name) const {
  const auto found = texts_.find(name);
  return found == texts_.end() ? "" : found->second;
}

const std::vector<double>& ReadRecord::numbers(std::string_view name) const {
  static const std::vector<double> none;
  const auto found = arrays_.find(name);
  return found == arrays_.end() ? none : found->second;
}

bool ReadRecord::parse(std::string_view line) {
  // Consecutive records have the same names. Their entries are kept, because allocating them takes most of the time.
  clear_values(numbers_, kNone);
  clear_values(texts_, {});
  clear_values(arrays_, {});
  event_.clear();
  line_ = line;
  RecordHandler handler(*this);
  return nlohmann::json::sax_parse(line, &handler);
}

Result<RecordFile> RecordFile::open(const std::string& path) {
  File file(path, O_RDONLY | O_NONBLOCK);
  if (!file || !file.regular_size()) {
    return cannot_read(path, errno);
  }
  return RecordFile(std::move(file), path);
}

void RecordFile::take_line(std::string_view line, const std::function<void(const ReadRecord&)>& take) {
  lines_ += 1;
  if (line.size() < kLongestLine && record_.parse(line)) {
    notes_.records += 1;
    take(record_);
  } else if (!line.empty()) {
    notes_.first_unreadable = notes_.unreadable_lines == 0 ? lines_ : notes_.first_unreadable;
    notes_.unreadable_lines += 1;
  }
}

bool RecordFile::take_block(std::string_view block, const std::function<void(const ReadRecord&)>& take,
                            const std::function<bool()>& go_on) {
  for (std::size_t end = block.find('\n'); end != std::string_view::npos; end = block.find('\n')) {
    if (rest_.empty()) {
      take_line(block.substr(0, end), take);
    } else {
      rest_.append(block.substr(0, end));
      take_line(rest_, take);
      rest_.clear();
    }
    block.remove_prefix(end + 1);
    if (go_on && lines_ % kLinesBetweenQuestions == 0 && !go_on()) {
      return false;
    }
  }
  if (rest_.size() < kLongestLine) {
    rest_.append(block);
  }
  return true;
}

Result<void> RecordFile::read(const std::function<void(const ReadRecord&)>& take, const std::function<bool()>& go_on) {
  std::vector<char> buffer(1 << 20);
  while (!notes_.out_of_time) {
    const ssize_t got = ::read(file_.descriptor(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got < 0) {
      return fail("RUN", path_, "cannot be read: " + errno_text(errno), "checking the file system",
                  ErrorKind::InputOutput);
    }
    if (got == 0) {
      break;
    }
    notes_.bytes += static_cast<std::uint64_t>(got);
    notes_.out_of_time = !take_block(std::string_view(buffer.data(), static_cast<std::size_t>(got)), take, go_on);
  }
  notes_.unfinished_line = !rest_.empty();
  return {};
}

}  // namespace rollcall::report
