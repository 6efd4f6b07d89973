#include "trainer/checkpoint/format/retention.h"

#include <gmock/gmock.h>

namespace rollcall::checkpoint::format {
namespace {

using testing::ElementsAre;
using testing::FieldsAre;
using testing::IsEmpty;

TEST(BestValidations, AreTheHighestAndAmongEqualsTheEarliest) {
  std::vector<Best> best;
  EXPECT_TRUE(note_validation(best, {10, 0.5}, 3));
  EXPECT_TRUE(note_validation(best, {20, 0.7}, 3));
  EXPECT_TRUE(note_validation(best, {30, 0.6}, 3));
  EXPECT_THAT(best, ElementsAre(FieldsAre(20, 0.7), FieldsAre(30, 0.6), FieldsAre(10, 0.5)));
  EXPECT_FALSE(note_validation(best, {40, 0.4}, 3));
  EXPECT_FALSE(note_validation(best, {50, 0.5}, 3)) << "no better than what is kept already";
  EXPECT_TRUE(note_validation(best, {60, 0.6}, 3));
  EXPECT_THAT(best, ElementsAre(FieldsAre(20, 0.7), FieldsAre(30, 0.6), FieldsAre(60, 0.6)));
}

TEST(BestValidations, KeepOneOrNoneByTheLimit) {
  std::vector<Best> best;
  EXPECT_TRUE(note_validation(best, {10, 0.5}, 1));
  EXPECT_FALSE(note_validation(best, {20, 0.5}, 1));
  EXPECT_TRUE(note_validation(best, {30, 0.6}, 1));
  EXPECT_THAT(best, ElementsAre(FieldsAre(30, 0.6)));
  EXPECT_FALSE(note_validation(best, {40, 0.9}, 0));
  EXPECT_THAT(best, IsEmpty());
}

TEST(BestValidations, RoundTripThroughJson) {
  const std::vector<Best> best{{345, 0.75}, {12, 0.5}};
  EXPECT_EQ(best_to_json(best), R"([{"step":345,"metric":0.75},{"step":12,"metric":0.5}])");
  EXPECT_THAT(best_from_json(best_to_json(best)), ElementsAre(FieldsAre(345, 0.75), FieldsAre(12, 0.5)));
  for (const char* text : {"", "{}", "[1]", R"([{"step":1.5,"metric":1}])", R"([{"step":1,"metric":"high"}])"}) {
    EXPECT_THAT(best_from_json(text), IsEmpty()) << text;
  }
  const std::string forged = std::string(50'000, '[') + std::string(50'000, ']');  // a hundred bytes of memory for each
  EXPECT_THAT(best_from_json(R"([{"step":1,"metric":1},)" + forged + "]"), IsEmpty());
}

}  // namespace
}  // namespace rollcall::checkpoint::format
