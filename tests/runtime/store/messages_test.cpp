#include "runtime/store/messages.h"

#include <gmock/gmock.h>

namespace rollcall::store {
namespace {

using testing::ElementsAre;

constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();

TEST(StoreMessages, RequestIsUnchangedAfterEncodeAndParse) {
  const Request sent{Operation::CompareSet, {std::string("a\0b\n", 4)}, {"", std::string(70'000, '\xff')}, kLeast};
  const std::string bytes = encode(0xfedc'ba98'7654'3210, sent);
  EXPECT_EQ(bytes.size(), encoded_size(sent));
  const auto got = parse_request(bytes);
  ASSERT_TRUE(got);
  EXPECT_EQ(got->number, 0xfedc'ba98'7654'3210);
  EXPECT_EQ(got->content.operation, sent.operation);
  EXPECT_EQ(got->content.keys, sent.keys);
  EXPECT_EQ(got->content.values, sent.values);
  EXPECT_EQ(got->content.number, kLeast);
}

TEST(StoreMessages, AnswerIsUnchangedAfterEncodeAndParse) {
  const Answer sent{Answer::Status::Refused,
                    {std::make_shared<const std::string>("x"), std::make_shared<const std::string>()},
                    -7,
                    "full"};
  const auto got = parse_answer(encode(3, sent));
  ASSERT_TRUE(got);
  EXPECT_EQ(got->number, 3U);
  EXPECT_EQ(got->content.status, Answer::Status::Refused);
  EXPECT_EQ(got->content.number, -7);
  EXPECT_EQ(got->content.refusal, "full");
  EXPECT_THAT(got->content.values, ElementsAre(testing::Pointee(std::string("x")), testing::Pointee(std::string())));
}

TEST(StoreMessages, RejectsTruncatedAndOverlongMessages) {
  const std::string request = encode(1, Request{Operation::Set, {"key", "other"}, {"value", ""}});
  const std::string answer =
      encode(1, Answer{.values = {std::make_shared<const std::string>("value")}, .refusal = "why"});
  for (std::size_t size = 0; size < request.size(); ++size) {
    EXPECT_FALSE(parse_request(request.substr(0, size))) << size;
  }
  for (std::size_t size = 0; size < answer.size(); ++size) {
    EXPECT_FALSE(parse_answer(answer.substr(0, size))) << size;
  }
  EXPECT_FALSE(parse_request(request + "x"));
  EXPECT_FALSE(parse_answer(answer + "x"));
}

TEST(StoreMessages, RejectsRequestsWithAWrongNumberOfKeysOrValues) {
  const auto is_read = [](const Request& request) { return parse_request(encode(1, request)).has_value(); };
  EXPECT_TRUE(is_read({Operation::Set, {}, {}}));
  EXPECT_FALSE(is_read({Operation::Set, {"key"}, {}}));
  EXPECT_FALSE(is_read({Operation::Get, {"key"}, {"value"}}));
  for (const Operation one : {Operation::Add, Operation::Remove}) {
    EXPECT_TRUE(is_read({one, {"key"}, {}}));
    EXPECT_FALSE(is_read({one, {}, {}}));
    EXPECT_FALSE(is_read({one, {"key", "key"}, {}}));
  }
  EXPECT_FALSE(is_read({Operation::CompareSet, {"key"}, {"value"}}));
  EXPECT_FALSE(is_read({Operation::Append, {"key"}, {}}));
  for (const Operation none : {Operation::Count, Operation::Cancel}) {
    EXPECT_TRUE(is_read({none}));
    EXPECT_FALSE(is_read({none, {"key"}}));
  }
  EXPECT_FALSE(is_read({static_cast<Operation>(10)}));
  EXPECT_TRUE(is_read({.operation = Operation::Set, .quiet = true}));
  EXPECT_FALSE(is_read({.operation = Operation::Count, .quiet = true})) << "its answer is all that it is for";
}

TEST(StoreMessages, RejectsAnswersWithALocalStatus) {
  EXPECT_TRUE(parse_answer(encode(1, Answer{.status = Answer::Status::Refused})));
  EXPECT_FALSE(parse_answer(encode(1, Answer{.status = Answer::Status::TimedOut})));
  EXPECT_FALSE(parse_answer(encode(1, Answer{.status = Answer::Status::Gone})));
}

}  // namespace
}  // namespace rollcall::store
