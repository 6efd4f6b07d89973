#include "trainer/train/workers.h"

#include <ATen/Parallel.h>
#include <unistd.h>
#include <algorithm>
#include <bit>
#include <cctype>
#include <cmath>
#include <fstream>
#include <iterator>

#include "runtime/base/cpu_list.h"
#include "runtime/base/text.h"
#include "runtime/base/this_process.h"
#include "runtime/contract/env_vars.h"

namespace rollcall::train {
namespace {

/// Returns the bytes of a batch. Page-locked memory is allocated in powers of two (ATen/core/CachingHostAllocator.h).
std::uint64_t bytes_of_batch(const data::LoaderOptions& options) {
  const auto size = static_cast<std::uint64_t>(std::max(options.image_size, options.pinned ? options.room_size : 0));
  const std::uint64_t bytes =
      static_cast<std::uint64_t>(options.batch_size) * 3 * size * size * data::bytes_of(options.pixel_type);
  return options.pinned ? std::bit_ceil(bytes) : bytes;
}

}  // namespace

NodeShare share_of_node(const Environment& environment, std::uint32_t ranks_on_node, bool on_gpu) {
  const auto online = static_cast<std::uint32_t>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
  const auto of_step = parse_integer<std::uint32_t>(environment.get(env::kSlurmCpusOnNode).value_or(""));
  NodeShare share;
  share.cpus = std::clamp(of_step.value_or(online) / ranks_on_node, 1U, number_of_cpus());
  share.sharing = number_of_cpus() > share.cpus ? ranks_on_node : 1;
  share.compute_cpus = on_gpu ? 1 : static_cast<std::uint32_t>(std::max(1, at::get_num_threads()));
  share.memory = memory_limit() / ranks_on_node;
  return share;
}

std::vector<std::uint32_t> cpus_near(std::string bus, const std::vector<std::uint32_t>& allowed,
                                     const std::string& root) {
  std::ranges::transform(bus, bus.begin(), [](unsigned char letter) { return std::tolower(letter); });
  std::string list;
  std::ifstream(root + "/sys/bus/pci/devices/" + bus + "/local_cpulist") >> list;
  const std::vector<std::uint32_t> local = bus.empty() ? std::vector<std::uint32_t>() : parse_cpu_list(list);
  std::vector<std::uint32_t> near;
  std::ranges::copy_if(allowed, std::back_inserter(near),
                       [&](std::uint32_t cpu) { return std::ranges::find(local, cpu) != local.end(); });
  return near.size() < allowed.size() ? near : std::vector<std::uint32_t>();
}

std::vector<std::uint32_t> cpus_of_workers(const std::vector<std::uint32_t>& near, int workers, std::uint32_t sharing) {
  const std::size_t wanted = static_cast<std::size_t>(std::max(workers, 0)) * sharing;
  return near.size() >= wanted ? near : std::vector<std::uint32_t>();
}

std::uint64_t bytes_read_ahead(const data::LoaderOptions& options) {
  return static_cast<std::uint64_t>(options.batches_in_memory()) * bytes_of_batch(options);
}

int most_workers(const NodeShare& share, const data::LoaderOptions& options) {
  data::LoaderOptions with = options;
  with.workers = static_cast<int>(share.cpus);
  while (with.workers > 1 && bytes_read_ahead(with) > share.memory / 8) {
    with.workers -= 1;
  }
  return with.workers;
}

int workers_at_first(std::optional<int> asked, const NodeShare& share, const data::LoaderOptions& options) {
  const int spare = static_cast<int>(share.cpus) - static_cast<int>(share.compute_cpus);
  return asked ? *asked : std::clamp(spare, 1, most_workers(share, options));
}

std::optional<int> WorkerTuning::after_step(double waited, double elapsed, double loading) {
  constexpr int kWindows = 5;
  constexpr int kLeftOut = 4;
  constexpr int kSteps = 16;
  constexpr double kSeconds = 1;
  constexpr double kWaitsTooLong = 0.05;  // share of the time
  constexpr double kFaster = 1.2;
  if (workers_ >= most_ || windows_ == kWindows) {
    return std::nullopt;
  }
  window_.steps += 1;
  if (window_.steps <= kLeftOut) {
    return std::nullopt;
  }
  window_.waited += waited;
  window_.elapsed += elapsed;
  window_.loading += loading;
  if (window_.steps < kLeftOut + kSteps || window_.elapsed < kSeconds) {
    return std::nullopt;
  }
  const Window measured = window_;
  window_ = {};
  windows_ += 1;
  if (measured.waited < kWaitsTooLong * measured.elapsed) {
    return std::nullopt;
  }
  const double computing = std::max(measured.elapsed - measured.waited, 1e-6);
  const double wanted = std::ceil(kFaster * measured.loading / computing);
  workers_ = static_cast<int>(std::clamp(wanted, workers_ + 1.0, static_cast<double>(most_)));
  return workers_;
}

}  // namespace rollcall::train
