#include "trainer/data/sources/image_source.h"

#include <glob.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <exception>
#include <filesystem>
#include <future>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "runtime/base/text.h"
#include "trainer/data/sources/data_parts.h"
#include "trainer/data/sources/image_folder.h"
#include "trainer/data/sources/label_list.h"
#include "trainer/data/sources/left_out.h"
#include "trainer/data/sources/packed_file.h"
#include "trainer/data/sources/tar_source.h"

namespace rollcall::data {
namespace {

namespace fs = std::filesystem;

/// Returns a name without the ending of a compressed file.
std::string plain_name(const std::string& name) {
  constexpr std::array compressed{"gz", "zst", "xz", "bz2", "lz4"};
  const std::string ending = last_ending(name);
  const bool is_compressed = std::find(compressed.begin(), compressed.end(), ending) != compressed.end();
  return is_compressed ? name.substr(0, name.size() - ending.size() - 1) : name;
}

/// Returns whether a name is that of a shard, also of a compressed one, which cannot be read.
bool is_shard(const std::string& name) { return last_ending(plain_name(name)) == "tar" || last_ending(name) == "tgz"; }

struct ShardsInFolder {
  std::vector<std::string> paths;  ///< those of compressed ones only where there are no others
  LeftOut left_out;                ///< where there are shards; not what macOS keeps beside each file, "._NAME"
};

/// Returns the kind of an entry of a folder of shards that is not a shard; empty if nobody will miss it.
std::string kind_beside_shards(const std::string& name, bool is_folder) {
  if (name.starts_with('.')) {
    return is_shard(name) && !is_folder && !name.starts_with("._") ? "hidden" : "";
  }
  return is_folder ? "folders" : is_picture_ending(last_ending(name)) ? "pictures outside of shards" : "";
}

Result<ShardsInFolder> shards_in(const std::string& folder) {
  ShardsInFolder found;
  std::vector<std::string> compressed;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    std::error_code ignored;
    const bool is_folder = entry->is_directory(ignored);
    // A link without a target counts as a shard, so that opening it fails instead of leaving it out.
    if (is_shard(name) && !name.starts_with('.') && !is_folder) {
      (last_ending(name) == "tar" ? found.paths : compressed).push_back(entry->path().string());
    } else if (const std::string kind = kind_beside_shards(name, is_folder); !kind.empty()) {
      found.left_out.add(kind, name);
    }
  }
  if (error) {
    return fail("--data", folder, "cannot be listed: " + errno_text(error.value()), "checking that file system",
                ErrorKind::NoInput);
  }
  if (found.paths.empty()) {
    found.paths.swap(compressed);
  }
  for (const std::string& path : compressed) {
    found.left_out.add("compressed", fs::path(path).filename().string());
  }
  if (found.paths.empty()) {
    found.left_out = {};
  }
  std::sort(found.paths.begin(), found.paths.end());
  return found;
}

/// Expands "a{08..11}b" to "a08b", "a09b", "a10b", "a11b". Without such a range the pattern is returned alone. Several
/// ranges multiply.
std::vector<std::string> expand_ranges(const std::string& pattern) {
  constexpr std::size_t kMost = 1'000'000;
  const std::size_t open = pattern.find('{');
  const std::size_t dots = pattern.find("..", open);
  const std::size_t close = pattern.find('}', open);
  if (open == std::string::npos || close == std::string::npos || dots > close) {
    return {pattern};
  }
  const std::string first_text = pattern.substr(open + 1, dots - open - 1);
  const auto first = parse_integer<std::uint32_t>(first_text);
  const auto last = parse_integer<std::uint32_t>(pattern.substr(dots + 2, close - dots - 2));
  if (!first || !last || *first > *last || *last - *first >= kMost) {
    return {pattern};
  }
  const std::vector<std::string> rests = expand_ranges(pattern.substr(close + 1));
  std::vector<std::string> expanded;
  // Wider than the bounds: a bound that is the largest of its type would never be exceeded.
  for (std::uint64_t number = *first; number <= *last && expanded.size() < kMost; ++number) {
    std::string digits = std::to_string(number);
    digits.insert(0, first_text.size() - std::min(first_text.size(), digits.size()), '0');
    for (const std::string& rest : rests) {
      expanded.push_back(pattern.substr(0, open).append(digits).append(rest));
    }
  }
  return expanded;
}

/// Returns the files that match. A name without wildcards is returned as it is, so that a missing shard of a range is
/// noticed.
Result<std::vector<std::string>> match(const std::string& pattern) {
  std::vector<std::string> paths;
  if (pattern.find_first_of("*?[") == std::string::npos) {
    paths.push_back(pattern);
    return paths;
  }
  glob_t found{};
  // A folder of other users, or an entry that is not a folder, cannot hold the shards; a file system that does not
  // respond may.
  const auto is_failure = [](const char* /*folder*/, int code) {
    return code == EACCES || code == EPERM || code == ENOENT || code == ENOTDIR ? 0 : 1;
  };
  const int status = ::glob(pattern.c_str(), 0, is_failure, &found);  // sorted
  if (status == 0) {
    paths.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  }
  ::globfree(&found);
  if (status != 0 && status != GLOB_NOMATCH) {
    return fail("--data", pattern, "a folder of this pattern cannot be listed", "checking that file system",
                ErrorKind::NoInput);
  }
  return paths;
}

}  // namespace

Result<std::vector<std::string>> expand_shard_pattern(const std::string& pattern) {
  std::vector<std::string> shards;
  for (const std::string& name : expand_ranges(pattern)) {
    ASSIGN_OR_RETURN(const std::vector<std::string> paths, match(name));
    shards.insert(shards.end(), paths.begin(), paths.end());
  }
  const bool is_pattern = shards.size() != 1 || shards.front() != pattern;
  if (!is_pattern || shards.empty()) {
    return fail("--data", pattern, is_pattern ? "matches no file" : "does not exist",
                "naming a folder of images, a packed file, or tar shards", ErrorKind::NoInput);
  }
  return shards;
}

namespace {

Result<std::shared_ptr<const ImageSource>> open_folder(const std::string& folder, SourceIndices& indices) {
  ASSIGN_OR_RETURN(const ShardsInFolder shards, shards_in(folder));
  if (!shards.left_out.is_empty()) {
    indices.warn("--data: " + folder + ": only its tar shards are read; other files are left out, " +
                 shards.left_out.text() + "; try keeping decompressed shards in a folder of their own");
  }
  RETURN_IF_ERROR(check_one_part(folder, shards.paths));
  if (!shards.paths.empty()) {
    return TarSource::open(shards.paths, indices);
  }
  ASSIGN_OR_RETURN(ImageTree tree, scan_image_tree(folder, indices));
  return std::shared_ptr<const ImageSource>(std::make_shared<ImageFolder>(std::move(tree)));
}

}  // namespace

Result<std::shared_ptr<const ImageSource>> open_source(const std::string& path, SourceIndices& indices,
                                                       const ListOptions& list) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) {
    return open_folder(path, indices);
  }
  if (!fs::exists(path, ignored)) {
    const Result<std::vector<std::string>> shards = expand_shard_pattern(path);
    return shards ? TarSource::open(*shards, indices) : shards.error();
  }
  if (is_label_list(path)) {
    ASSIGN_OR_RETURN(ImageTree tree, read_label_list(path, list, indices));
    return std::shared_ptr<const ImageSource>(std::make_shared<ImageFolder>(std::move(tree)));
  }
  return is_shard(path) ? TarSource::open({path}, indices) : PackedSource::open(path);
}

Result<void> in_parallel(std::size_t count, const std::function<Result<void>(std::size_t)>& work) {
  constexpr std::size_t kThreads = 8;
  std::vector<std::optional<Error>> errors(count);
  std::atomic<std::size_t> next = 0;
  std::atomic<bool> failed = false;
  const auto run = [&] {
    for (std::size_t i = next++; i < count && !failed; i = next++) {
      if (const Result<void> done = work(i); !done) {
        errors[i] = done.error();
        failed = true;
      }
    }
  };
  std::vector<std::future<void>> helpers;
  try {
    while (helpers.size() + 1 < std::min(count, kThreads)) {
      helpers.push_back(std::async(std::launch::async, run));
    }
  } catch (const std::system_error&) {  // no more threads can be started: the existing ones do the work
  }
  run();
  for (std::future<void>& helper : helpers) {
    helper.get();
  }
  const auto first = std::find_if(errors.begin(), errors.end(), [](const auto& error) { return error.has_value(); });
  return first == errors.end() ? Result<void>() : Result<void>(**first);
}

}  // namespace rollcall::data
