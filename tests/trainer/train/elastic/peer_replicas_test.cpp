// Ranks replicate their parts of a state to peers; after some ranks are lost, the others recover the complete state.

#include "trainer/train/elastic/peer_replicas.h"

#include <gtest/gtest.h>
#include <algorithm>
#include <numeric>
#include <random>
#include <set>

#include "tests/support/multiproc.h"

namespace rollcall::train {
namespace {

using checkpoint::PartName;
using testing_support::all_succeeded;
using testing_support::Rank;
using testing_support::report;
using testing_support::spawn;

constexpr std::int64_t kRows = 11;  // no multiple of the ranks

JobContext world_with(const Rank& rank, process_group::Group group) {
  JobContext context;
  context.rank = rank.rank;
  context.world_size = process_group::world_size_of(group);
  context.process_group = std::move(group);
  return context;
}

/// The state of all ranks at a step: row by row another number.
at::Tensor state_at(std::int64_t step) {
  return torch::arange(kRows * 3, at::kFloat).reshape({kRows, 3}) + static_cast<double>(100 * step);
}

/// Gives this rank's rows of it.
Result<void> exchange_at(std::int64_t step, PeerReplicas& copies, const Rank& rank, const process_group::Group& group) {
  const at::Tensor whole = state_at(step);
  const std::int64_t first = kRows * rank.rank / rank.world_size;
  const std::int64_t end = kRows * (rank.rank + 1) / rank.world_size;
  const at::Tensor mine = whole.narrow(0, first, end - first);
  checkpoint::format::Content content;
  content.values["/copies/line_begins_at"] = std::int64_t{3};
  content.tensors.push_back({"/model/a",
                             "a",
                             checkpoint::format::DType::Float32,
                             {kRows, 3},
                             checkpoint::bytes_of(mine),
                             static_cast<std::uint64_t>(first * 12)});
  return copies.replicate({.generation = 4, .step = step, .owners = rank.world_size, .owner = rank.rank}, content,
                          {"node", rank.rank}, group);
}

/// Fills a whole tensor from what was found.
Result<at::Tensor> load_whole(FoundReplicas& found, const PeerReplicas& mine, const JobContext& context) {
  at::Tensor whole = torch::zeros({kRows, 3});
  const checkpoint::format::ReadRequest request{
      found.checkpoint.find("/model/a"), 0, {static_cast<std::byte*>(whole.mutable_data_ptr()), whole.nbytes()}};
  MULTIPROC_CHECK(found.checkpoint.read({&request, 1}, checkpoint::format::VerifyLevel::Full, 1).has_value());
  const Result<void> fetched = fetch_replicas(found, mine, context);
  return fetched ? Result<at::Tensor>(whole) : fetched.error();
}

/// Rank `forgets` of four is another process by now.
void survive(Rank& rank, const std::set<std::uint32_t>& forgets, bool found_again) {
  PeerReplicas copies;
  const auto group = rank.make_group();
  for (const std::int64_t step : {5, 10}) {
    MULTIPROC_CHECK(exchange_at(step, copies, rank, group).has_value());
    MULTIPROC_CHECK(copies.parts().size() == 2);
  }
  if (forgets.contains(rank.rank)) {
    copies = PeerReplicas();
  }
  const JobContext context = world_with(rank, rank.make_group());
  const Recovery recovery{.cause = copies.empty() ? "" : "a rank was lost"};
  auto found = find_replicas(copies, recovery, context);
  MULTIPROC_CHECK(found.has_value() && found->has_value() == found_again);
  if (found_again) {
    MULTIPROC_CHECK((*found)->name.step == 10 && (*found)->name.generation == 4 && (*found)->last_own_step == 3);
    MULTIPROC_CHECK((*found)->recovery.cause == "a rank was lost");
    const auto whole = load_whole(**found, copies, context);
    MULTIPROC_CHECK(whole.has_value() && torch::equal(*whole, state_at(10)));
  }
}

TEST(PeerReplicas, SurviveTheLossOfAnyOneOfFourRanks) {
  for (std::uint32_t lost = 0; lost < 4; ++lost) {
    const auto ranks = spawn(4, [lost](Rank& rank) { survive(rank, {lost}, true); });
    EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
  }
}

TEST(PeerReplicas, SurviveTheLossOfTwoRanksThatAreNoPeers) {
  for (const auto& [lost, found] : {std::pair(std::set<std::uint32_t>{0, 2}, true), {{1, 2}, false}, {{3, 0}, false}}) {
    const auto ranks = spawn(4, [lost = lost, found = found](Rank& rank) { survive(rank, lost, found); });
    EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
  }
}

TEST(PeerReplicas, OfAnIncompleteExchangeAreNotUsed) {
  const auto ranks = spawn(4, [](Rank& rank) {
    PeerReplicas copies;
    {
      const auto group = rank.make_group();
      MULTIPROC_CHECK(exchange_at(5, copies, rank, group).has_value());
      if (rank.rank == 3) {
        return;
      }
      const Result<void> failed = exchange_at(10, copies, rank, group);
      MULTIPROC_CHECK(!failed && failed.error().exit_code() == ExitCode::Unavailable);
    }
    const auto store = c10::make_intrusive<c10d::FileStore>(rank.folder / "of three", -1);
    const auto group = process_group::make_process_group(store, rank.rank, 3, {.backend = "gloo"});
    const JobContext context = world_with(rank, group->process_group);
    auto found = find_replicas(copies, {}, context);
    MULTIPROC_CHECK(found.has_value() && found->has_value() && (*found)->name.step == 5);
    const auto whole = load_whole(**found, copies, context);
    MULTIPROC_CHECK(whole.has_value() && torch::equal(*whole, state_at(5)));
    copies.keep_only((*found)->name);
    MULTIPROC_CHECK(copies.parts().size() == 2);
  });
  EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
}

/// Rank 1's own part, which rank 2 has too where it does not forget it.
void corrupt_a_part(Rank& rank, bool forgets) {
  PeerReplicas copies;
  const auto group = rank.make_group();
  MULTIPROC_CHECK(exchange_at(5, copies, rank, group).has_value());
  if (rank.rank == 1) {
    copies.find({.generation = 4, .step = 5, .owners = 3, .owner = 1})->memory[7].bitwise_xor_(1);
  }
  if (rank.rank == 2 && forgets) {
    copies = PeerReplicas();
  }
  const JobContext context = world_with(rank, group);
  auto found = find_replicas(copies, {}, context);
  MULTIPROC_CHECK(found.has_value() && found->has_value() == !forgets);
  if (!forgets) {
    MULTIPROC_CHECK((*found)->holders == (std::vector<std::uint32_t>{0, 2, 0}));
    MULTIPROC_CHECK(torch::equal(*load_whole(**found, copies, context), state_at(5)));
  }
}

TEST(PeerReplicas, CorruptedInMemoryAreNotUsed) {
  for (const bool forgets : {false, true}) {
    const auto ranks = spawn(3, [forgets](Rank& rank) { corrupt_a_part(rank, forgets); });
    EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
  }
}

TEST(PeerReplicas, CorruptedInTransferAreAnError) {
  const auto ranks = spawn(3, [](Rank& rank) {
    PeerReplicas copies;
    const auto group = rank.make_group();
    MULTIPROC_CHECK(exchange_at(5, copies, rank, group).has_value());
    const JobContext context = world_with(rank, group);
    auto found = find_replicas(copies, {}, context);
    MULTIPROC_CHECK(found.has_value() && found->has_value());
    const checkpoint::MemoryPart* const shown = copies.find((*found)->name);
    if (rank.rank == (*found)->holders[0]) {
      shown->data()[0].bitwise_xor_(1);
    }
    const auto whole = load_whole(**found, copies, context);
    MULTIPROC_CHECK(!whole && whole.error().kind == ErrorKind::BadData);
  });
  EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
}

TEST(PeerReplicas, OfManyPiecesArriveComplete) {
  const auto ranks = spawn(2, [](Rank& rank) {
    const std::int64_t rows = std::int64_t{17} << 20;  // float32: 68 MiB on rank 0, and less than a piece on rank 1
    const std::int64_t mine = rank.rank == 0 ? rows : 100;
    const at::Tensor whole = torch::arange(rows + 100, at::kInt);
    const at::Tensor part = whole.narrow(0, rank.rank == 0 ? 0 : rows, mine);
    checkpoint::format::Content content;
    content.tensors.push_back({"/model/a",
                               "a",
                               checkpoint::format::DType::Int32,
                               {rows + 100},
                               checkpoint::bytes_of(part),
                               static_cast<std::uint64_t>(rank.rank == 0 ? 0 : rows * 4)});
    PeerReplicas copies;
    const auto group = rank.make_group();
    const PartName name{.step = 1, .owners = 2, .owner = rank.rank};
    MULTIPROC_CHECK(copies.replicate(name, content, {"node", rank.rank}, group).has_value());
    if (rank.rank == 0) {
      copies = PeerReplicas();
    }
    const JobContext context = world_with(rank, group);
    auto found = find_replicas(copies, {}, context);
    MULTIPROC_CHECK(found.has_value() && found->has_value());
    at::Tensor got = torch::zeros_like(whole);
    const checkpoint::format::ReadRequest request{
        (*found)->checkpoint.find("/model/a"), 0, {static_cast<std::byte*>(got.mutable_data_ptr()), got.nbytes()}};
    MULTIPROC_CHECK((*found)->checkpoint.read({&request, 1}, checkpoint::format::VerifyLevel::Full, 1).has_value());
    MULTIPROC_CHECK(fetch_replicas(**found, copies, context).has_value());
    MULTIPROC_CHECK(torch::equal(got, whole));
  });
  EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
}

TEST(PeerReplicas, OfDifferentStepsAreAnErrorOnAllRanks) {
  const auto ranks = spawn(3, [](Rank& rank) {
    PeerReplicas copies;
    const auto group = rank.make_group();
    MULTIPROC_CHECK(exchange_at(5, copies, rank, group).has_value());
    const Result<void> other = exchange_at(rank.rank == 1 ? 7 : 8, copies, rank, group);
    MULTIPROC_CHECK(!other && other.error().kind == ErrorKind::Internal);
    MULTIPROC_CHECK(exchange_at(9, copies, rank, group).has_value() && copies.parts().size() == 2);
  });
  EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
}

TEST(PeerReplicas, OfTheSameStepTheLatestIsUsed) {
  const auto ranks = spawn(3, [](Rank& rank) {
    PeerReplicas copies;
    const auto group = rank.make_group();
    for (const int number : {0, 1, 2}) {
      checkpoint::format::Content content;
      content.values["/number"] = std::int64_t{number};
      const PartName name{.step = 5, .number = number, .owners = 3, .owner = rank.rank};
      MULTIPROC_CHECK(copies.replicate(name, content, {"node", rank.rank}, group).has_value());
      MULTIPROC_CHECK(copies.parts().size() == 2);
    }
    auto found = find_replicas(copies, {}, world_with(rank, group));
    MULTIPROC_CHECK(found.has_value() && found->has_value());
    MULTIPROC_CHECK(std::get<std::int64_t>((*found)->checkpoint.values()->at("/number")) == 2);
  });
  EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
}

TEST(PeerReplicas, OfASingleRankAreItsOwn) {
  const auto ranks = spawn(1, [](Rank& rank) {
    PeerReplicas copies;
    MULTIPROC_CHECK(exchange_at(5, copies, rank, nullptr).has_value());
    MULTIPROC_CHECK(exchange_at(6, copies, rank, nullptr).has_value());
    MULTIPROC_CHECK(copies.parts().size() == 1);
    auto found = find_replicas(copies, {}, world_with(rank, nullptr));
    MULTIPROC_CHECK(found.has_value() && found->has_value() && (*found)->name.step == 6);
    MULTIPROC_CHECK(torch::equal(*load_whole(**found, copies, world_with(rank, nullptr)), state_at(6)));
  });
  EXPECT_TRUE(all_succeeded(ranks)) << report(ranks);
}

/// Ranks in the order in which Slurm and `rollcall run` number them: node by node.
std::vector<RankLocation> places(const std::vector<std::uint32_t>& ranks_of_nodes) {
  std::vector<RankLocation> all;
  for (std::size_t node = 0; node < ranks_of_nodes.size(); ++node) {
    for (std::uint32_t local = 0; local < ranks_of_nodes[node]; ++local) {
      all.push_back({"node" + std::to_string(node), local});
    }
  }
  return all;
}

TEST(ReplicaPeers, AreOnOtherNodesAndDistinct) {
  for (const std::uint32_t nodes : {2U, 3U, 7U}) {
    for (const std::uint32_t each : {1U, 2U, 4U}) {
      const auto all = places(std::vector<std::uint32_t>(nodes, each));
      const auto of_rank = replica_peers(all);
      EXPECT_EQ(std::set(of_rank.begin(), of_rank.end()).size(), all.size());
      for (std::uint32_t rank = 0; rank < all.size(); ++rank) {
        EXPECT_NE(all[rank].host, all[of_rank[rank]].host) << nodes << " nodes of " << each << ", rank " << rank;
      }
    }
  }
}

TEST(ReplicaPeers, AreOnOtherNodesEvenIfNodesHaveUnequalRanks) {
  const auto all = places({3, 2, 3});
  const auto of_rank = replica_peers(all);
  EXPECT_EQ(std::set(of_rank.begin(), of_rank.end()).size(), all.size());
  for (std::uint32_t rank = 0; rank < all.size(); ++rank) {
    EXPECT_NE(of_rank[rank], rank);
    EXPECT_NE(all[rank].host, all[of_rank[rank]].host) << rank;
  }
}

TEST(ReplicaPeers, OfASingleRankIsItself) { EXPECT_EQ(replica_peers(places({1})), std::vector<std::uint32_t>{0}); }

}  // namespace
}  // namespace rollcall::train
