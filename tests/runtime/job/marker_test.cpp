#include "runtime/job/marker.h"

#include <gtest/gtest.h>

namespace rollcall::job {
namespace {

TEST(Marker, HashIsFnv1aOf32Bits) {  // test vectors of RFC 9923
  EXPECT_EQ(fnv1a(""), 0x811c9dc5U);
  EXPECT_EQ(fnv1a("a"), 0xe40c292cU);
  EXPECT_EQ(fnv1a("foobar"), 0xbf9cf968U);
}

TEST(Marker, SurvivesARoundTripThroughText) {
  const Marker marker{{"MASTER_ADDR", 0xdeadbeefU}, {"RANK", 1U}};
  EXPECT_EQ(to_text(marker), "MASTER_ADDR:deadbeef,RANK:00000001");
  EXPECT_EQ(parse_marker(to_text(marker)), marker);
  EXPECT_TRUE(parse_marker("").empty());
}

TEST(Marker, SkipsDamagedParts) {
  const Marker marker = parse_marker("RANK,:00000001,A:123,B:0000000g,C:00000002,D:+0000003,,E:00000004");
  EXPECT_EQ(marker, (Marker{{"C", 2U}, {"E", 4U}}));
}

TEST(Marker, ValueIsTheUsersUnlessItIsMarkedAndUnchanged) {
  Environment environment;
  environment.set("ROLLCALL_SET", to_text({{"RANK", fnv1a("3")}, {"MASTER_PORT", fnv1a("20000")}}));
  environment.set("RANK", "3");
  environment.set("MASTER_PORT", "20001");
  environment.set("WORLD_SIZE", "4");
  environment.set("LOCAL_RANK", "");
  EXPECT_EQ(set_by_user(environment, "RANK"), std::nullopt);
  EXPECT_EQ(set_by_user(environment, "MASTER_PORT"), "20001");
  EXPECT_EQ(set_by_user(environment, "WORLD_SIZE"), "4");
  EXPECT_EQ(set_by_user(environment, "LOCAL_RANK"), std::nullopt);
  EXPECT_EQ(set_by_user(environment, "MASTER_ADDR"), std::nullopt);
}

TEST(Marker, ListsVariablesLeftByAnotherStep) {
  Environment environment;
  EXPECT_TRUE(marked_values(environment).empty());
  environment.set("RANK", "1");
  environment.set("WORLD_SIZE", "4");
  environment.set("ROLLCALL_STEP", "7.0");
  environment.set("ROLLCALL_SET", to_text({{"RANK", fnv1a("1")}, {"WORLD_SIZE", fnv1a("2")}, {"TORCH_HOME", 5}}));
  EXPECT_EQ(marked_values(environment), (std::vector<std::string>{"RANK", "ROLLCALL_STEP", "ROLLCALL_SET"}));
}

}  // namespace
}  // namespace rollcall::job
