#include "trainer/data/packed/packed_source.h"

namespace rollcall::data {

Result<std::shared_ptr<const ImageSource>> PackedSource::open(const std::string& path) {
  Result<PackedFile> file = PackedFile::open(path);
  if (!file) {
    return file.error();
  }
  if (file->entries().empty()) {
    return fail("--data", path, "holds no image", "packing a folder that holds some", ExitCode::BadData);
  }
  return std::shared_ptr<const ImageSource>(std::make_shared<PackedSource>(*std::move(file)));
}

Result<ImageSource::Sample> PackedSource::fetch(std::int64_t index, FetchBuffer& buffer) const {
  const auto position = static_cast<std::size_t>(index);
  const PackedEntry& entry = file_.entries()[position];
  const Result<std::span<const std::byte>> stored = file_.read(position, buffer.bytes);
  if (!stored) {
    return stored.error();
  }
  Sample sample{{.bytes = stored->first(entry.length)}, entry.label};
  if (entry.tile_count > 0) {
    const auto lengths = unpack_tile_lengths(entry, *stored, buffer.tile_bytes);
    if (!lengths) {
      Error error = lengths.error();
      error.value = describe(index);
      return error;
    }
    sample.image.tiling = {.size = {static_cast<int>(entry.width), static_cast<int>(entry.height)},
                           .tile_bytes = *lengths,
                           .orientation = entry.orientation};
  }
  return sample;
}

std::string PackedSource::describe(std::int64_t index) const { return file_.describe(static_cast<std::size_t>(index)); }

}  // namespace rollcall::data
