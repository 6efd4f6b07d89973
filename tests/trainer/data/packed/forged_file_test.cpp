#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <random>

#include "tests/support/forged_hdf5.h"
#include "tests/trainer/data/packed/sample_file.h"
#include "trainer/data/sources/packed_file.h"

// Malicious packed files with correct checksums.
namespace rollcall::data {
namespace {

using test::ChecksummedStretch;
using test::TemporaryFolder;
using testing::HasSubstr;

/// A sound file, where its parts are, and a fixed sequence of random numbers to change it with.
class Forger {
 public:
  explicit Forger(const std::string& sound_path)
      : layout_(PackedFile::open(sound_path)->layout()), sound_(bytes_of(sound_path)) {
    stretches_ = test::checksummed_stretches(sound_);
    std::ranges::transform(tables_, std::back_inserter(checksums_),
                           [&](const auto* table) { return checksum_place(*table); });
  }

  [[nodiscard]] std::size_t stretches() const { return stretches_.size(); }

  /// Makes `path` the file with one to four changes, of structures and tables alike. It is written over, not anew: file
  /// systems bring a file to the device that is cut and written again.
  void write(const std::string& path, bool checksums_are_right) {
    changed_ = sound_;
    for (std::size_t changes = 1 + below(4); changes > 0; --changes) {
      below(3) == 0 ? change_table() : change_structure();
    }
    if (checksums_are_right) {
      for (std::size_t i = 0; i < tables_.size(); ++i) {
        const auto table = std::span(changed_).subspan(tables_[i]->start, tables_[i]->bytes());
        const std::uint32_t checksum = storage::crc32c(table);
        std::memcpy(changed_.data() + checksums_[i], &checksum, sizeof(checksum));
      }
      test::renew_checksums(changed_, stretches_);
    }
    ASSERT_TRUE(storage::File(path, O_WRONLY | O_CREAT).write_at(changed_, 0));
  }

 private:
  static std::vector<std::byte> bytes_of(const std::string& path) {
    const std::vector<char> text = test::content_of_file(path);
    const auto bytes = std::as_bytes(std::span(text));
    return {bytes.begin(), bytes.end()};
  }

  std::size_t below(std::size_t limit) { return random_() % limit; }

  void change_structure() {
    const ChecksummedStretch& stretch = stretches_[below(stretches_.size())];
    change(stretch.begin, stretch.checksum_at());
  }

  void change_table() {
    const DataSetLocation& table = *tables_[below(tables_.size())];
    change(table.start, table.start + table.bytes());
  }

  /// One byte, or a number of eight bytes, such as lead beyond everything.
  void change(std::size_t begin, std::size_t end) {
    const std::size_t at = begin + below(end - begin);
    if (below(4) > 0) {
      changed_[at] = static_cast<std::byte>(below(2) == 0 ? random_() : std::to_integer<unsigned>(changed_[at]) + 1);
      return;
    }
    const std::array<std::uint64_t, 5> numbers{0, ~std::uint64_t{0}, std::uint64_t{1} << 63U, changed_.size(),
                                               random_()};
    std::memcpy(changed_.data() + at, &numbers[below(numbers.size())], std::min(sizeof(std::uint64_t), end - at));
  }

  /// Where the file says what the table's checksum is.
  [[nodiscard]] std::size_t checksum_place(const DataSetLocation& table) const {
    const auto is = std::as_bytes(std::span(&*table.crc32c, 1));
    const auto found = std::search(sound_.begin(), sound_.end(), is.begin(), is.end());
    EXPECT_NE(found, sound_.end());
    return static_cast<std::size_t>(found - sound_.begin());
  }

  PackedLayout layout_;
  std::vector<std::byte> sound_;
  std::vector<std::byte> changed_;
  std::vector<ChecksummedStretch> stretches_;
  std::vector<const DataSetLocation*> tables_{&layout_.offset,    &layout_.length,      &layout_.tile_count,
                                              &layout_.label,     &layout_.crc32c,      &layout_.width,
                                              &layout_.height,    &layout_.orientation, &layout_.name_offset,
                                              &layout_.name_data, &layout_.class_names};
  std::vector<std::size_t> checksums_;  ///< of the tables
  std::mt19937_64 random_{20261129};
};

/// Reads a file as a training does: the number of samples read, or nothing if the file was rejected.
std::optional<std::size_t> use(const std::string& path,
                               const std::function<void(std::int64_t, const ImageSource::Sample&)>& see) {
  const auto source = PackedSource::open(path);
  if (!source) {
    EXPECT_THAT(source.error().message(), HasSubstr(path));
    EXPECT_TRUE(source.error().kind == ErrorKind::BadData || source.error().kind == ErrorKind::Mismatch);
    return std::nullopt;
  }
  FetchBuffer buffer;
  std::size_t samples = 0;
  for (std::int64_t i = 0; i < (*source)->size(); ++i) {
    EXPECT_THAT((*source)->describe(i), HasSubstr(path));
    if (const auto sample = (*source)->fetch(i, buffer)) {
      see(i, *sample);
      ++samples;
    }
  }
  return samples;
}

TEST(ForgedPackedFile, IsRejectedOrReadForAnyStructures) {
  const TemporaryFolder folder;
  test::write_packed(folder.file("sound.h5"), test::three_samples());
  Forger forger(folder.file("sound.h5"));
  ASSERT_GT(forger.stretches(), 13U) << "superblock, root and twelve data sets";
  constexpr int kFiles = 5000;
  int refused = 0;
  for (int i = 0; i < kFiles; ++i) {
    forger.write(folder.file("forged.h5"), /*checksums_are_right=*/true);
    refused += use(folder.file("forged.h5"),
                   [](std::int64_t, const ImageSource::Sample& sample) {
                     EXPECT_TRUE(sample.label == 0 || sample.label == 1);
                   })
                   ? 0
                   : 1;
  }
  EXPECT_GT(refused, kFiles / 4);
  EXPECT_LT(refused, kFiles) << "nothing reached the tables";
}

TEST(ForgedPackedFile, RejectsTablesLargerThanMemoryByName) {
  constexpr std::uint64_t kElements = std::uint64_t{1} << 42U;
  const TemporaryFolder folder;
  const std::string path = folder.file("a.h5");
  test::write_packed(path, test::three_samples());
  const std::uint64_t place = PackedFile::open(path)->layout().orientation.start;
  const std::vector<char> sound = test::content_of_file(path);
  std::vector<std::byte> bytes(sound.size());
  std::memcpy(bytes.data(), sound.data(), sound.size());
  const auto stretches = test::checksummed_stretches(bytes);
  // A header with this table's place in it; its dataspace of three elements becomes one of many.
  const auto address = std::as_bytes(std::span(&place, 1));
  const std::uint64_t three = 3;
  const auto is = std::as_bytes(std::span(&three, 1));
  const auto header = std::ranges::find_if(stretches, [&](const ChecksummedStretch& stretch) {
    const auto begin = bytes.begin() + static_cast<std::ptrdiff_t>(stretch.begin);
    const auto end = bytes.begin() + static_cast<std::ptrdiff_t>(stretch.end);
    return stretch.begin > 0 && std::search(begin, end, address.begin(), address.end()) != end;
  });
  ASSERT_NE(header, stretches.end());
  const auto at =
      std::search(bytes.begin() + static_cast<std::ptrdiff_t>(header->begin), bytes.end(), is.begin(), is.end());
  std::memcpy(&*at, &kElements, sizeof(kElements));
  test::renew_checksums(bytes, stretches);
  ASSERT_TRUE(storage::File(path, O_WRONLY).write_at(bytes, 0));
  ASSERT_EQ(::truncate(path.c_str(), std::int64_t{1} << 43), 0) << "no sparse files here";
  const auto source = PackedSource::open(path);
  ASSERT_FALSE(source);
  EXPECT_THAT(source.error().message(),
              HasSubstr(path + ": /orientation has 4398046511104 elements, more than fit in memory"));
  EXPECT_EQ(source.error().kind, ErrorKind::BadData);
}

TEST(ForgedPackedFile, DamageGivesTheOriginalSamplesOrNone) {
  const TemporaryFolder folder;
  const auto made = test::three_samples();
  test::write_packed(folder.file("sound.h5"), made);
  Forger forger(folder.file("sound.h5"));
  for (int i = 0; i < 2000; ++i) {
    forger.write(folder.file("damaged.h5"), /*checksums_are_right=*/false);
    use(folder.file("damaged.h5"), [&](std::int64_t index, const ImageSource::Sample& sample) {
      const test::MadeSample& expected = made[static_cast<std::size_t>(index)];
      EXPECT_TRUE(std::ranges::equal(sample.image.bytes, expected.picture));
      EXPECT_EQ(sample.label, expected.label);
    });
  }
}

}  // namespace
}  // namespace rollcall::data
