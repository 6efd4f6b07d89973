#include "runtime/store/messages.h"

#include <concepts>
#include <utility>

namespace rollcall::store {
namespace {

// Numbers are big-endian; a text is its length (4 bytes) and its bytes, a list its length (4 bytes) and its texts.
// Request: number (8), operation (1), quiet (1), the operation's number (8), keys, values.
// Answer: number (8), status (1), the answer's number (8), values, refusal.

template <std::unsigned_integral T>
void put(std::string& bytes, T number) {
  for (std::size_t shift = 8 * sizeof(T); shift > 0; shift -= 8) {
    bytes += static_cast<char>(number >> (shift - 8));
  }
}

void put_text(std::string& bytes, std::string_view text) {
  put(bytes, static_cast<std::uint32_t>(text.size()));
  bytes += text;
}

std::string_view text_of(const std::string& text) { return text; }
std::string_view text_of(const Value& value) { return *value; }

template <typename Text>
void put_list(std::string& bytes, const std::vector<Text>& list) {
  put(bytes, static_cast<std::uint32_t>(list.size()));
  for (const Text& text : list) {
    put_text(bytes, text_of(text));
  }
}

template <typename Text>
std::size_t size_of(const std::vector<Text>& list) {
  std::size_t size = 4;
  for (const Text& text : list) {
    size += 4 + text_of(text).size();
  }
  return size;
}

/// Reads what put() and similar functions wrote. After a missing part, it returns nothing more and `whole()` is false.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}

  template <std::unsigned_integral T>
  T number() {
    T number = 0;
    for (const char byte : take(sizeof(T))) {
      number = static_cast<T>((std::uint64_t{number} << 8) | static_cast<unsigned char>(byte));
    }
    return number;
  }
  std::string text() { return std::string(take(number<std::uint32_t>())); }
  std::vector<std::string> list() {
    std::vector<std::string> list;
    for (auto left = number<std::uint32_t>(); left > 0 && !failed_; --left) {
      list.push_back(text());
    }
    return list;
  }
  [[nodiscard]] bool whole() const { return !failed_ && bytes_.empty(); }

 private:
  std::string_view take(std::size_t size) {
    failed_ = failed_ || size > bytes_.size();
    const std::string_view taken = bytes_.substr(0, failed_ ? 0 : size);
    bytes_.remove_prefix(taken.size());
    return taken;
  }

  std::string_view bytes_;
  bool failed_ = false;
};

bool is_complete(const Request& request) {
  if (request.quiet && request.operation != Operation::Set && request.operation != Operation::Append) {
    return false;
  }
  const std::size_t keys = request.keys.size();
  const std::size_t values = request.values.size();
  switch (request.operation) {
    case Operation::Set:
      return values == keys;
    case Operation::Get:
    case Operation::Wait:
    case Operation::Check:
      return values == 0;
    case Operation::Add:
    case Operation::Remove:
      return keys == 1 && values == 0;
    case Operation::CompareSet:
      return keys == 1 && values == 2;
    case Operation::Append:
      return keys == 1 && values == 1;
    case Operation::Count:
    case Operation::Cancel:
      return keys == 0 && values == 0;
  }
  return false;
}

}  // namespace

std::size_t encoded_size(const Request& request) { return 18 + size_of(request.keys) + size_of(request.values); }

std::string encode(std::uint64_t number, const Request& request) {
  std::string bytes;
  bytes.reserve(encoded_size(request));
  put(bytes, number);
  put(bytes, static_cast<std::uint8_t>(request.operation));
  put(bytes, static_cast<std::uint8_t>(request.quiet ? 1 : 0));
  put(bytes, static_cast<std::uint64_t>(request.number));
  put_list(bytes, request.keys);
  put_list(bytes, request.values);
  return bytes;
}

std::string encode(std::uint64_t number, const Answer& answer) {
  std::string bytes;
  bytes.reserve(17 + size_of(answer.values) + 4 + answer.refusal.size());
  put(bytes, number);
  put(bytes, static_cast<std::uint8_t>(answer.status));
  put(bytes, static_cast<std::uint64_t>(answer.number));
  put_list(bytes, answer.values);
  put_text(bytes, answer.refusal);
  return bytes;
}

std::optional<Numbered<Request>> parse_request(std::string_view bytes) {
  Reader reader(bytes);
  Numbered<Request> request{reader.number<std::uint64_t>(), {}};
  const auto operation = reader.number<std::uint8_t>();
  const auto quiet = reader.number<std::uint8_t>();
  request.content.operation = static_cast<Operation>(operation);
  request.content.quiet = quiet == 1;
  request.content.number = static_cast<std::int64_t>(reader.number<std::uint64_t>());
  request.content.keys = reader.list();
  request.content.values = reader.list();
  const bool known = operation <= static_cast<std::uint8_t>(Operation::Cancel) && quiet <= 1;
  return known && reader.whole() && is_complete(request.content) ? std::optional(std::move(request)) : std::nullopt;
}

std::optional<Numbered<Answer>> parse_answer(std::string_view bytes) {
  Reader reader(bytes);
  Numbered<Answer> answer{reader.number<std::uint64_t>(), {}};
  const auto status = reader.number<std::uint8_t>();
  answer.content.status = static_cast<Answer::Status>(status);
  answer.content.number = static_cast<std::int64_t>(reader.number<std::uint64_t>());
  for (std::string& value : reader.list()) {
    answer.content.values.push_back(std::make_shared<const std::string>(std::move(value)));
  }
  answer.content.refusal = reader.text();
  const bool known = status <= static_cast<std::uint8_t>(Answer::Status::Refused);
  return known && reader.whole() ? std::optional(std::move(answer)) : std::nullopt;
}

}  // namespace rollcall::store
