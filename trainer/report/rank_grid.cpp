#include "trainer/report/rank_grid.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace rollcall::report {
namespace {

constexpr double kSlower = 1.1;        // times the median
constexpr double kTelling = 0.0005;    // seconds per step; smaller differences are noise of clock and scheduler
constexpr std::int64_t kEvidence = 5;  // records

void add_up(RankSums& sums, const RankStep& step) {
  sums.records += 1;
  sums.sum.data += step.data;
  sums.sum.forward += step.forward;
  sums.sum.backward += step.backward;
  sums.sum.wait += step.wait;
  sums.sum.cpu += step.cpu;
  sums.sum.loader_use += step.loader_use;
  if (step.peak_memory_mib > sums.sum.peak_memory_mib) {
    sums.sum.peak_memory_mib = step.peak_memory_mib;
  }
}

double median_of(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

}  // namespace

void RankGrid::add(std::int64_t step, const std::vector<RankStep>& ranks) {
  if (ranks.empty()) {
    return;
  }
  if (ranks.size() != ranks_.size()) {
    RankGrid anew;
    anew.equal_shares_ = equal_shares_;
    *this = std::move(anew);
    ranks_.resize(ranks.size());
  }
  if (columns_.empty() || columns_.back().records == records_of_column_) {
    if (columns_.size() == kColumns) {
      halve_columns();
    }
    columns_.push_back({step, step, 0, std::vector<double>(rows()), std::vector<std::int64_t>(rows())});
  }
  count_slow(ranks);
  Column& column = columns_.back();
  column.last_step = step;
  column.records += 1;
  for (std::size_t row = 0; row < rows(); ++row) {
    double slowest = std::nan("");
    for (std::size_t rank = row * ranks_of_row(); rank < std::min((row + 1) * ranks_of_row(), ranks.size()); ++rank) {
      if (std::isfinite(ranks[rank].own())) {
        add_up(ranks_[rank], ranks[rank]);
        slowest = std::fmax(slowest, ranks[rank].own());
      }
    }
    if (std::isfinite(slowest)) {
      column.seconds[row] += slowest;
      column.counts[row] += 1;
    }
  }
}

void RankGrid::count_slow(const std::vector<RankStep>& ranks) {
  std::vector<double> own;
  for (const RankStep& rank : ranks) {
    if (std::isfinite(rank.own())) {
      own.push_back(rank.own());
    }
  }
  const double median = own.empty() ? 0 : median_of(std::move(own));
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const double more = ranks[rank].own() - median;
    ranks_[rank].slow_records += more > kTelling && more >= (kSlower - 1) * median ? 1 : 0;
  }
}

void RankGrid::halve_columns() {
  records_of_column_ *= 2;
  for (std::size_t i = 0; i < columns_.size() / 2; ++i) {
    Column& into = columns_[i];
    if (i > 0) {
      into = std::move(columns_[2 * i]);
    }
    const Column& next = columns_[2 * i + 1];
    into.last_step = next.last_step;
    into.records += next.records;
    for (std::size_t row = 0; row < into.seconds.size(); ++row) {
      into.seconds[row] += next.seconds[row];
      into.counts[row] += next.counts[row];
    }
  }
  columns_.resize(columns_.size() / 2);
}

std::optional<double> RankGrid::cell(std::size_t row, std::size_t column) const {
  const Column& of = columns_[column];
  return of.counts[row] > 0 ? std::optional(of.seconds[row] / static_cast<double>(of.counts[row])) : std::nullopt;
}

std::optional<Straggler> RankGrid::straggler() const {
  const std::optional<Straggler> found = slowest();
  const bool often = found && ranks_[found->rank].slow_records >= kEvidence &&
                     4 * ranks_[found->rank].slow_records >= ranks_[found->rank].records;
  return often ? found : std::nullopt;
}

std::optional<Straggler> RankGrid::slowest() const {
  std::vector<double> own;
  std::vector<double> waits;
  Straggler slowest;
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    if (ranks_[rank].records == 0) {
      continue;
    }
    own.push_back(ranks_[rank].mean_own());
    waits.push_back(ranks_[rank].mean(&RankStep::data));
    if (own.back() > slowest.seconds) {
      slowest.rank = rank;
      slowest.seconds = own.back();
    }
  }
  if (own.size() < 2 || !equal_shares_) {
    return std::nullopt;
  }
  slowest.median = median_of(own);
  const double more = slowest.seconds - slowest.median;
  slowest.by_data = ranks_[slowest.rank].mean(&RankStep::data) - median_of(waits) > more / 2;
  return more > kTelling && slowest.times() >= kSlower ? std::optional(slowest) : std::nullopt;
}

}  // namespace rollcall::report
