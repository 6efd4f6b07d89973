#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/support/read_checkpoint.h"
#include "tests/support/temporary_folder.h"
#include "trainer/checkpoint/format/folder.h"
#include "trainer/checkpoint/format/reader.h"
#include "trainer/checkpoint/format/writer.h"

namespace rollcall::checkpoint::format {

using test::TemporaryFolder;

/// A few tensors and values; `mark` makes the contents of two checkpoints differ.
struct SampleContent {
  explicit SampleContent(std::int64_t mark) : counter(mark) {
    for (std::size_t i = 0; i < weight.size(); ++i) {
      weight[i] = static_cast<float>(i) + static_cast<float>(mark);
    }
    content.tensors = {
        {"/model/conv/weight", "conv.weight", DType::Float32, {16, 3, 8, 8}, std::as_bytes(std::span(weight))},
        {"/model/conv/counter", "conv.counter", DType::Int64, {}, std::as_bytes(std::span(&counter, 1))},
        {"/model/empty", "empty", DType::Float32, {0, 3}, {}},
        {"/rng/rank_0000/cpu", "", DType::UInt8, {5000}, std::as_bytes(std::span(weight)).first(5000)},
    };
    content.values = {{"/model_keys", std::vector<std::string>{"conv.weight", "conv.counter", "empty"}},
                      {"/progress/global_step", mark},
                      {"/progress/best_metric", 0.1},
                      {"/sampler/seed", std::uint64_t{0xffff'ffff'ffff'ffff}},
                      {"/config/json", std::string("{\"ü\":1}")},
                      {"/config/argv", std::vector<std::string>{"train", "", "--lr=1"}}};
  }
  SampleContent(const SampleContent&) = delete;
  SampleContent& operator=(const SampleContent&) = delete;

  std::vector<float> weight = std::vector<float>(16 * 3 * 8 * 8);
  std::int64_t counter;
  Content content;
};

struct LoadedCheckpoint {
  std::string path;  ///< empty where there is none
  LoadedContent loaded;
  std::vector<std::string> warnings;
};

/// The newest sound checkpoint of a folder, read by a process by itself.
inline Result<LoadedCheckpoint> load_latest(const std::string& folder) {
  SingleRank alone;
  LoadedCheckpoint latest;
  auto used = use_latest(folder, alone, [&latest](const CheckpointReader& reader) -> Result<void> {
    auto loaded = read_checkpoint(reader.path());
    if (!loaded) {
      return loaded.error();
    }
    latest.loaded = *std::move(loaded);
    return {};
  });
  if (!used) {
    return used.error();
  }
  if (used->has_value()) {
    latest.path = (*used)->path;
    latest.warnings = (*used)->warnings;
  }
  return latest;
}

inline std::vector<char> file_bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

inline void write_file(const std::string& path, const std::vector<char>& bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

/// Whether every tensor and value of `expected` is in `found`, with the same bytes, and nothing else.
inline testing::AssertionResult same_content(const Content& found, const Content& expected) {
  if (found.values != expected.values) {
    return testing::AssertionFailure() << "values differ";
  }
  if (found.tensors.size() != expected.tensors.size()) {
    return testing::AssertionFailure() << found.tensors.size() << " tensors";
  }
  for (std::size_t i = 0; i < found.tensors.size(); ++i) {
    const TensorView& a = found.tensors[i];
    const TensorView& b = expected.tensors[i];
    const bool same = a.path == b.path && a.state_dict_key == b.state_dict_key && a.dtype == b.dtype &&
                      a.shape == b.shape && std::equal(a.bytes.begin(), a.bytes.end(), b.bytes.begin(), b.bytes.end());
    if (!same) {
      return testing::AssertionFailure() << a.path << " differs from " << b.path;
    }
  }
  return testing::AssertionSuccess();
}

inline void write_sample_step(const TemporaryFolder& folder, std::int64_t step) {
  ASSERT_TRUE(write_checkpoint(folder.file(checkpoint_name(step)), SampleContent(step).content, {}));
}

}  // namespace rollcall::checkpoint::format
