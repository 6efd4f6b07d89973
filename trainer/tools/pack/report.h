#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace rollcall::pack {

/// The result of packing one tree.
struct PackReport {
  std::string out;
  std::string format_version;
  bool was_there_already = false;  ///< an earlier run had finished it; only `out` and the format are set
  std::uint64_t samples = 0;
  std::uint64_t classes = 0;
  std::uint64_t repacked = 0;
  std::uint64_t resized = 0;
  std::uint64_t from_earlier_run = 0;  ///< number of samples that an interrupted run had packed
  std::uint64_t bytes_in = 0;          ///< size of the packed files' originals
  std::uint64_t bytes_out = 0;         ///< size of the packed file
  std::uint64_t inodes_in = 0;         ///< files and folders of the tree; the packed file is one
  double seconds = 0;                  ///< duration of this run, including all checks

  struct BadFile {
    std::string name;
    std::string reason;
  };
  std::vector<BadFile> bad;
  std::map<std::string, std::uint64_t> not_repacked;  ///< reason -> files that kept their coding
  std::vector<std::string> empty_classes;             ///< classes without a sample in the packed file
};

/// Returns the report as text.
[[nodiscard]] std::string report_text(const PackReport& report);
/// Returns all reports as one JSON object {"files": [...]} on one line. Names that are not UTF-8 get replacement
/// characters.
[[nodiscard]] std::string report_json(const std::vector<PackReport>& reports);

}  // namespace rollcall::pack
