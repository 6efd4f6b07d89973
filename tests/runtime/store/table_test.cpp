#include "runtime/store/table.h"

#include <gmock/gmock.h>

#include <limits>
#include <random>

namespace rollcall::store {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::size_t kPlenty = std::size_t{1} << 30;

/// What is due to `rank` for request `number`: "done 3 a,b", or "refused".
std::string text_of(const std::pair<Ticket, Answer>& due) {
  const auto& [ticket, answer] = due;
  std::string text = fmt::format("{}/{}: ", ticket.rank, ticket.number);
  text += answer.status == Answer::Status::Done ? fmt::format("{}", answer.number) : "refused";
  for (const Value& value : answer.values) {
    text += " " + *value;
  }
  return text;
}

std::vector<std::string> texts_of(const Answers& answers) {
  std::vector<std::string> texts;
  for (const auto& due : answers) {
    texts.push_back(text_of(due));
  }
  return texts;
}

/// A table that rank 1 asks, one request after the other.
struct Asked {
  Table table{kPlenty};
  std::uint64_t number = 0;

  std::vector<std::string> operator()(Operation operation, std::vector<std::string> keys = {},
                                      std::vector<std::string> values = {}, std::int64_t with = 0) {
    return texts_of(table.take({1, ++number}, {operation, std::move(keys), std::move(values), with}));
  }
};

TEST(StoreTable, AnswersImmediatelyWithoutAWait) {
  Asked ask;
  EXPECT_THAT(ask(Operation::Check, {"a"}), ElementsAre("1/1: 0"));
  EXPECT_THAT(ask(Operation::Set, {"a", "b"}, {"x", "y"}), ElementsAre("1/2: 0"));
  EXPECT_THAT(ask(Operation::Get, {"b", "a"}), ElementsAre("1/3: 0 y x"));
  EXPECT_THAT(ask(Operation::Check, {"a", "b"}), ElementsAre("1/4: 1"));
  EXPECT_THAT(ask(Operation::Count), ElementsAre("1/5: 2"));
  EXPECT_THAT(ask(Operation::Remove, {"a"}), ElementsAre("1/6: 1"));
  EXPECT_THAT(ask(Operation::Remove, {"a"}), ElementsAre("1/7: 0"));
  EXPECT_THAT(ask(Operation::Append, {"b"}, {"z"}), ElementsAre("1/8: 0"));
  EXPECT_THAT(ask(Operation::Get, {"b"}), ElementsAre("1/9: 0 yz"));
  EXPECT_THAT(ask(Operation::Wait, {}), ElementsAre("1/10: 0"));
}

TEST(StoreTable, AddsAndCompares) {
  Asked ask;
  EXPECT_THAT(ask(Operation::Add, {"n"}, {}, 5), ElementsAre("1/1: 5"));
  EXPECT_THAT(ask(Operation::Add, {"n"}, {}, -7), ElementsAre("1/2: -2"));
  EXPECT_THAT(ask(Operation::Get, {"n"}), ElementsAre("1/3: 0 -2"));
  EXPECT_THAT(ask(Operation::CompareSet, {"n"}, {"other", "x"}), ElementsAre("1/4: 0 -2"));
  EXPECT_THAT(ask(Operation::CompareSet, {"n"}, {"-2", "x"}), ElementsAre("1/5: 0 x"));
  EXPECT_THAT(ask(Operation::CompareSet, {"new"}, {"expected", "x"}), ElementsAre("1/6: 0 expected"));
  EXPECT_THAT(ask(Operation::Check, {"new"}), ElementsAre("1/7: 0"));
  EXPECT_THAT(ask(Operation::CompareSet, {"new"}, {"", "x"}), ElementsAre("1/8: 0 x"));
}

TEST(StoreTable, AddRefusesNonNumbersAndOverflow) {
  Asked ask;
  (void)ask(Operation::Set, {"text", "most"}, {"1 apple", std::to_string(std::numeric_limits<std::int64_t>::max())});
  EXPECT_THAT(ask(Operation::Add, {"text"}, {}, 1), ElementsAre("1/2: refused"));
  EXPECT_THAT(ask(Operation::Add, {"most"}, {}, 1), ElementsAre("1/3: refused"));
  EXPECT_THAT(ask(Operation::Get, {"text"}), ElementsAre("1/4: 0 1 apple")) << "nothing has changed";
}

TEST(StoreTable, WaitIsAnsweredWhenItsLastKeyIsSet) {
  Asked ask;
  EXPECT_THAT(ask(Operation::Get, {"a", "b"}), IsEmpty());
  EXPECT_THAT(ask(Operation::Wait, {"b"}), IsEmpty());
  EXPECT_THAT(ask(Operation::Set, {"b"}, {"y"}), ElementsAre("1/3: 0", "1/2: 0"));
  EXPECT_THAT(ask(Operation::Remove, {"b"}), ElementsAre("1/4: 1"));
  EXPECT_THAT(ask(Operation::Append, {"a"}, {"x"}), ElementsAre("1/5: 0")) << "b is gone again";
  EXPECT_THAT(ask(Operation::Add, {"b"}, {}, 1), ElementsAre("1/6: 1", "1/1: 0 x 1"));
}

TEST(StoreTable, QuietRequestIsAnsweredOnlyOnRefusal) {
  Table table(1'000);
  EXPECT_THAT(texts_of(table.take({2, 1}, {Operation::Get, {"a"}})), IsEmpty());
  Request request{Operation::Set, {"a"}, {"x"}};
  request.quiet = true;
  EXPECT_THAT(texts_of(table.take({1, 1}, request)), ElementsAre("2/1: 0 x"));
  request.values = {std::string(1'000, 'x')};
  EXPECT_THAT(texts_of(table.take({1, 2}, request)), ElementsAre("1/2: refused"));
}

TEST(StoreTable, CancelledWaitIsNotAnswered) {
  Asked ask;
  const std::size_t empty = ask.table.bytes();
  (void)ask(Operation::Get, {"a"});
  (void)ask(Operation::Get, {"a"});
  (void)ask.table.take({2, 1}, {Operation::Get, {"a"}});
  ask.table.forget({1, 1});
  ask.table.forget_rank(2);
  EXPECT_THAT(texts_of(ask.table.take({1, 2}, {Operation::Cancel})), IsEmpty());
  EXPECT_EQ(ask.table.bytes(), empty);
  EXPECT_THAT(ask(Operation::Set, {"a"}, {"x"}), ElementsAre("1/3: 0"));
}

TEST(StoreTable, RefusesASecondWaitWithTheSameNumber) {
  Table table(kPlenty);
  EXPECT_THAT(texts_of(table.take({1, 1}, {Operation::Wait, {"a"}})), IsEmpty());
  EXPECT_THAT(texts_of(table.take({1, 1}, {Operation::Wait, {"b"}})), ElementsAre("1/1: refused"));
  EXPECT_THAT(texts_of(table.take({1, 2}, {Operation::Set, {"b", "a"}, {"", ""}})), ElementsAre("1/2: 0", "1/1: 0"));
}

TEST(StoreTable, RefusesRequestsAboveTheMemoryLimit) {
  Table table(10'000);
  const auto ask = [&](const Request& request) { return table.take({1, 1}, request)[0].second; };
  EXPECT_EQ(ask({Operation::Set, {"a"}, {std::string(9'000, 'x')}}).status, Answer::Status::Done);
  const Answer full = ask({Operation::Set, {"b", "c"}, {std::string(500, 'x'), std::string(500, 'x')}});
  EXPECT_EQ(full.status, Answer::Status::Refused);
  EXPECT_THAT(full.refusal, HasSubstr("the store is full"));
  EXPECT_EQ(ask({Operation::Check, {"b"}}).number, 0) << "a request that is refused changes nothing";
  EXPECT_EQ(ask({Operation::Append, {"a"}, {std::string(1'000, 'x')}}).status, Answer::Status::Refused);
  EXPECT_EQ(ask({Operation::CompareSet, {"b"}, {"", std::string(1'000, 'x')}}).status, Answer::Status::Refused);
  EXPECT_EQ(ask({Operation::Add, {std::string(1'000, 'k')}, {}, 1}).status, Answer::Status::Refused);
  EXPECT_EQ(ask({Operation::Wait, std::vector<std::string>(10, "k")}).status, Answer::Status::Refused);
  EXPECT_EQ(ask({Operation::Remove, {"a"}}).number, 1);
  EXPECT_EQ(table.bytes(), 0U);
  std::uint64_t keys = 0;
  while (ask({Operation::Set, {std::to_string(keys)}, {""}}).status == Answer::Status::Done) {
    keys += 1;
  }
  EXPECT_LE(keys, 10'000 / Table::kEntry) << "keys without values count as well";
}

/// A simple model of the table: after each request every waiting request is checked.
class Model {
 public:
  std::vector<std::string> take(const Ticket& ticket, const Request& request) {
    std::vector<std::string> due;
    std::optional<Answer> answer = answer_of(ticket, request);
    if (answer) {
      due.push_back(text_of({ticket, *answer}));
    }
    std::erase_if(waiting_, [&](const auto& waiting) {
      const std::optional<Answer> late = all_of(waiting.second);
      if (late) {
        due.push_back(text_of({waiting.first, *late}));
      }
      return late.has_value();
    });
    if (!answer && request.operation != Operation::Cancel) {
      waiting_.emplace_back(ticket, request);
    }
    return due;
  }

  void forget_rank(std::uint32_t rank) {
    std::erase_if(waiting_, [&](const auto& waiting) { return waiting.first.rank == rank; });
  }

 private:
  std::optional<Answer> all_of(const Request& request) {
    Answer answer;
    for (const std::string& key : request.keys) {
      if (!values_.contains(key)) {
        return std::nullopt;
      }
      if (request.operation == Operation::Get) {
        answer.values.push_back(std::make_shared<const std::string>(values_[key]));
      }
    }
    return answer;
  }

  std::optional<Answer> answer_of(const Ticket& ticket, const Request& request) {
    const std::string key = request.keys.empty() ? "" : request.keys[0];
    switch (request.operation) {
      case Operation::Set:
        for (std::size_t i = 0; i < request.keys.size(); ++i) {
          values_[request.keys[i]] = request.values[i];
        }
        return Answer();
      case Operation::Get:
      case Operation::Wait:
        return all_of(request);
      case Operation::Check:
        return Answer{.number = all_of({Operation::Wait, request.keys}) ? 1 : 0};
      case Operation::Add: {
        const std::string before = values_.contains(key) ? values_[key] : "0";
        if (before.find_first_not_of("-0123456789") != std::string::npos || before.empty()) {
          return Answer{.status = Answer::Status::Refused};
        }
        values_[key] = std::to_string(std::stoll(before) + request.number);
        return Answer{.number = std::stoll(values_[key])};
      }
      case Operation::CompareSet:
        if (values_.contains(key) ? values_[key] == request.values[0] : request.values[0].empty()) {
          values_[key] = request.values[1];
        }
        return Answer{
            .values = {std::make_shared<const std::string>(values_.contains(key) ? values_[key] : request.values[0])}};
      case Operation::Append:
        values_[key] += request.values[0];
        return Answer();
      case Operation::Remove:
        return Answer{.number = static_cast<std::int64_t>(values_.erase(key))};
      case Operation::Count:
        return Answer{.number = static_cast<std::int64_t>(values_.size())};
      case Operation::Cancel:
        std::erase_if(waiting_, [&](const auto& waiting) { return waiting.first == ticket; });
        return std::nullopt;
    }
    return std::nullopt;
  }

  std::map<std::string, std::string> values_;
  std::vector<std::pair<Ticket, Request>> waiting_;
};

/// Few keys, so that requests concern each other.
class RandomRequests {
 public:
  explicit RandomRequests(std::uint32_t seed) : random_(seed) {}

  std::uint32_t below(std::uint32_t limit) { return static_cast<std::uint32_t>(random_() % limit); }
  Request next() {
    const auto operation = static_cast<Operation>(below(9));
    const bool several = operation <= Operation::Check;
    Request request{.operation = operation, .number = static_cast<std::int64_t>(below(7)) - 3};
    request.keys.resize(operation == Operation::Count ? 0 : several ? below(4) : 1);
    for (std::string& key : request.keys) {
      key = std::string(1, static_cast<char>('a' + below(6)));
    }
    request.values.resize(operation == Operation::Set          ? request.keys.size()
                          : operation == Operation::CompareSet ? 2
                          : operation == Operation::Append     ? 1
                                                               : 0);
    for (std::string& value : request.values) {
      value = std::vector<std::string>{"", "1", "2", "x"}[below(4)];
    }
    return request;
  }

 private:
  std::mt19937 random_;
};

TEST(StoreTable, MatchesTheModelForRandomRequests) {
  for (std::uint32_t seed = 1; seed <= 40; ++seed) {
    RandomRequests random(seed);
    Table table(kPlenty);
    Model model;
    for (std::uint64_t number = 1; number <= 1'000; ++number) {
      const Ticket ticket{random.below(3), number};
      if (random.below(50) == 0) {
        table.forget_rank(ticket.rank);
        model.forget_rank(ticket.rank);
      }
      const bool cancels = random.below(10) == 0;
      const Ticket asked = cancels ? Ticket{ticket.rank, 1 + random.below(static_cast<std::uint32_t>(number))} : ticket;
      const Request request = cancels ? Request{Operation::Cancel} : random.next();
      // Several that become due together may come in another order.
      ASSERT_THAT(texts_of(table.take(asked, request)), testing::UnorderedElementsAreArray(model.take(asked, request)))
          << "seed " << seed << ", request " << number;
    }
    for (std::uint32_t rank = 0; rank < 3; ++rank) {
      table.forget_rank(rank);
    }
    for (const char key : {'a', 'b', 'c', 'd', 'e', 'f'}) {
      (void)table.take({0, 0}, {Operation::Remove, {std::string(1, key)}});
    }
    EXPECT_EQ(table.bytes(), 0U) << "what came is counted as what went";
  }
}

}  // namespace
}  // namespace rollcall::store
