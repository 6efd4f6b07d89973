#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <numeric>
#include <string>
#include <vector>

#include "tests/support/temporary_folder.h"
#include "trainer/data/sources/packed_writer.h"
#include "trainer/storage/crc.h"
#include "trainer/storage/file.h"

namespace rollcall::test {

/// What one sample of a packed file was made from.
struct MadeSample {
  std::string name;
  std::vector<std::byte> picture;
  std::vector<std::uint16_t> tiles = {};
  std::int32_t label = 0;
};

inline std::vector<std::byte> made_bytes(std::size_t count, unsigned seed) {
  std::vector<std::byte> bytes(count);
  std::uint32_t state = seed * 2654435761U + 1;
  for (std::byte& byte : bytes) {
    state = state * 1664525U + 1013904223U;
    byte = static_cast<std::byte>(state >> 24);
  }
  return bytes;
}

/// Three samples of two classes; the second is tiled.
inline std::vector<MadeSample> three_samples() {
  return {{"cat/a b.jpg", made_bytes(1000, 1), {}, 0},
          {"cat/line\nbreak.jpg", made_bytes(70'000, 2), {100, 2000, 65'535}, 0},
          {"h\xc3\xbchner/\xe9\xb8\xa1.png", made_bytes(3, 3), {}, 1}};
}

/// The columns of these samples and their bytes one after the other.
inline data::PackedContent content_of(const std::vector<MadeSample>& samples, std::vector<std::byte>& bytes) {
  data::PackedContent content{.columns = {},
                              .class_names = {"cat", "h\xc3\xbchner"},
                              .data_bytes = 0,
                              .writer = "test 1",
                              .created = "2026-01-02T03:04:05Z"};
  for (const MadeSample& sample : samples) {
    std::vector<std::byte> stored = sample.picture;
    const auto tiles = std::as_bytes(std::span(sample.tiles));
    stored.insert(stored.end(), tiles.begin(), tiles.end());
    content.columns.add({.offset = bytes.size(),
                         .length = static_cast<std::uint32_t>(sample.picture.size()),
                         .tile_count = static_cast<std::uint32_t>(sample.tiles.size()),
                         .label = sample.label,
                         .crc32c = storage::crc32c(stored),
                         .width = 500,
                         .height = 375,
                         .orientation = 6},
                        sample.name);
    bytes.insert(bytes.end(), stored.begin(), stored.end());
  }
  content.data_bytes = bytes.size();
  return content;
}

/// Writes a packed file of these samples.
inline void write_packed(const std::string& path, const std::vector<MadeSample>& samples) {
  std::vector<std::byte> bytes;
  const data::PackedContent content = content_of(samples, bytes);
  {
    const storage::File file(path, O_WRONLY | O_CREAT | O_TRUNC);
    ASSERT_TRUE(file.write_at(bytes, data::packed_schema::kDataStart));
  }
  const auto finished = data::finish_packed_file(path, content);
  ASSERT_TRUE(finished) << finished.error().message();
}

inline std::vector<char> content_of_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void write_content(const std::string& path, const std::vector<char>& content) {
  std::ofstream(path, std::ios::binary).write(content.data(), static_cast<std::streamsize>(content.size()));
}

}  // namespace rollcall::test
