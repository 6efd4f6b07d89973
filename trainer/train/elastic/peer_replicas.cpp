#include "trainer/train/elastic/peer_replicas.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "trainer/distributed/errors/exceptions.h"
#include "trainer/libtorch_version.h"
#include "trainer/storage/crc.h"
#include "trainer/train/elastic/handover.h"
#include "trainer/train/object_collectives.h"

namespace rollcall::train {
namespace {

using checkpoint::bytes_of;
using checkpoint::MemoryPart;
using checkpoint::PartName;
using Json = nlohmann::json;
using Bytes = std::vector<std::uint8_t>;

constexpr std::int64_t kPieceBytes = std::int64_t{64} << 20;

Json to_json(const PartName& name) { return {name.generation, name.step, name.number, name.owners, name.owner}; }

PartName name_of(const Json& json) {
  return {.generation = json.at(0).get<std::int64_t>(),
          .step = json.at(1).get<std::int64_t>(),
          .number = json.at(2).get<std::int64_t>(),
          .owners = json.at(3).get<std::uint32_t>(),
          .owner = json.at(4).get<std::uint32_t>()};
}

/// Runs `work`, which allocates memory.
Result<void> with_memory(const std::function<void()>& work) {
  const auto caught = process_group::catch_exception(work);
  if (!caught) {
    return {};
  }
  return fail("--replicate-to", "neighbour", caught->error.reason,
              "requesting more memory for each task (--mem-per-cpu), or leaving it out", ErrorKind::Unavailable);
}

/// Sends `mine` to rank `to` and receives `theirs` from rank `from`, in pieces, because an abandoned collective may
/// hold its piece for long. `most`: bytes of the longest part of any rank. Collective.
Result<void> pass_on(const at::Tensor& mine, std::uint32_t to, at::Tensor& theirs, std::uint32_t from,
                     std::int64_t most, const process_group::Group& group) {
  Result<void> passed;
  for (std::int64_t begin = 0; passed && begin < most; begin += kPieceBytes) {
    const auto rest = [&](const at::Tensor& all) {
      return std::clamp<std::int64_t>(all.numel() - begin, 0, kPieceBytes);
    };
    std::vector<std::int64_t> given(process_group::world_size_of(group));
    std::vector<std::int64_t> got = given;
    given[to] = rest(mine);
    got[from] = rest(theirs);
    passed = process_group::guard_collective(group, [&] {
      at::Tensor sent = mine.narrow(0, std::min(begin, mine.numel()), given[to]).clone();
      at::Tensor arrived = torch::empty({got[from]}, at::kByte);
      group->all_to_all_single(arrived, sent, got, given, process_group::awaited<c10d::AllToAllOptions>())->wait();
      theirs.narrow(0, std::min(begin, theirs.numel()), got[from]).copy_(arrived);
    });
  }
  return passed;
}

PartName owned_by(PartName name, std::uint32_t owner) {
  name.owner = owner;
  return name;
}

void drop_others(std::vector<MemoryPart>& parts, const std::optional<PartName>& kept) {
  std::erase_if(parts, [&](const MemoryPart& part) { return owned_by(part.name, 0) != kept; });
}

/// Exchanges what each rank will send, and where it is; by rank. Errors (Internal): not all are of one checkpoint.
Result<std::vector<Json>> introduce(const MemoryPart& mine, const RankLocation& place,
                                    const process_group::Group& group) {
  const Json checkpoint = to_json(owned_by(mine.name, 0));
  Result<std::vector<Json>> received = all_gather_json(group, {{"checkpoint", checkpoint},
                                                               {"host", place.host},
                                                               {"local_rank", place.local_rank},
                                                               {"bytes", mine.memory.numel()},
                                                               {"table", mine.table_bytes},
                                                               {"crc32c", mine.crc32c}});

  if (received &&
      std::ranges::any_of(*received, [&](const Json& rank) { return rank.at("checkpoint") != checkpoint; })) {
    return fail("--replicate-to", "neighbour", "the ranks replicate the states of different steps", "reporting this",
                ErrorKind::Internal);
  }
  return received;
}

/// Sends `mine` to this rank's peer and returns the part that it receives. Collective.
Result<MemoryPart> part_of_giver(const MemoryPart& mine, const RankLocation& place, const process_group::Group& group) {
  ASSIGN_OR_RETURN(const std::vector<Json> received, introduce(mine, place, group));
  std::vector<RankLocation> places;
  std::int64_t most = 0;
  for (const Json& rank : received) {
    places.push_back({rank.at("host").get<std::string>(), rank.at("local_rank").get<std::uint32_t>()});
    most = std::max(most, rank.at("bytes").get<std::int64_t>());
  }
  const std::vector<std::uint32_t> gives_to = replica_peers(places);
  const std::uint32_t to = gives_to[process_group::rank_of(group)];
  const auto from =
      static_cast<std::uint32_t>(std::ranges::find(gives_to, process_group::rank_of(group)) - gives_to.begin());
  const Json& giver = received[from];
  MemoryPart theirs{.name = owned_by(mine.name, from),
                    .memory = {},
                    .table_bytes = giver.at("table").get<std::size_t>(),
                    .crc32c = giver.at("crc32c").get<std::uint32_t>()};
  const Result<void> allocated =
      with_memory([&] { theirs.memory = torch::empty({giver.at("bytes").get<std::int64_t>()}, at::kByte); });
  Result<void> all = process_group::agree_or_fail(group, allocated);
  all = all ? pass_on(mine.memory, to, theirs.memory, from, most, group) : all;
  if (!all) {
    return all.error();
  }
  if (!theirs.is_sound()) {
    return fail("--replicate-to", "neighbour", fmt::format("the part of rank {} was changed on its way", from),
                "checking this node's memory and network", ErrorKind::InputOutput);
  }
  return theirs;
}

}  // namespace

std::vector<std::uint32_t> replica_peers(const std::vector<RankLocation>& places) {
  // A ring through the first ranks of all nodes, then through their second ranks, and so on.
  std::vector<std::uint32_t> circle(places.size());
  std::iota(circle.begin(), circle.end(), 0U);
  std::ranges::stable_sort(circle, {}, [&](std::uint32_t rank) {
    return std::pair<std::uint32_t, std::string_view>(places[rank].local_rank, places[rank].host);
  });
  std::vector<std::uint32_t> of_rank(places.size());
  for (std::size_t i = 0; i < circle.size(); ++i) {
    of_rank[circle[i]] = circle[(i + 1) % circle.size()];
  }
  return of_rank;
}

Result<void> PeerReplicas::replicate(const PartName& name, const checkpoint::format::Content& content,
                                     const RankLocation& place, const process_group::Group& group) {
  Result<void> all;
  const Result<void> went =  // other exceptions: a rank sent unreadable data, or there is no memory for it
      with_memory([&] { all = replicate_parts(name, content, place, group); });
  return went ? all : went;
}

Result<void> PeerReplicas::replicate_parts(const PartName& name, const checkpoint::format::Content& content,
                                           const RankLocation& place, const process_group::Group& group) {
  drop_others(parts_, whole_);  // left by a replication that failed
  MemoryPart mine;
  const Result<void> made = with_memory([&] { mine = checkpoint::make_part(name, content); });
  Result<void> all = process_group::agree_or_fail(group, made);
  if (all && process_group::world_size_of(group) > 1) {
    Result<MemoryPart> theirs = part_of_giver(mine, place, group);
    all = process_group::agree_or_fail(group, theirs ? Result<void>() : theirs.error());
    if (theirs) {  // also if a peer is lost: other ranks may have all other parts
      parts_.push_back(*std::move(theirs));
      parts_.push_back(std::move(mine));
    }
  } else if (all) {
    parts_.push_back(std::move(mine));
  }
  if (all) {
    keep_only(owned_by(name, 0));
  }
  return all;
}

void PeerReplicas::keep_only(const PartName& name) {
  whole_ = name;
  drop_others(parts_, whole_);
}

const MemoryPart* PeerReplicas::find(const PartName& name) const {
  const auto found = std::ranges::find(parts_, name, &MemoryPart::name);
  return found == parts_.end() ? nullptr : &*found;
}

namespace {

/// By owner: the first rank that holds its part.
using Holders = std::map<std::uint32_t, std::uint32_t>;

/// Returns the newest checkpoint whose parts are all present, as the name of owner 0's part, and their holders.
std::optional<std::pair<PartName, Holders>> newest_whole(const std::vector<Json>& received) {
  std::map<PartName, Holders> checkpoints;
  for (std::uint32_t rank = 0; rank < received.size(); ++rank) {
    for (const Json& held : received[rank].at("parts")) {
      PartName name = name_of(held);
      const std::uint32_t owner = std::exchange(name.owner, 0U);
      checkpoints[name].emplace(owner, rank);
    }
  }
  for (auto newest = checkpoints.rbegin(); newest != checkpoints.rend(); ++newest) {  // NOLINT(modernize-loop-convert)
    if (newest->second.size() == newest->first.owners) {
      return *newest;
    }
  }
  return std::nullopt;
}

}  // namespace

Result<std::optional<FoundReplicas>> find_replicas(const PeerReplicas& mine, const Recovery& recovery,
                                                   const JobContext& context) {
  Json names = Json::array();
  for (const MemoryPart& part : mine.parts()) {
    if (part.is_sound()) {
      names.push_back(to_json(part.name));
    }
  }
  const bool lived_on = !recovery.cause.empty();
  ASSIGN_OR_RETURN(const std::vector<Json> held,
                   all_gather_json(context.process_group,
                                   {{"parts", std::move(names)}, {"recovery", lived_on ? to_json(recovery) : Json()}}));
  const auto newest = newest_whole(held);
  if (!newest) {
    return std::optional<FoundReplicas>();
  }
  Json tables = Json::object();  // of the parts that this rank sends
  for (const auto& [owner, holder] : newest->second) {
    if (holder == context.rank) {
      const MemoryPart& part = *mine.find(owned_by(newest->first, owner));
      tables[std::to_string(owner)] = {Json::binary({part.table().begin(), part.table().end()}), part.crc32c,
                                       part.data().numel()};
    }
  }
  ASSIGN_OR_RETURN(const std::vector<Json> received, all_gather_json(context.process_group, tables));
  std::vector<std::uint32_t> holders;
  std::vector<std::uint32_t> checksums;
  std::vector<std::uint32_t> of_tables;
  std::vector<std::uint64_t> sizes;
  std::vector<Bytes> of_owners;
  for (const auto& [owner, holder] : newest->second) {
    const Json& part = received[holder].at(std::to_string(owner));
    holders.push_back(holder);
    of_owners.push_back(part.at(0).get_binary());
    sizes.push_back(part.at(2).get<std::uint64_t>());
    checksums.push_back(part.at(1).get<std::uint32_t>());
    of_tables.push_back(storage::crc32c(std::as_bytes(std::span(of_owners.back()))));
  }
  auto checkpoint = checkpoint::MemoryCheckpoint::of(
      fmt::format("the memory of {} of {} ranks",
                  std::ranges::count_if(received, [](const Json& of) { return !of.empty(); }), newest->first.owners),
      of_owners);
  if (!checkpoint) {
    return checkpoint.error();
  }
  for (std::uint32_t owner = 0; owner < sizes.size(); ++owner) {
    if (checkpoint->part_bytes(owner) != sizes[owner]) {
      return fail("checkpoint", checkpoint->path(),
                  fmt::format("the part of rank {} does not have the size that its table says", owner),
                  "reporting this", ErrorKind::Internal);
    }
  }
  FoundReplicas found{
      newest->first, std::move(holders), std::move(checksums), std::move(of_tables), *std::move(checkpoint), -1, {}};
  const auto values = found.checkpoint.values();
  if (const auto line = values->find(kLastOwnStep); line != values->end()) {
    found.last_own_step = std::get<std::int64_t>(line->second);
  }
  const auto first = std::ranges::find_if(held, [](const Json& rank) { return !rank.at("recovery").is_null(); });
  if (first != held.end()) {
    found.recovery = recovery_of(first->at("recovery"));
  }
  return std::optional(std::move(found));
}

Result<void> fetch_replicas(FoundReplicas& found, const PeerReplicas& mine, const JobContext& context) {
  at::Tensor arrived;
  const Result<void> allocated = with_memory([&] { arrived = torch::empty({kPieceBytes}, at::kByte); });
  RETURN_IF_ERROR(process_group::agree_or_fail(context.process_group, allocated));
  Result<void> fetched;
  for (std::uint32_t owner = 0; owner < found.holders.size(); ++owner) {
    const bool shows = found.holders[owner] == context.rank;
    const at::Tensor own = shows ? mine.find(owned_by(found.name, owner))->data() : at::Tensor();
    const auto total = static_cast<std::int64_t>(found.checkpoint.part_bytes(owner));
    std::uint32_t checksum = found.of_table[owner];
    for (std::int64_t begin = 0; begin < total; begin += kPieceBytes) {
      const std::int64_t bytes = std::min(kPieceBytes, total - begin);
      at::Tensor piece = shows ? own.narrow(0, begin, bytes) : arrived.narrow(0, 0, bytes);
      RETURN_IF_ERROR(process_group::broadcast(context.process_group, piece, found.holders[owner]));
      checksum = storage::crc32c(bytes_of(piece), checksum);
      found.checkpoint.take(owner, static_cast<std::uint64_t>(begin), bytes_of(piece));
    }
    if (checksum != found.crc32c[owner] && fetched) {  // the other ranks continue with the next part
      fetched = fail(
          "checkpoint", found.checkpoint.path(),
          fmt::format("the part of rank {}, which rank {} sent, was changed on its way", owner, found.holders[owner]),
          "submitting again to resume from the newest checkpoint, and checking this node's memory and network",
          ErrorKind::BadData);
    }
  }
  if (fetched && found.checkpoint.missing() != 0) {
    fetched = fail("checkpoint", found.checkpoint.path(),
                   fmt::format("{} bytes of it are in no rank's part", found.checkpoint.missing()), "reporting this",
                   ErrorKind::Internal);
  }
  return fetched;
}

}  // namespace rollcall::train
