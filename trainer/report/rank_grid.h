#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace rollcall::report {

/// What one record says of one rank: seconds a step. NaN where it says nothing.
struct RankStep {
  double data = 0;
  double forward = 0;
  double backward = 0;
  double wait = 0;
  double peak_memory_mib = 0;
  double cpu = 0;         ///< seconds a step, of all threads
  double loader_use = 0;  ///< of its workers' time: 0 to 1

  /// What the rank did by itself before it had to wait for others: by that ranks are compared.
  [[nodiscard]] double own() const { return data + forward; }
};

/// Sums over a run of one rank.
struct RankSums {
  RankStep sum;  ///< but of memory: the most
  std::int64_t records = 0;
  std::int64_t slow_records = 0;  ///< of them, in which it was slower than the median

  [[nodiscard]] double mean(double RankStep::*part) const {
    return records > 0 ? sum.*part / static_cast<double>(records) : 0;
  }
  [[nodiscard]] double mean_own() const { return mean(&RankStep::data) + mean(&RankStep::forward); }
};

/// A rank that holds up the others.
struct Straggler {
  std::size_t rank = 0;
  double seconds = 0;    ///< of its own, a step
  double median = 0;     ///< of all ranks
  bool by_data = false;  ///< it is the wait for data that is longer

  [[nodiscard]] double times() const { return median > 0 ? seconds / median : 1; }
};

/// Ranks over time in bounded memory: at most 64 rows (of several neighbouring ranks where there are more, each with
/// the slowest of them) and 96 columns, which stand for more and more records the longer a run is. Plain value.
class RankGrid {
 public:
  static constexpr std::size_t kRows = 64;
  static constexpr std::size_t kColumns = 96;

  struct Column {
    std::int64_t first_step = 0;
    std::int64_t last_step = 0;
    std::int64_t records = 0;
    std::vector<double> seconds;       ///< of each row, summed up: own(), the slowest of its ranks
    std::vector<std::int64_t> counts;  ///< of each row: records with a value
  };

  /// A record of all ranks. Another number of ranks than before begins anew.
  void add(std::int64_t step, const std::vector<RankStep>& ranks);

  [[nodiscard]] const std::vector<RankSums>& ranks() const { return ranks_; }
  [[nodiscard]] const std::vector<Column>& columns() const { return columns_; }
  [[nodiscard]] std::size_t rows() const { return (ranks_.size() + ranks_of_row() - 1) / ranks_of_row(); }
  [[nodiscard]] std::size_t ranks_of_row() const {
    return (ranks_.size() + kRows - 1) / kRows + (ranks_.empty() ? 1 : 0);
  }
  /// Mean of a cell, seconds; nothing where no record has it.
  [[nodiscard]] std::optional<double> cell(std::size_t row, std::size_t column) const;
  /// Whether ranks have equal shares of the work, as they have but for --elastic-exact: a rank with more is no slower.
  void set_equal_shares(bool equal) { equal_shares_ = equal; }
  [[nodiscard]] bool has_equal_shares() const { return equal_shares_; }
  /// The slowest rank where its mean is a tenth more than the median; nothing where all are alike, or there is one, or
  /// shares are not equal.
  [[nodiscard]] std::optional<Straggler> slowest() const;
  /// The same where it was slow again and again: in at least five records, and a quarter of its own. A pause, or the
  /// minute in which a run begins, makes no straggler.
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
