#include "trainer/data/sources/tar_source.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <cerrno>
#include <filesystem>
#include <utility>

#include "trainer/data/sources/class_names.h"
#include "trainer/data/sources/image_source.h"
#include "trainer/data/sources/shard_reader.h"

namespace rollcall::data {
namespace {

namespace fs = std::filesystem;

Result<SampleIndex> index_shards(const std::string& source, const std::vector<std::string>& shards,
                                 const std::vector<storage::File>& files, SourceIndices& indices) {
  const std::string folder = fs::path(shards.front()).parent_path().string();
  SampleIndex::About about{.source = source, .class_names = {}, .stamps = {}};
  for (std::size_t i = 0; i < shards.size(); ++i) {  // of the open file, since its name may now belong to another
    about.stamps.push_back(file_stamp(shards[i], files[i].descriptor()));
  }
  for (const std::string& path : files_with_class_names(folder)) {
    about.stamps.push_back(file_stamp(path));
  }
  std::vector<ShardContent> contents(shards.size());
  RETURN_IF_ERROR(in_parallel(shards.size(), [&](std::size_t i) {
    return read_shard(shards[i], files[i], static_cast<std::uint32_t>(i), indices, contents[i]);
  }));
  SampleIndexBuilder pictures;
  LeftOut left_out;
  for (ShardContent& content : contents) {
    pictures.append(content.pictures);
    left_out.append(content.left_out);
    content = {};
  }
  if (pictures.size() == 0) {
    return unusable_shard(
        folder, "holds no supported pictures" + (left_out.is_empty() ? "" : ", only other files, " + left_out.text()));
  }
  if (!left_out.is_empty()) {
    about.warning = fmt::format(
        "--data: {}: members of its shards are left out, {}; try naming the two members of a sample KEY.jpg (or {}) "
        "and KEY.cls, without a dot in KEY",
        folder, left_out.text(), picture_endings());
  }
  ASSIGN_OR_RETURN(std::vector<std::string> names, names_of_labels(folder, pictures));
  about.class_names = std::move(names);
  return pictures.finish(about);
}

/// Checks by their sizes whether the open shards are those of the index: another node may have a truncated copy, and an
/// archive may have been replaced since it was indexed.
Result<void> check_sizes(const std::vector<std::string>& shards, const std::vector<storage::File>& files,
                         const SampleIndex& index) {
  const std::vector<FileStamp>& stamps = index.about().stamps;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const std::int64_t bytes = file_stamp(shards[i], files[i].descriptor()).bytes;
    if (i >= stamps.size() || bytes != stamps[i].bytes) {
      return fail(
          "--data", shards[i],
          fmt::format("has {} bytes here, but {} where it was indexed", bytes, i < stamps.size() ? stamps[i].bytes : 0),
          "copying it to this node again, and not changing it while a run uses it", ErrorKind::Mismatch);
    }
  }
  return {};
}

void warn_of_one_label(const std::string& folder, const SampleIndex& index, SourceIndices& indices) {
  std::int64_t alike = 1;
  while (alike < index.size() && index.entry(alike).label == index.entry(0).label) {
    ++alike;
  }
  if (alike > 1 && alike == index.size()) {
    indices.warn(fmt::format("--data: {}: all {} pictures have the label {}; try checking the .cls members", folder,
                             alike, index.entry(0).label));
  }
}

}  // namespace

Result<std::shared_ptr<const ImageSource>> TarSource::open(const std::vector<std::string>& shards,
                                                           SourceIndices& indices) {
  std::string source = "shards of " + picture_endings();
  std::vector<storage::File> files;
  for (const std::string& path : shards) {
    files.emplace_back(path, O_RDONLY | O_NONBLOCK);  // do not wait for a named pipe
    if (!files.back()) {
      return unreadable_shard(path, errno, ErrorKind::NoInput);
    }
    std::error_code ignored;
    source += "\n" + fs::absolute(path, ignored).string();
  }
  ASSIGN_OR_RETURN(SampleIndex index,
                   indices.get_or_make(source, [&] { return index_shards(source, shards, files, indices); }));
  RETURN_IF_ERROR(check_sizes(shards, files, index));
  warn_of_one_label(fs::path(shards.front()).parent_path().string(), index, indices);
  return std::shared_ptr<const ImageSource>(std::make_shared<TarSource>(shards, std::move(files), std::move(index)));
}

Result<std::span<const std::byte>> read_member(const storage::File& archive, std::uint64_t offset, std::uint64_t size,
                                               const std::function<std::string()>& name, FetchBuffer& buffer) {
  if (size > kMostPictureBytes) {
    return fail("--data", name(), fmt::format("has {} bytes, more than a picture may have (256 MiB)", size),
                "writing the shard without it", ErrorKind::BadData);
  }
  if (buffer.bytes.size() < size) {
    buffer.bytes.resize(size);
  }
  const std::span<std::byte> bytes = std::span(buffer.bytes).first(size);
  const auto count = archive.read_at(bytes, offset);
  if (!count) {
    return unreadable_shard(name(), errno, ErrorKind::InputOutput);
  }
  if (*count != bytes.size()) {
    return fail("--data", name(), "the archive became shorter while in use", "writing the shard again",
                ErrorKind::BadData);
  }
  return std::span<const std::byte>(bytes);
}

Result<ImageSource::Sample> TarSource::fetch(std::int64_t index, FetchBuffer& buffer) const {
  const SampleIndex::Entry& picture = index_.entry(index);
  ASSIGN_OR_RETURN(const std::span<const std::byte> bytes,
                   read_member(
                       files_[picture.shard], picture.offset, picture.bytes, [&] { return describe(index); }, buffer));
  return Sample{{.bytes = bytes}, picture.label};
}

std::string TarSource::describe(std::int64_t index) const {
  return paths_[index_.entry(index).shard] + ": " + std::string(index_.name(index));
}

}  // namespace rollcall::data
