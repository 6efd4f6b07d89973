#include "trainer/checkpoint/memory_checkpoint.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

namespace rollcall::checkpoint {
namespace {

using format::Content;
using format::DType;
using Bytes = std::vector<std::byte>;

struct Tensor {
  std::string path;
  std::vector<std::int64_t> shape;  // of float32
  Bytes bytes = {};
};

/// Tensors of random sizes and bytes, an empty one and a scalar among them.
std::vector<Tensor> random_tensors(std::mt19937& chance) {
  std::vector<Tensor> tensors{{"/model/empty", {0, 3}}, {"/model/scalar", {}}};
  for (int i = 0; i < 12; ++i) {
    const auto rows = static_cast<std::int64_t>(1 + chance() % 40);
    tensors.push_back({"/model/" + std::to_string(i), {rows, static_cast<std::int64_t>(1 + chance() % 9)}});
  }
  for (Tensor& tensor : tensors) {
    tensor.bytes.resize(*format::element_count(tensor.shape) * 4);
    std::ranges::generate(tensor.bytes, [&] { return static_cast<std::byte>(chance()); });
  }
  return tensors;
}

/// Each owner's part: stretches of the tensors, cut anywhere, some of no byte.
std::vector<MemoryPart> divided(const std::vector<Tensor>& tensors, std::uint32_t owners, std::mt19937& chance) {
  std::vector<Content> contents(owners);
  contents[0].values = {{"/progress/step", std::int64_t{7}}, {"/config/json", std::string("{}")}, {"/rate", 0.25}};
  for (const Tensor& tensor : tensors) {
    std::vector<std::size_t> cuts{0, tensor.bytes.size()};
    while (cuts.size() < owners + 1) {
      cuts.push_back(tensor.bytes.empty() ? 0 : chance() % tensor.bytes.size());
    }
    std::ranges::sort(cuts);
    for (std::uint32_t owner = 0; owner < owners; ++owner) {
      const std::span<const std::byte> bytes(tensor.bytes);
      contents[owner].tensors.push_back({tensor.path, tensor.path.substr(7), DType::Float32, tensor.shape,
                                         bytes.subspan(cuts[owner], cuts[owner + 1] - cuts[owner]), cuts[owner]});
    }
  }
  std::vector<MemoryPart> parts;
  for (std::uint32_t owner = 0; owner < owners; ++owner) {
    parts.push_back(make_part({.step = 7, .owners = owners, .owner = owner}, contents[owner]));
  }
  return parts;
}

Result<MemoryCheckpoint> checkpoint_of(const std::vector<MemoryPart>& parts) {
  std::vector<std::vector<std::uint8_t>> tables;
  for (const MemoryPart& part : parts) {
    tables.emplace_back(part.table().begin(), part.table().end());
  }
  return MemoryCheckpoint::of("the memory of ranks", tables);
}

/// Delivers all parts in pieces of random sizes and in random order.
void deliver_in_random_pieces(MemoryCheckpoint& checkpoint, const std::vector<MemoryPart>& parts,
                              std::mt19937& chance) {
  struct Piece {
    std::uint32_t owner;
    std::uint64_t first;
    std::span<const std::byte> bytes;
  };
  std::vector<Piece> pieces;
  for (std::uint32_t owner = 0; owner < parts.size(); ++owner) {
    const std::span<const std::byte> all = bytes_of(parts[owner].data());
    ASSERT_EQ(checkpoint.part_bytes(owner), all.size());
    for (std::size_t first = 0; first < all.size();) {
      const std::size_t length = std::min<std::size_t>(1 + chance() % 97, all.size() - first);
      pieces.push_back({owner, first, all.subspan(first, length)});
      first += length;
    }
  }
  std::ranges::shuffle(pieces, chance);
  for (const Piece& piece : pieces) {
    checkpoint.take(piece.owner, piece.first, piece.bytes);
  }
}

TEST(MemoryCheckpoint, ServesReadsForAnyDivisionIntoPartsAndAnyOrderOfPieces) {
  std::mt19937 chance(1);
  for (int round = 0; round < 200; ++round) {
    const std::vector<Tensor> tensors = random_tensors(chance);
    const std::vector<MemoryPart> parts = divided(tensors, 1 + static_cast<std::uint32_t>(chance() % 5), chance);
    auto checkpoint = checkpoint_of(parts);
    ASSERT_TRUE(checkpoint) << checkpoint.error().message();
    ASSERT_EQ(checkpoint->datasets().size(), tensors.size());
    struct Asked {
      Bytes got;
      std::span<const std::byte> expected;
    };
    std::vector<Asked> asked;
    for (const Tensor& tensor : tensors) {
      for (int times = 0; times < 2; ++times) {  // also one stretch twice, or over another
        const std::size_t first = tensor.bytes.empty() ? 0 : chance() % tensor.bytes.size();
        const std::size_t length = chance() % (tensor.bytes.size() - first + 1);
        asked.push_back({Bytes(length), std::span(tensor.bytes).subspan(first, length)});
        const format::ManifestEntry* const entry = checkpoint->find(tensor.path);
        ASSERT_NE(entry, nullptr);
        EXPECT_EQ(entry->shape, tensor.shape);
        const format::ReadRequest request{entry, first, asked.back().got};
        ASSERT_TRUE(checkpoint->read({&request, 1}, format::VerifyLevel::Full, 1));
      }
    }
    deliver_in_random_pieces(*checkpoint, parts, chance);
    EXPECT_EQ(checkpoint->missing(), 0U);
    for (const Asked& one : asked) {
      EXPECT_TRUE(std::ranges::equal(one.got, one.expected));
    }
  }
}

TEST(MemoryCheckpoint, UsesTheValuesOfTheFirstOwner) {
  std::mt19937 chance(2);
  std::vector<MemoryPart> parts = divided(random_tensors(chance), 3, chance);
  Content other;
  other.values = {{"/progress/step", std::int64_t{9}}};
  parts.push_back(make_part({.step = 7, .owners = 4, .owner = 3}, other));
  const auto checkpoint = checkpoint_of(parts);
  ASSERT_TRUE(checkpoint);
  const auto values = checkpoint->values();
  EXPECT_EQ(std::get<std::int64_t>(values->at("/progress/step")), 7);
  EXPECT_EQ(std::get<std::string>(values->at("/config/json")), "{}");
  EXPECT_EQ(std::get<double>(values->at("/rate")), 0.25);
  EXPECT_EQ(checkpoint->find("/progress/step"), nullptr);
}

TEST(MemoryCheckpoint, CountsTheBytesStillMissing) {
  std::mt19937 chance(3);
  const std::vector<MemoryPart> parts = divided(random_tensors(chance), 2, chance);
  auto checkpoint = checkpoint_of(parts);
  Bytes whole(checkpoint->find("/model/3")->bytes);
  const format::ReadRequest request{checkpoint->find("/model/3"), 0, whole};
  ASSERT_TRUE(checkpoint->read({&request, 1}, format::VerifyLevel::Full, 1));
  EXPECT_EQ(checkpoint->missing(), whole.size());
}

TEST(MemoryCheckpoint, RejectsPartsWithGapsOrOverlaps) {
  const auto made_of = [](std::initializer_list<std::pair<std::uint64_t, std::uint64_t>> stretches) {
    const Bytes bytes(16);
    std::vector<MemoryPart> parts;
    for (const auto& [first, length] : stretches) {
      Content content;
      content.tensors.push_back({"/model/a", "a", DType::Float32, {4}, std::span(bytes).subspan(first, length), first});
      parts.push_back(make_part({}, content));
    }
    return checkpoint_of(parts).has_value();
  };
  EXPECT_TRUE(made_of({{0, 4}, {4, 12}}));
  EXPECT_TRUE(made_of({{8, 8}, {0, 8}}));
  EXPECT_FALSE(made_of({{0, 4}, {8, 8}}));
  EXPECT_FALSE(made_of({{0, 8}, {4, 12}}));
  EXPECT_FALSE(made_of({{0, 8}, {0, 8}}));
  EXPECT_FALSE(made_of({{0, 8}}));
}

TEST(MemoryCheckpoint, RejectsTruncatedOrContradictoryTables) {
  std::mt19937 chance(4);
  const std::vector<MemoryPart> parts = divided(random_tensors(chance), 1, chance);
  for (std::size_t length = 0; length < parts[0].table_bytes; length += 7) {
    const auto beginning = parts[0].table().first(length);
    const std::vector<std::uint8_t> cut(beginning.begin(), beginning.end());
    EXPECT_FALSE(MemoryCheckpoint::of("", {cut})) << length;
  }
  // Two owners whose tensors differ in shape.
  Content one;
  Content other;
  one.tensors.push_back({"/model/a", "a", DType::Float32, {0, 2}, {}, 0});
  other.tensors.push_back({"/model/a", "a", DType::Float32, {0, 3}, {}, 0});
  EXPECT_FALSE(checkpoint_of({make_part({}, one), make_part({}, other)}));
}

TEST(MemoryPart, IsSoundUntilAnyOfItsBytesChanges) {
  std::mt19937 chance(5);
  const MemoryPart part = divided(random_tensors(chance), 1, chance)[0];
  EXPECT_TRUE(part.is_sound());
  for (const std::int64_t place :
       {std::int64_t{0}, static_cast<std::int64_t>(part.table_bytes), part.memory.numel() - 1}) {
    at::Tensor changed = part.memory[place];
    changed.bitwise_xor_(4);
    EXPECT_FALSE(part.is_sound()) << place;
    changed.bitwise_xor_(4);
  }
  EXPECT_TRUE(part.is_sound());
}

TEST(MemoryPart, OrdersByGenerationThenStep) {
  EXPECT_LT((PartName{.generation = 1, .step = 9}), (PartName{.generation = 2, .step = 3}));
  EXPECT_LT((PartName{.generation = 2, .step = 3}), (PartName{.generation = 2, .step = 4}));
}

}  // namespace
}  // namespace rollcall::checkpoint
