#include "trainer/distributed/fsdp/shard_layout.h"

#include <gtest/gtest.h>

#include "trainer/torch.h"

namespace rollcall::parallel::fsdp {
namespace {

Member member(const std::string& name, std::vector<std::int64_t> sizes, bool trainable = true) {
  return {.name = name, .tensor = torch::zeros(sizes).requires_grad_(trainable)};
}

std::string names_of(const std::vector<Member>& members) {
  std::string names;
  for (const Member& one : members) {
    names += one.name;
  }
  return names;
}

TEST(FsdpCoalescing, LargeEvenlyDividedParametersAreSentAlone) {
  const Options options{.alone_from_bytes = 64};
  EXPECT_TRUE(travels_alone(member("a", {4, 8}), 2, options)) << "64 bytes a rank";
  EXPECT_FALSE(travels_alone(member("a", {4, 7}), 2, options)) << "56 bytes a rank";
  EXPECT_FALSE(travels_alone(member("a", {4, 8}), 4, options)) << "32 bytes a rank";
  EXPECT_FALSE(travels_alone(member("a", {5, 64}), 2, options)) << "3 rows and 2";
  EXPECT_TRUE(travels_alone(member("a", {5, 64}), 1, options));
  const Options small_shards{.after_forward = AfterForward::SmallShard, .alone_from_bytes = 64};
  EXPECT_FALSE(travels_alone(member("a", {4, 8}), 2, small_shards));
}

TEST(FsdpCoalescing, SortsCoalescedParametersTogetherAndTrainableOnesFirst) {
  const Options options{.alone_from_bytes = 16};
  std::vector<Member> members{member("a", {3}),        member("B", {64}, false), member("C", {64}),
                              member("d", {1}, false), member("e", {5}),         member("F", {64})};
  sort_for_coalescing(members, 2, options);
  EXPECT_EQ(names_of(members), "CFaedB");
  const std::vector<Coalesced> messages = coalesce(members, 2, options);
  ASSERT_EQ(messages.size(), 4U);
  const std::vector<std::size_t> firsts{0, 1, 2, 5};
  for (std::size_t i = 0; i < messages.size(); ++i) {
    EXPECT_EQ(messages[i].first, firsts[i]);
    EXPECT_EQ(messages[i].count, i == 2 ? 3U : 1U);
    EXPECT_EQ(messages[i].in_place, i != 2);
  }
}

TEST(FsdpCoalescing, GivesNoMessagesForNoParameters) { EXPECT_TRUE(coalesce({}, 2, {}).empty()); }

TEST(SameLayout, IgnoresStridesOfDimensionsWithOneElement) {
  const at::Tensor contiguous = torch::zeros({2, 3, 2, 2});
  const at::Tensor channels_last = contiguous.contiguous(at::MemoryFormat::ChannelsLast);
  EXPECT_TRUE(same_layout(contiguous, contiguous.clone()));
  EXPECT_TRUE(same_layout(channels_last, channels_last.clone()));
  EXPECT_FALSE(same_layout(contiguous, channels_last));
  EXPECT_FALSE(same_layout(torch::zeros({2, 3}), torch::zeros({3, 2}).t()));
  // Where a dimension has one element its stride says nothing: a 1x1 convolution's weight is the same either way.
  const at::Tensor one_by_one = torch::zeros({8, 4, 1, 1});
  EXPECT_TRUE(same_layout(one_by_one, one_by_one.contiguous(at::MemoryFormat::ChannelsLast)));
}

}  // namespace
}  // namespace rollcall::parallel::fsdp
