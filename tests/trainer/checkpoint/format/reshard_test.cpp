#include <gmock/gmock.h>

#include <cstring>
#include <fstream>
#include <numeric>

#include "tests/support/socket_group.h"
#include "tests/trainer/checkpoint/format/sample_content.h"

namespace rollcall::checkpoint::format {
namespace {

using testing_support::all_ended_well;
using testing_support::fork_ranks;

/// Shapes that no number of ranks divides: fewer rows than ranks, one, none, a scalar; one of several pieces.
struct OddTensors {
  OddTensors() {
    std::int32_t next = 0;
    for (const std::vector<std::int64_t>& shape :
         std::vector<std::vector<std::int64_t>>{{7, 3}, {1}, {}, {0, 5}, {13}, {64, 3, 7, 7}, {3, 200'003}}) {
      auto& values = memory.emplace_back(*element_count(shape));
      std::iota(values.begin(), values.end(), next);
      next += static_cast<std::int32_t>(values.size());
      shapes.push_back(shape);
    }
  }

  [[nodiscard]] std::size_t rows(std::size_t i) const {
    return shapes[i].empty() ? 1 : static_cast<std::size_t>(shapes[i][0]);
  }
  [[nodiscard]] std::size_t row_bytes(std::size_t i) const {
    return rows(i) == 0 ? 0 : memory[i].size() * sizeof(std::int32_t) / rows(i);
  }
  /// As FSDP cuts: ceil(rows / ranks) rows each, the last ranks fewer or none.
  [[nodiscard]] std::span<const std::byte> shard(std::size_t i, std::size_t rank, std::size_t ranks,
                                                 std::size_t& first_byte) const {
    const std::size_t chunk = (rows(i) + ranks - 1) / ranks;
    const std::size_t begin = std::min(rank * chunk, rows(i));
    const std::size_t end = std::min(begin + chunk, rows(i));
    first_byte = begin * row_bytes(i);
    return std::as_bytes(std::span(memory[i])).subspan(first_byte, (end - begin) * row_bytes(i));
  }
  [[nodiscard]] static std::string path(std::size_t i) { return "/model/t" + std::to_string(i); }

  [[nodiscard]] Content part(std::size_t rank, std::size_t ranks) const {
    Content content;
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      std::size_t first_byte = 0;
      const auto bytes = shard(i, rank, ranks, first_byte);
      content.tensors.push_back({path(i), "t" + std::to_string(i), DType::Int32, shapes[i], bytes, first_byte});
    }
    content.values = {{"/progress/global_step", std::int64_t{5}}};
    return content;
  }

  std::vector<std::vector<std::int64_t>> shapes;
  std::vector<std::vector<std::int32_t>> memory;
};

bool reads_its_shards(const CheckpointReader& reader, const OddTensors& tensors, std::size_t rank, std::size_t ranks,
                      VerifyLevel level) {
  for (std::size_t i = 0; i < tensors.shapes.size(); ++i) {
    const ManifestEntry* const entry = reader.find(OddTensors::path(i));
    std::size_t first_byte = 0;
    const auto expected = tensors.shard(i, rank, ranks, first_byte);
    std::vector<std::byte> found(expected.size());
    const ReadRequest request{entry, first_byte, found};
    if (entry == nullptr || entry->shape != tensors.shapes[i] || !reader.read(std::span(&request, 1), level, 2) ||
        !std::equal(found.begin(), found.end(), expected.begin(), expected.end())) {
      return false;
    }
  }
  return true;
}

TEST(Reshard, AnyNumberOfRanksReadsWhatAnyOtherNumberWrote) {
  const TemporaryFolder folder;
  const OddTensors tensors;
  for (std::uint32_t writers = 1; writers <= 8; ++writers) {
    const std::string path = folder.file(std::to_string(writers) + ".h5");
    ASSERT_TRUE(all_ended_well(fork_ranks(writers, [&](RankGroup& group) {
      return write_checkpoint(path, tensors.part(group.rank(), group.size()), {}, group) ? 0 : 1;
    }))) << writers;
    const auto reader = CheckpointReader::open(path);
    ASSERT_TRUE(reader) << reader.error().message();
    EXPECT_TRUE(reader->verify(VerifyLevel::Full, 2));
    for (std::size_t readers = 1; readers <= 8; ++readers) {
      for (std::size_t rank = 0; rank < readers; ++rank) {
        EXPECT_TRUE(reads_its_shards(*reader, tensors, rank, readers, VerifyLevel::Full)) << writers << readers << rank;
        EXPECT_TRUE(reads_its_shards(*reader, tensors, rank, readers, VerifyLevel::Metadata));
      }
    }
  }
  EXPECT_EQ(folder.names().size(), 8U);
}

TEST(Reshard, ChecksumsDoNotDependOnTheNumberOfWriters) {
  const TemporaryFolder folder;
  const OddTensors tensors;
  std::vector<std::vector<std::uint32_t>> checksums;
  for (const std::uint32_t writers : {1U, 3U}) {
    const std::string path = folder.file("a.h5");
    ASSERT_TRUE(all_ended_well(fork_ranks(writers, [&](RankGroup& group) {
      return write_checkpoint(path, tensors.part(group.rank(), group.size()), {}, group) ? 0 : 1;
    })));
    auto& found = checksums.emplace_back();
    const auto reader = CheckpointReader::open(path);
    ASSERT_TRUE(reader);
    for (const ManifestEntry& entry : reader->datasets()) {
      found.push_back(entry.crc32c);
      found.insert(found.end(), entry.pieces.begin(), entry.pieces.end());
    }
  }
  EXPECT_EQ(checksums[0], checksums[1]);
}

/// Wrong content on one rank gives the same error on all ranks, and no file.
TEST(Reshard, RejectsBytesWrittenByNoRankOrByTwo) {
  const TemporaryFolder folder;
  const OddTensors tensors;
  const auto outcome_with = [&](const std::function<void(Content&)>& change) {
    return all_ended_well(fork_ranks(3, [&](RankGroup& group) {
      Content content = tensors.part(group.rank(), group.size());
      if (group.rank() == 1) {
        change(content);
      }
      const auto written = write_checkpoint(folder.file("a.h5"), content, {}, group);
      const bool told =
          !written && (written.error().kind == ErrorKind::Internal || written.error().kind == ErrorKind::Mismatch);
      return told ? 0 : 1;
    }));
  };
  EXPECT_TRUE(outcome_with([](Content& content) { content.tensors[0].bytes = {}; }));
  EXPECT_TRUE(outcome_with([](Content& content) { content.tensors[0].first_byte = 0; }));
  EXPECT_TRUE(outcome_with([](Content& content) { content.tensors[0].first_byte = 80; }));
  EXPECT_TRUE(outcome_with([](Content& content) { content.tensors[0].path = "/model/other"; }));
  EXPECT_TRUE(folder.names().empty());
}

/// The number of bytes is right, and each piece is complete.
TEST(Reshard, RejectsAPieceWrittenTwiceInPlaceOfAnother) {
  const TemporaryFolder folder;
  const std::vector<std::int32_t> piece(kPieceBytes / sizeof(std::int32_t), 7);
  EXPECT_TRUE(all_ended_well(fork_ranks(2, [&](RankGroup& group) {
    Content content;
    content.tensors.push_back({"/model/t",
                               "t",
                               DType::Int32,
                               {2, static_cast<std::int64_t>(piece.size())},
                               std::as_bytes(std::span(piece)),
                               0});
    const auto written = write_checkpoint(folder.file("a.h5"), content, {}, group);
    return !written && written.error().reason.find("written by no rank or by two") != std::string::npos ? 0 : 1;
  })));
  EXPECT_TRUE(folder.names().empty());
}

/// Peak resident memory of this process, in KiB.
long peak_kib() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) {
      return std::stol(line.substr(6));
    }
  }
  return 0;
}

TEST(Reshard, ReadingAShardUsesMemoryForTheShardOnly) {
  const TemporaryFolder folder;
  {
    const std::vector<float> whole(16 << 20, 1.5F);  // 64 MiB
    Content content;
    content.tensors = {{"/model/w", "w", DType::Float32, {1 << 12, 1 << 12}, std::as_bytes(std::span(whole))}};
    ASSERT_TRUE(write_checkpoint(folder.file("a.h5"), content, {}));
  }
  EXPECT_TRUE(all_ended_well(fork_ranks(1, [&](RankGroup& /*alone*/) {
    const auto reader = CheckpointReader::open(folder.file("a.h5"));
    const long before = peak_kib();
    std::vector<std::byte> shard(8 << 20);
    const ReadRequest request{&reader->datasets()[0], (8 << 20) + 12345, shard};
    if (!reader->read(std::span(&request, 1), VerifyLevel::Full, 2)) {
      return 1;
    }
    return peak_kib() - before < 20 * 1024 ? 0 : 2;  // 8 MiB and two threads' buffers; the process had more before
  })));
}

}  // namespace
}  // namespace rollcall::checkpoint::format
