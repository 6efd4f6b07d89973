#include "trainer/train/data/shared_data.h"

#include <fmt/format.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <future>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "runtime/base/text.h"
#include "trainer/data/sources/sample_index.h"
#include "trainer/data/sources/source_indices.h"
#include "trainer/distributed/process_group/collectives.h"
#include "trainer/train/object_collectives.h"
#include "trainer/train/resume/same_training.h"

namespace rollcall::train {
namespace {

using data::SampleIndex;
using data::SourceIndices;
using storage::SharedMemory;

/// Returns the host name of each rank, by rank.
Result<std::vector<std::string>> hosts_of_ranks(const JobContext& context) {
  ASSIGN_OR_RETURN(const std::vector<nlohmann::json> hosts, all_gather_json(context.process_group, context.host));
  return std::vector<std::string>(hosts.begin(), hosts.end());
}

/// Checks that all ranks have opened the same data, since each may have found other files under its path. Collective.
/// Errors: Mismatch, the same on all ranks: names the first rank whose data differs from rank 0's; Unavailable: a peer
/// was lost.
Result<void> confirm_equal_data(const JobContext& context, const data::Datasets& mine, const std::string& given) {
  const auto numbers = [](const checkpoint::DataSet& set) {
    return nlohmann::json{set.images, set.class_names, set.labels, set.picture_names, set.parts};
  };
  const auto data_set = [](const nlohmann::json& received) -> checkpoint::DataSet {
    return {received.at(0), received.at(1), received.at(2), received.at(3), received.at(4)};
  };
  const checkpoint::DataParts parts = data_of(mine);
  ASSIGN_OR_RETURN(const std::vector<nlohmann::json> all,
                   all_gather_json(context.process_group, {numbers(parts.train), numbers(parts.valid)}));
  const auto parts_of = [&](std::size_t rank) -> checkpoint::DataParts {
    return {data_set(all[rank].at(0)), data_set(all[rank].at(1))};
  };
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    if (const std::string what = difference_of(parts_of(rank), parts_of(0)); !what.empty()) {
      ASSIGN_OR_RETURN(const std::vector<std::string> hosts, hosts_of_ranks(context));  // all ranks reach this
      return fail("--data", given, fmt::format("rank {} on {} has other data than rank 0: {}", rank, hosts[rank], what),
                  "providing the same data on all nodes", ErrorKind::Mismatch);
    }
  }
  return {};
}

/// Returns for each rank the first rank on its host.
Result<std::vector<std::uint32_t>> first_ranks_of_hosts(const JobContext& context) {
  ASSIGN_OR_RETURN(const std::vector<std::string> hosts, hosts_of_ranks(context));
  std::vector<std::uint32_t> firsts;
  firsts.reserve(hosts.size());
  for (const std::string& host : hosts) {
    firsts.push_back(static_cast<std::uint32_t>(std::find(hosts.begin(), hosts.end(), host) - hosts.begin()));
  }
  return firsts;
}

/// Rank 0 reads the data in a separate thread while all ranks wait in short collectives, because reading may take
/// longer than a collective's timeout and the death of a rank must be noticed. The thread is abandoned if the file
/// system does not respond then: it owns what it uses.
class FirstLook {
 public:
  FirstLook(const config::DataConfig& config, const JobContext& context, std::shared_ptr<SourceIndices> indices)
      : config_(config), context_(context), indices_(std::move(indices)) {}

  /// Returns rank 0's data sets; on other ranks empty ones, once rank 0 has its own.
  Result<data::Datasets> run() {
    std::future<Result<data::Datasets>> looking;
    if (context_.rank == 0) {
      looking = begin();
    }
    std::int64_t done = 0;
    while (done == 0) {
      const auto ready = [&] { return looking.wait_for(std::chrono::seconds(1)) == std::future_status::ready; };
      done = context_.rank == 0 && ready() ? 1 : 0;
      tell_progress();
      const auto received = broadcast_numbers(context_.process_group, {done});
      if (!received) {
        indices_->stop = true;
        return received.error();
      }
      done = received->front();
    }
    Result<data::Datasets> datasets = context_.rank == 0 ? looking.get() : Result<data::Datasets>(data::Datasets{});
    const Result<void> agreed = everywhere(context_.process_group, datasets);
    return agreed ? std::move(datasets) : Result<data::Datasets>(agreed.error());
  }

 private:
  [[nodiscard]] std::future<Result<data::Datasets>> begin() const {
    std::packaged_task<Result<data::Datasets>()> task(
        [options = config_.datasets, indices = indices_] { return data::make_datasets(options, *indices); });
    std::future<Result<data::Datasets>> looking = task.get_future();
    std::thread(std::move(task)).detach();
    return looking;
  }

  void tell_progress() {
    seconds_ += 1;
    if (context_.rank == 0 && seconds_ % 10 == 0) {
      fmt::print("indexing {}: {} so far\n", config_.given, counted(indices_->found.load(), "image"));
      std::fflush(stdout);
    }
  }

  const config::DataConfig& config_;
  const JobContext& context_;
  std::shared_ptr<SourceIndices> indices_;
  int seconds_ = 0;
};

/// Sends one index from rank 0 to every rank.
class Sending {
 public:
  Sending(const JobContext& context, std::vector<std::uint32_t> firsts, const SampleIndex* index)
      : context_(context), firsts_(std::move(firsts)), index_(index) {}

  /// Errors (Unavailable): a peer was lost; on this rank: no memory.
  Result<SampleIndex> run() {
    const std::size_t bytes = index_ != nullptr ? index_->memory().bytes().size() : 0;
    ASSIGN_OR_RETURN(const auto size, broadcast_numbers(context_.process_group, {static_cast<std::int64_t>(bytes)}));
    size_ = static_cast<std::size_t>(size.front());
    const bool other_hosts = std::any_of(firsts_.begin(), firsts_.end(), [](std::uint32_t rank) { return rank != 0; });
    RETURN_IF_ERROR(other_hosts ? send_to(is_first()) : Result<void>());
    RETURN_IF_ERROR(share());
    ASSIGN_OR_RETURN(const bool some_lack, any(index() == nullptr));
    RETURN_IF_ERROR(some_lack ? send_to(index() == nullptr) : Result<void>());
    return index() != nullptr ? Result<SampleIndex>(*index()) : Result<SampleIndex>(no_memory());
  }

 private:
  [[nodiscard]] bool is_first() const { return firsts_[context_.rank] == context_.rank; }
  [[nodiscard]] const SampleIndex* index() const { return received_ ? &*received_ : index_; }

  /// Sends the index in pieces through all ranks; ranks that `keep` it hold it afterwards.
  Result<void> send_to(bool keep) {
    constexpr std::size_t kPiece = std::size_t{16} << 20;
    std::optional<SharedMemory> memory = keep && index() == nullptr ? SharedMemory::make(size_) : std::nullopt;
    at::Tensor piece = torch::empty({static_cast<std::int64_t>(std::min(kPiece, size_))}, at::kByte);
    for (std::size_t begin = 0; begin < size_; begin += kPiece) {
      const std::size_t bytes = std::min(kPiece, size_ - begin);
      if (context_.rank == 0) {
        std::memcpy(piece.data_ptr(), index_->memory().bytes().data() + begin, bytes);
      }
      RETURN_IF_ERROR(process_group::broadcast(context_.process_group, piece));
      if (memory) {
        std::memcpy(memory->writable().data() + begin, piece.data_ptr(), bytes);
      }
    }
    if (memory) {
      received_ = SampleIndex::from(*std::move(memory));
    }
    return {};
  }

  /// The first rank of a host passes the location of the index to the other ranks of the host.
  Result<void> share() {
    const SampleIndex* const mine = is_first() ? index() : nullptr;
    const std::vector<int> own{mine != nullptr ? ::getpid() : -1, mine != nullptr ? mine->memory().descriptor() : -1};
    ASSIGN_OR_RETURN(const auto places, all_gather_json(context_.process_group, own));
    const auto place = places[firsts_[context_.rank]].get<std::vector<int>>();
    if (index() == nullptr && place[1] >= 0) {
      auto memory = SharedMemory::map_from_process(place[0], place[1]);
      if (memory && memory->bytes().size() == size_) {
        received_ = SampleIndex::from(*std::move(memory));
      }
    }
    return process_group::barrier(
        context_.process_group);  // the descriptors stay open until all ranks have mapped them
  }

  Result<bool> any(bool mine) {
    at::Tensor sum = torch::tensor({mine ? 1 : 0}, at::kInt);
    const Result<void> added = process_group::all_reduce_sum(context_.process_group, sum);
    return added ? Result<bool>(sum.item<int>() > 0) : Result<bool>(added.error());
  }

  [[nodiscard]] Error no_memory() const {
    return fail("--data", "", fmt::format("there is no memory for its index of {} bytes", size_),
                "requesting more memory for each task (--mem-per-cpu)", ErrorKind::Unavailable);
  }

  const JobContext& context_;
  const std::vector<std::uint32_t> firsts_;
  const SampleIndex* index_;  ///< rank 0's
  std::optional<SampleIndex> received_;
  std::size_t size_ = 0;
};

/// Gives rank 0's `indices` to all ranks.
Result<void> send_indices(const JobContext& context, SourceIndices& indices) {
  ASSIGN_OR_RETURN(const std::vector<std::uint32_t> firsts, first_ranks_of_hosts(context));
  ASSIGN_OR_RETURN(const auto count,
                   broadcast_numbers(context.process_group, {static_cast<std::int64_t>(indices.all().size())}));
  auto mine = indices.all().begin();
  for (std::int64_t i = 0; i < count.front(); ++i) {
    Result<SampleIndex> index = Sending(context, firsts, context.rank == 0 ? &(mine++)->second : nullptr).run();
    RETURN_IF_ERROR(everywhere(context.process_group, index));
    indices.receive(*index);
  }
  return {};
}

/// Collective. Errors (Unavailable): a peer was lost.
Result<bool> all_have_the_same(const std::optional<data::Datasets>& ready, const config::DataConfig& config,
                               const JobContext& context) {
  at::Tensor lacking = torch::tensor({ready ? 0 : 1}, at::kInt);
  RETURN_IF_ERROR(process_group::all_reduce_sum(context.process_group, lacking));
  if (lacking.item<int>() > 0) {
    return false;
  }
  const Result<void> equal = confirm_equal_data(context, *ready, config.given);
  const bool lost = !equal && process_group::is_peer_failure(equal.error());
  return lost ? equal.error() : Result<bool>(equal.has_value());
}

}  // namespace

Result<data::Datasets> open_shared_data(const config::DataConfig& config, const JobContext& context,
                                        std::vector<std::string>& warnings, std::optional<data::Datasets> ready) {
  const Result<bool> all_ready = all_have_the_same(ready, config, context);
  if (!all_ready || *all_ready) {
    return all_ready ? Result<data::Datasets>(*std::move(ready)) : all_ready.error();
  }
  const auto shared = std::make_shared<SourceIndices>(config.index_folder);
  SourceIndices& indices = *shared;
  Result<data::Datasets> first = FirstLook(config, context, shared).run();
  if (!first || context.world_size == 1) {
    warnings.insert(warnings.end(), indices.warnings().begin(), indices.warnings().end());
    return first;
  }
  RETURN_IF_ERROR(send_indices(context, indices));
  warnings.insert(warnings.end(), indices.warnings().begin(), indices.warnings().end());
  Result<data::Datasets> mine = context.rank == 0 ? std::move(first) : data::make_datasets(config.datasets, indices);
  RETURN_IF_ERROR(everywhere(context.process_group, mine));
  const Result<void> equal = confirm_equal_data(context, *mine, config.given);
  return equal ? std::move(mine) : Result<data::Datasets>(equal.error());
}

}  // namespace rollcall::train
