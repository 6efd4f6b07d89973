#include "trainer/train/same_data.h"

#include <fmt/format.h>
#include <algorithm>
#include <cstring>
#include <type_traits>

#include "trainer/distributed/process_group/collectives.h"

namespace rollcall::train {
namespace {

using data::DataIdentity;
using Bytes = std::vector<std::uint8_t>;

/// What is different, or an empty text. A number below 0 is one that a source does not tell.
std::string difference_of(const checkpoint::DataSet& one, const checkpoint::DataSet& other) {
  const auto differ = [](std::int64_t a, std::int64_t b) { return a >= 0 && b >= 0 && a != b; };
  if (differ(one.class_names, other.class_names)) {
    return "the names of the classes";
  }
  if (differ(one.labels, other.labels)) {
    return "the labels of the images";
  }
  return differ(one.picture_names, other.picture_names) ? "the names of the images" : "";
}

checkpoint::DataSet kept_of(const DataIdentity& identity) {
  return {.images = identity.images,
          .class_names = identity.class_names,
          .labels = identity.labels,
          .picture_names = identity.picture_names};
}

/// As ranks compare them.
struct Parts {
  checkpoint::DataSet train;
  checkpoint::DataSet valid;
};

std::string difference_of(const Parts& one, const Parts& other) {
  for (const auto part : {&Parts::train, &Parts::valid}) {
    if ((one.*part).images != (other.*part).images) {
      return fmt::format("{} images for {}, not {}", (one.*part).images,
                         part == &Parts::train ? "training" : "validation", (other.*part).images);
    }
  }
  const std::string train = difference_of(one.train, other.train);
  const std::string what = train.empty() ? difference_of(one.valid, other.valid) : train;
  return what.empty() ? "" : "as many images, but " + what + " are others";
}

Result<std::string> host_of(const World& world, std::size_t rank) {
  const Result<std::vector<Bytes>> hosts =
      process_group::all_gather_bytes(world.process_group, Bytes(world.host.begin(), world.host.end()));
  if (!hosts) {
    return hosts.error();
  }
  return std::string((*hosts)[rank].begin(), (*hosts)[rank].end());
}

}  // namespace

checkpoint::DataSet data_set_of(const data::Datasets& datasets) { return kept_of(datasets.identity); }

Result<void> check_same_data(const checkpoint::DataSet& then, const data::Datasets& now, const std::string& given,
                             OtherData other, std::vector<std::string>& warnings) {
  const checkpoint::DataSet mine = data_set_of(now);
  constexpr const char* kAction =
      "the data set of before, or another --run-name or --checkpoint-dir, with --init-from=FILE to begin with what was "
      "trained";
  if (then.images == 0) {
    warnings.push_back(
        fmt::format("--data: {}: the checkpoint is of an earlier version, which does not say what images its training "
                    "had; going on "
                    "as if these were the same",
                    given));
    return {};
  }
  if (then.images != mine.images) {
    return fail("--data", given,
                fmt::format("has {} images, the checkpoint is of a training with {}", mine.images, then.images),
                kAction, ExitCode::Mismatch);
  }
  const std::string what = difference_of(then, mine);
  if (what.empty()) {
    return {};
  }
  if (other == OtherData::Accept && !now.split_by_seed) {
    warnings.push_back(fmt::format("--data: {}: {} are others than in the training that is gone on with", given, what));
    return {};
  }
  const std::string action =
      now.split_by_seed ? kAction : std::string(kAction) + ", or --resume=continue-with-changes to go on all the same";
  return fail("--data", given, fmt::format("has as many images as the checkpoint's training, but {} are others", what),
              action, ExitCode::Mismatch);
}

Result<void> confirm_equal_data(const World& world, const data::Datasets& mine, const std::string& given) {
  const Parts parts{kept_of(mine.identity), kept_of(mine.valid_identity)};
  static_assert(std::is_trivially_copyable_v<Parts>);
  Bytes bytes(sizeof parts);
  std::memcpy(bytes.data(), &parts, sizeof parts);
  const Result<std::vector<Bytes>> all = process_group::all_gather_bytes(world.process_group, bytes);
  if (!all) {
    return all.error();
  }
  std::vector<Parts> of_ranks(all->size());
  for (std::size_t rank = 0; rank < all->size(); ++rank) {
    std::memcpy(&of_ranks[rank], (*all)[rank].data(), std::min(sizeof(Parts), (*all)[rank].size()));
  }
  for (std::size_t rank = 1; rank < of_ranks.size(); ++rank) {
    const std::string what = difference_of(of_ranks[rank], of_ranks[0]);
    if (what.empty()) {
      continue;
    }
    const Result<std::string> host = host_of(world, rank);  // all ranks come here
    return host ? fail("--data", given, fmt::format("rank {} on {} has other data than rank 0: {}", rank, *host, what),
                       "making it the same data on all nodes", ExitCode::Mismatch)
                : host.error();
  }
  return {};
}

}  // namespace rollcall::train
