#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace rollcall::report {

/// The values of one rank in one record, in seconds per step. NaN: not recorded.
struct RankStep {
  double data = 0;
  double forward = 0;
  double backward = 0;
  double wait = 0;
  double peak_memory_mib = 0;
  double cpu = 0;         ///< CPU seconds of all threads per step
  double loader_use = 0;  ///< busy fraction of its workers, 0 to 1

  /// Returns the time that the rank works before it waits for others, by which ranks are compared.
  [[nodiscard]] double own() const { return data + forward; }
};

/// Sums over a run of one rank.
struct RankSums {
  RankStep sum;  ///< sums, but the maximum of the memory
  std::int64_t records = 0;
  std::int64_t slow_records = 0;  ///< records in which it was slower than the median

  [[nodiscard]] double mean(double RankStep::*part) const {
    return records > 0 ? sum.*part / static_cast<double>(records) : 0;
  }
  [[nodiscard]] double mean_own() const { return mean(&RankStep::data) + mean(&RankStep::forward); }
};

/// A rank for which the others wait.
struct Straggler {
  std::size_t rank = 0;
  double seconds = 0;    ///< its own time per step
  double median = 0;     ///< the median of all ranks
  bool by_data = false;  ///< whether it waits longer for data

  [[nodiscard]] double times() const { return median > 0 ? seconds / median : 1; }
};

/// Times of ranks over a run in bounded memory: at most 64 rows (with more ranks, a row has the slowest one of several)
/// and 96 columns, which combine more records the longer a run is. Plain value.
class RankGrid {
 public:
  static constexpr std::size_t kRows = 64;
  static constexpr std::size_t kColumns = 96;

  struct Column {
    std::int64_t first_step = 0;
    std::int64_t last_step = 0;
    std::int64_t records = 0;
    std::vector<double> seconds;       ///< per row, the sum of own() of its slowest rank
    std::vector<std::int64_t> counts;  ///< per row, the number of records with a value
  };

  /// Adds a record of all ranks. A different number of ranks resets the grid.
  void add(std::int64_t step, const std::vector<RankStep>& ranks);

  [[nodiscard]] const std::vector<RankSums>& ranks() const { return ranks_; }
  [[nodiscard]] const std::vector<Column>& columns() const { return columns_; }
  [[nodiscard]] std::size_t rows() const { return (ranks_.size() + ranks_of_row() - 1) / ranks_of_row(); }
  [[nodiscard]] std::size_t ranks_of_row() const {
    return (ranks_.size() + kRows - 1) / kRows + (ranks_.empty() ? 1 : 0);
  }
  /// Returns the mean of a cell in seconds; nothing without a record.
  [[nodiscard]] std::optional<double> cell(std::size_t row, std::size_t column) const;
  /// Sets whether ranks have equal shares of the work, which they do not under --elastic-exact. A rank with a larger
  /// share is not a straggler.
  void set_equal_shares(bool equal) { equal_shares_ = equal; }
  [[nodiscard]] bool has_equal_shares() const { return equal_shares_; }
  /// Returns the slowest rank where its mean is 10 % above the median; nothing with one rank or unequal shares.
  [[nodiscard]] std::optional<Straggler> slowest() const;
  /// Returns the slowest rank where it was slow repeatedly: in at least five records, and in a quarter of its records.
  /// A pause, or the first minute of a run, does not count.
  [[nodiscard]] std::optional<Straggler> straggler() const;

 private:
  void halve_columns();
  void count_slow(const std::vector<RankStep>& ranks);

  bool equal_shares_ = true;

  std::vector<RankSums> ranks_;
  std::vector<Column> columns_;
  std::int64_t records_of_column_ = 1;
};

}  // namespace rollcall::report
