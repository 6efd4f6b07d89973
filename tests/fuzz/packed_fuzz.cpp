// Any bytes as the tables of a packed file, as its tile lengths, as a tar archive, and as a whole packed file.
//
// The first byte chooses: 0 tables, 1 tile lengths, 2 tar archive, else a whole file. The last starts from a sound
// file, into which the input is written at the places that it names; an even byte has the checksums of HDF5's
// structures made right again, which random bytes would hardly ever pass.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "tests/support/forged_hdf5.h"
#include "trainer/data/sources/packed_file.h"
#include "trainer/data/sources/packed_writer.h"
#include "trainer/data/sources/tar_index.h"
#include "trainer/storage/crc.h"

namespace {

using namespace rollcall;
using Bytes = std::span<const std::byte>;

/// Eight tables of equal length, 33 bytes a sample.
void read_tables(Bytes input) {
  const std::size_t samples = input.size() / 33;
  std::size_t at = 0;
  const auto take = [&](std::size_t bytes) {
    at += samples * bytes;
    return input.subspan(at - samples * bytes, samples * bytes);
  };
  constexpr std::uint64_t kDataBytes = 1 << 20;
  constexpr std::size_t kClasses = 10;
  const auto entries = data::join_packed_tables(
      {take(8), take(4), take(4), take(4), take(4), take(4), take(4), take(1)}, kDataBytes, kClasses);
  for (const data::PackedEntry& entry : entries ? *entries : std::vector<data::PackedEntry>()) {
    const bool sound = entry.offset + entry.stored_bytes() <= kDataBytes && entry.label >= 0 &&
                       entry.label < static_cast<int>(kClasses) && entry.width > 0 && entry.height > 0;
    if (!sound) {
      std::abort();
    }
  }
}

void read_tile_lengths(Bytes input) {
  static std::vector<std::uint16_t> lengths;
  if (input.size() >= 8) {
    data::PackedEntry entry;
    std::memcpy(&entry.length, input.data(), 4);
    std::memcpy(&entry.tile_count, input.data() + 4, 4);
    (void)data::unpack_tile_lengths(entry, input.subspan(8), lengths);
  }
}

void read_tar(Bytes input) {
  const auto read_at = [&](std::span<std::byte> bytes, std::uint64_t at) {
    if (at > input.size() || bytes.size() > input.size() - at) {
      std::abort();
    }
    std::copy_n(input.begin() + static_cast<std::ptrdiff_t>(at), bytes.size(), bytes.begin());
    return true;
  };
  (void)data::index_tar(input.size(), read_at, [&](const data::TarMember& member) {
    if (member.offset > input.size() || member.bytes > input.size() - member.offset) {
      std::abort();
    }
    return Result<void>();
  });
}

const std::string& path() {
  static const std::string name = "/dev/shm/rollcall-packed-fuzz-" + std::to_string(::getpid()) + ".h5";
  static const int removed = std::atexit([] { ::unlink(name.c_str()); });
  (void)removed;
  return name;
}

/// A sound file of two samples. /data is as small as the format allows.
std::vector<std::byte> sound_file() {
  const std::vector<std::byte> picture(100, std::byte{7});
  data::PackedContent content{
      .columns = {}, .class_names = {"a", "b"}, .data_bytes = 200, .writer = "fuzz", .created = "2026-01-01T00:00:00Z"};
  for (const std::uint64_t offset : {0U, 100U}) {
    content.columns.add({.offset = offset,
                         .length = offset == 0 ? 100U : 90U,
                         .tile_count = offset == 0 ? 0U : 5U,
                         .label = 1,
                         .crc32c = storage::crc32c(picture),
                         .width = 8,
                         .height = 8},
                        "a/1.jpg");
  }
  const storage::File file(path(), O_RDWR | O_CREAT | O_TRUNC);
  if (!file.write_at(picture, 4096) || !file.write_at(picture, 4196) || !data::finish_packed_file(path(), content)) {
    std::abort();
  }
  std::vector<std::byte> bytes(*file.regular_size());
  (void)file.read_at(bytes, 0);
  return bytes;
}

/// Pieces of the input: 3 bytes where, 1 byte how many, then these.
void read_whole_file(Bytes input, bool forged) {
  static const std::vector<std::byte> sound = sound_file();
  static const std::vector<test::ChecksummedStretch> stretches = test::checksummed_stretches(sound);
  std::vector<std::byte> changed = sound;
  while (input.size() > 4) {
    std::uint32_t head = 0;
    std::memcpy(&head, input.data(), 4);
    const std::size_t at = (head & 0xffffffU) % changed.size();
    const std::size_t count = std::min<std::size_t>({head >> 24U, input.size() - 4, changed.size() - at});
    std::copy_n(input.begin() + 4, count, changed.begin() + static_cast<std::ptrdiff_t>(at));
    input = input.subspan(4 + count);
  }
  if (forged) {
    test::renew_checksums(changed, stretches);
  }
  if (input.size() == 3) {  // a rest of three bytes cuts the file
    std::uint32_t end = 0;
    std::memcpy(&end, input.data(), 3);
    changed.resize(end % (changed.size() + 1));
  }
  if (!storage::File(path(), O_WRONLY | O_CREAT | O_TRUNC).write_at(changed, 0)) {
    std::abort();
  }
  const auto source = data::PackedSource::open(path());
  static data::FetchBuffer buffer;
  for (std::int64_t i = 0; source && i < (*source)->size(); ++i) {
    (void)(*source)->fetch(i, buffer);
    (void)(*source)->describe(i);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* input, std::size_t size) {
  if (size == 0) {
    return 0;
  }
  const Bytes rest = std::as_bytes(std::span(input + 1, size - 1));
  switch (input[0]) {
    case 0:
      read_tables(rest);
      break;
    case 1:
      read_tile_lengths(rest);
      break;
    case 2:
      read_tar(rest);
      break;
    default:
      read_whole_file(rest, input[0] % 2 == 0);
  }
  return 0;
}
