#include "trainer/metrics/rank_times.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string>

namespace rollcall::metrics {
namespace {

constexpr std::size_t kNumbers = 10;         // per slot
constexpr std::size_t kNumbersOfDevice = 7;  // after them, on devices

/// Formats an array, `[0.0123,null]`, with null for NaN. Four digits distinguish ranks and keep records of thousands of
/// ranks small.
template <typename Ranks, typename Number>
RawJson array_of(const Ranks& ranks, const Number& number) {
  std::string text;
  for (const auto& rank : ranks) {
    const double value = number(rank);
    text += (text.empty() ? "[" : ",") + (std::isnan(value) ? "null" : fmt::format("{:.4g}", value));
  }
  return {text + "]"};
}

}  // namespace

RankTimes::RankTimes(std::uint32_t rank, std::uint32_t world_size, bool on_device)
    : rank_(rank),
      world_size_(world_size),
      on_device_(on_device),
      totals_(rank == 0 ? world_size : 0),
      last_gpus_(on_device ? totals_.size() : 0),
      run_gpus_(last_gpus_) {}

void RankTimes::add(const StepTimes& step, const RankUse& use) {
  mine_.times += step;
  mine_.peak_memory = static_cast<double>(use.peak_memory);
  mine_.cpu_seconds += use.cpu_seconds - cpu_before_.value_or(use.cpu_seconds);
  cpu_before_ = use.cpu_seconds;
  mine_.loading += use.loading;
  mine_.loader_seconds += use.loader_seconds;
}

std::uint32_t RankTimes::first_of_turn(std::int64_t step) const {
  const std::uint32_t turns = (world_size_ + kSlots - 1) / kSlots;
  return static_cast<std::uint32_t>(step % turns) * kSlots;
}

std::size_t RankTimes::numbers_of_slot() const { return kNumbers + (on_device_ ? kNumbersOfDevice : 0); }

std::vector<double> RankTimes::own_numbers() const {
  const StepTimes& times = mine_.times;
  std::vector<double> own{static_cast<double>(times.steps),
                          times.data,
                          times.forward,
                          times.backward,
                          times.wait,
                          mine_.peak_memory,
                          mine_.energy,
                          mine_.cpu_seconds,
                          mine_.loading,
                          mine_.loader_seconds};
  if (on_device_) {
    const GpuUse& gpu = mine_.gpu;  // NaN for unknown values is safe, because only this rank writes to its slot
    own.insert(own.end(), {mine_.device_memory.allocated, mine_.device_memory.reserved, gpu.seconds, gpu.busy_seconds,
                           gpu.joules, gpu.memory, gpu.memory_total});
  }
  return own;
}

std::vector<double> RankTimes::contribution(std::int64_t step) {
  std::vector<double> numbers(numbers_of_slot() * std::min(world_size_, kSlots));
  const std::uint32_t first = first_of_turn(step);
  if (rank_ >= first && rank_ < first + kSlots) {
    std::ranges::copy(own_numbers(),
                      numbers.begin() + static_cast<std::ptrdiff_t>(numbers_of_slot() * (rank_ - first)));
    mine_ = mine_.begun_anew();
  }
  return numbers;
}

void RankTimes::collect(std::int64_t step, std::span<const double> sums) {
  const std::uint32_t first = first_of_turn(step);
  for (std::size_t place = 0; place < sums.size() / numbers_of_slot() && first + place < totals_.size(); ++place) {
    const std::span<const double> own = sums.subspan(numbers_of_slot() * place, numbers_of_slot());
    RankTotals& totals = totals_[first + place];
    totals.times += {.steps = static_cast<std::int64_t>(own[0]),
                     .data = own[1],
                     .forward = own[2],
                     .backward = own[3],
                     .wait = own[4]};
    totals.peak_memory = std::max(totals.peak_memory, own[5]);
    totals.energy += own[6];
    totals.cpu_seconds += own[7];
    totals.loading += own[8];
    totals.loader_seconds += own[9];
    if (on_device_) {
      collect_device(first + place, own.subspan(kNumbers));
    }
  }
}

void RankTimes::collect_device(std::size_t rank, std::span<const double> numbers) {
  DeviceMemory& memory = totals_[rank].device_memory;
  memory = {std::max(memory.allocated, numbers[0]), std::max(memory.reserved, numbers[1])};
  const GpuUse use{.seconds = numbers[2],
                   .busy_seconds = numbers[3],
                   .joules = numbers[4],
                   .memory = numbers[5],
                   .memory_total = numbers[6]};
  if (use.seconds > 0) {  // else there are no new values
    totals_[rank].gpu += use;
    last_gpus_[rank] = use;
    run_gpus_[rank] += use;
  }
}

template <typename Number>
void RankTimes::add_known(Record& record, const char* name, const Number& number) const {
  if (std::ranges::any_of(totals_, [&](const RankTotals& totals) { return !std::isnan(number(totals)); })) {
    record.emplace_back(name, array_of(totals_, number));
  }
}

void RankTimes::add_devices(Record& record) const {
  constexpr double kMebibyte = 1 << 20;
  const auto most = [](double bytes) { return bytes > 0 ? bytes / kMebibyte : std::nan(""); };
  add_known(record, "device_peak_allocated_mib",
            [&](const RankTotals& totals) { return most(totals.device_memory.allocated); });
  add_known(record, "device_peak_reserved_mib",
            [&](const RankTotals& totals) { return most(totals.device_memory.reserved); });
  add_known(record, "gpu_load", [](const RankTotals& totals) { return totals.gpu.load(); });
  add_known(record, "gpu_memory_mib", [&](const RankTotals& totals) { return most(totals.gpu.memory); });
  add_known(record, "gpu_memory_total_mib", [&](const RankTotals& totals) { return most(totals.gpu.memory_total); });
  add_known(record, "gpu_watts", [](const RankTotals& totals) { return totals.gpu.watts(); });
}

MostOfRanks RankTimes::most_device_memory(double DeviceMemory::*kind) const {
  MostOfRanks most;
  for (std::size_t rank = 0; rank < totals_.size(); ++rank) {
    if (const double bytes = totals_[rank].device_memory.*kind; bytes > most.bytes) {
      most = {static_cast<std::uint32_t>(rank), bytes};
    }
  }
  return most;
}

std::optional<Record> RankTimes::take_record(std::int64_t step) {
  if (std::ranges::none_of(totals_, [](const RankTotals& totals) { return totals.times.steps > 0; })) {
    return std::nullopt;
  }
  const auto of_step = [](const RankTotals& totals, double sum) {
    return totals.times.steps > 0 ? sum / static_cast<double>(totals.times.steps) : std::nan("");
  };
  const auto mean = [&](double StepTimes::*part) {
    return array_of(totals_, [&](const RankTotals& totals) { return of_step(totals, totals.times.*part); });
  };
  const auto some = [](double number) { return number > 0 ? number : std::nan(""); };
  const auto loader_use = [](const RankTotals& totals) {
    return totals.loader_seconds > 0 ? std::min(1.0, totals.loading / totals.loader_seconds) : std::nan("");
  };
  Record record{
      {"event", std::string("ranks")},
      {"step", step},
      {"data_seconds", mean(&StepTimes::data)},
      {"forward_seconds", mean(&StepTimes::forward)},
      {"backward_seconds", mean(&StepTimes::backward)},
      {"wait_seconds", mean(&StepTimes::wait)},
      {"peak_memory_mib",
       array_of(totals_, [&](const RankTotals& totals) { return some(totals.peak_memory / (1 << 20)); })},
      {"cpu_seconds", array_of(totals_, [&](const RankTotals& totals) { return of_step(totals, totals.cpu_seconds); })},
      {"loader_utilisation", array_of(totals_, loader_use)}};
  add_known(record, "energy_joules", [&](const RankTotals& totals) { return some(totals.energy); });
  add_devices(record);
  for (RankTotals& totals : totals_) {
    totals = totals.begun_anew();
  }
  return record;
}

}  // namespace rollcall::metrics
