#include "runtime/store/table.h"

#include <fmt/format.h>

#include "runtime/base/text.h"

namespace rollcall::store {
namespace {

std::size_t size_of(const std::string& key, const std::string& value) {
  return Table::kEntry + key.size() + value.size();
}

Answer refused(std::string reason) { return {.status = Answer::Status::Refused, .refusal = std::move(reason)}; }

Answer number(std::int64_t number) { return {.number = number}; }

}  // namespace

Answers Table::take(const Ticket& ticket, Request request) {
  Answers others;
  const bool quiet = request.quiet;
  std::optional<Answer> answer = carry_out(ticket, request, others);
  if (!answer || (quiet && answer->status == Answer::Status::Done)) {
    return others;
  }
  Answers answers;
  answers.reserve(others.size() + 1);
  answers.emplace_back(ticket, *std::move(answer));
  std::move(others.begin(), others.end(), std::back_inserter(answers));
  return answers;
}

std::optional<Answer> Table::carry_out(const Ticket& ticket, Request& request, Answers& answers) {
  switch (request.operation) {
    case Operation::Set:
      return set(request, answers);
    case Operation::Get:
    case Operation::Wait:
      return look(ticket, request);
    case Operation::Check:
      return number(missing(request.keys, 0) ? 0 : 1);
    case Operation::Add:
      return add(request, answers);
    case Operation::CompareSet:
      return compare_set(request, answers);
    case Operation::Append:
      return append(request, answers);
    case Operation::Remove:
      return remove(request.keys[0]);
    case Operation::Count:
      return number(static_cast<std::int64_t>(values_.size()));
    case Operation::Cancel:
      forget(ticket);
      return std::nullopt;
  }
  return std::nullopt;
}

Answer Table::set(Request& request, Answers& answers) {
  std::size_t more = 0;  // an upper bound: replaced values are not subtracted, and a key may be named twice
  for (std::size_t i = 0; i < request.keys.size(); ++i) {
    more += size_of(request.keys[i], request.values[i]);
  }
  if (std::optional<Answer> full = refuse(more)) {
    return *std::move(full);
  }
  for (std::size_t i = 0; i < request.keys.size(); ++i) {
    put(request.keys[i], std::move(request.values[i]));
  }
  for (const std::string& key : request.keys) {
    wake(key, answers);
  }
  return {};
}

Answer Table::add(const Request& request, Answers& answers) {
  const std::string& key = request.keys[0];
  const auto found = values_.find(key);
  const auto before =
      found == values_.end() ? std::optional<std::int64_t>(0) : parse_integer<std::int64_t>(*found->second);
  std::int64_t sum = 0;
  if (!before || __builtin_add_overflow(*before, request.number, &sum)) {
    return refused(before ? fmt::format("the sum of {} and {} exceeds 64 bits", *before, request.number)
                          : fmt::format("the value of {} is not a number", printable(key)));
  }
  std::string text = std::to_string(sum);
  if (std::optional<Answer> full = refuse(size_of(key, text))) {
    return *std::move(full);
  }
  put(key, std::move(text));
  wake(key, answers);
  return number(sum);
}

Answer Table::compare_set(Request& request, Answers& answers) {
  const std::string& key = request.keys[0];
  const std::string& expected = request.values[0];
  const auto found = values_.find(key);
  const bool same = found == values_.end() ? expected.empty() : *found->second == expected;
  if (!same) {
    return {.values = {found == values_.end() ? std::make_shared<const std::string>(expected) : found->second}};
  }
  if (std::optional<Answer> full = refuse(size_of(key, request.values[1]))) {
    return *std::move(full);
  }
  put(key, std::move(request.values[1]));
  wake(key, answers);
  return {.values = {values_[key]}};
}

Answer Table::append(const Request& request, Answers& answers) {
  const std::string& key = request.keys[0];
  if (std::optional<Answer> full = refuse(size_of(key, request.values[0]))) {
    return *std::move(full);
  }
  const auto found = values_.find(key);
  put(key, (found == values_.end() ? "" : *found->second) + request.values[0]);
  wake(key, answers);
  return {};
}

Answer Table::remove(const std::string& key) {
  const auto found = values_.find(key);
  if (found == values_.end()) {
    return number(0);
  }
  bytes_ -= size_of(key, *found->second);
  values_.erase(found);
  return number(1);
}

std::optional<Answer> Table::look(const Ticket& ticket, Request& request) {
  const std::optional<std::size_t> at = missing(request.keys, 0);
  if (!at) {
    return values_of(request);
  }
  if (waiting_.contains(ticket)) {
    return refused(fmt::format("request {} is already waiting", ticket.number));
  }
  const std::size_t bytes = kEntry * (1 + request.keys.size()) + encoded_size(request);
  if (std::optional<Answer> full = refuse(bytes)) {
    return full;
  }
  listed_[request.keys[*at]].push_back(ticket);
  waiting_[ticket] = {std::move(request), *at, bytes};
  bytes_ += bytes;
  return std::nullopt;
}

Answer Table::values_of(const Request& request) const {
  Answer answer;
  if (request.operation == Operation::Get) {
    for (const std::string& key : request.keys) {
      answer.values.push_back(values_.at(key));
    }
  }
  return answer;
}

/// Returns the index of a key that does not exist, searching from index `from` and wrapping around.
std::optional<std::size_t> Table::missing(const std::vector<std::string>& keys, std::size_t from) const {
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const std::size_t at = (from + i) % keys.size();
    if (!values_.contains(keys[at])) {
      return at;
    }
  }
  return std::nullopt;
}

std::optional<Answer> Table::refuse(std::size_t more) const {
  if (bytes_ + more <= most_) {
    return std::nullopt;
  }
  return refused(
      fmt::format("the store is full: it holds {} of at most {} bytes, and the request adds {}", bytes_, most_, more));
}

void Table::put(const std::string& key, std::string value) {
  bytes_ += size_of(key, value);
  Value& place = values_[key];
  if (place) {
    bytes_ -= size_of(key, *place);
  }
  place = std::make_shared<const std::string>(std::move(value));
}

/// Wakes the requests that wait for `key`.
void Table::wake(const std::string& key, Answers& answers) {
  if (auto listed = listed_.extract(key)) {
    for (const Ticket& ticket : listed.mapped()) {
      continue_waiting(ticket, answers);
    }
  }
}

/// Continues a request whose key now exists.
void Table::continue_waiting(const Ticket& ticket, Answers& answers) {
  const auto waiting = waiting_.find(ticket);
  const Request& request = waiting->second.request;
  if (const std::optional<std::size_t> at = missing(request.keys, waiting->second.at)) {
    waiting->second.at = *at;
    listed_[request.keys[*at]].push_back(ticket);
    return;
  }
  answers.emplace_back(ticket, values_of(request));
  bytes_ -= waiting->second.bytes;
  waiting_.erase(waiting);
}

Table::WaitingRequests::iterator Table::drop(WaitingRequests::iterator waiting) {
  const auto listed = listed_.find(waiting->second.request.keys[waiting->second.at]);
  std::erase(listed->second, waiting->first);
  if (listed->second.empty()) {
    listed_.erase(listed);
  }
  bytes_ -= waiting->second.bytes;
  return waiting_.erase(waiting);
}

void Table::forget(const Ticket& ticket) {
  if (const auto waiting = waiting_.find(ticket); waiting != waiting_.end()) {
    drop(waiting);
  }
}

void Table::forget_rank(std::uint32_t rank) {
  for (auto waiting = waiting_.lower_bound({rank, 0}); waiting != waiting_.end() && waiting->first.rank == rank;) {
    waiting = drop(waiting);
  }
}

}  // namespace rollcall::store
