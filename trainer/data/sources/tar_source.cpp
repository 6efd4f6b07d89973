#include "trainer/data/sources/tar_source.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "runtime/base/small_file.h"
#include "runtime/base/text.h"
#include "trainer/data/sources/image_source.h"
#include "trainer/data/sources/tar_index.h"

namespace rollcall::data {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMostClasses = 10'000'000;
constexpr std::size_t kMostClassFile = std::size_t{256} << 20U;  // bytes

Error unreadable_shard(const std::string& path, int error_number, ExitCode code) {
  return fail("--data", path, "cannot be read: " + errno_text(error_number), "checking the file and its permissions",
              code);
}

Error unusable(const std::string& path, std::string reason) {
  return fail("--data", path, std::move(reason), "writing the shards with KEY.jpg and KEY.cls for each picture",
              ExitCode::BadData);
}

/// "a/b.c/0001.seg.png" is key "a/b.c/0001" and ending "seg.png".
std::pair<std::string_view, std::string_view> split_name(std::string_view name) {
  const std::size_t slash = name.rfind('/');
  const std::size_t dot = name.find('.', slash == std::string_view::npos ? 0 : slash + 1);
  return dot == std::string_view::npos ? std::pair(name, std::string_view())
                                       : std::pair(name.substr(0, dot), name.substr(dot + 1));
}

bool is_picture(std::string_view ending) {
  std::string lower(ending);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  constexpr std::array known{"jpg", "jpeg", "png"};
  return std::find(known.begin(), known.end(), lower) != known.end();
}

/// Reads small pieces of a file that lie near each other by one pread(2): between two pictures of a shard are a label's
/// header, the label and a picture's header.
class NearbyReads {
 public:
  explicit NearbyReads(const storage::File& file) : file_(file) {}

  [[nodiscard]] bool read_at(std::span<std::byte> bytes, std::uint64_t offset) {
    if (bytes.size() > window_.size()) {
      return file_.read_at(bytes, offset) == bytes.size();
    }
    if (offset < begin_ || offset + bytes.size() > begin_ + filled_) {
      const auto count = file_.read_at(window_, offset);
      begin_ = offset;
      filled_ = count.value_or(0);
      if (filled_ < bytes.size()) {
        return false;
      }
    }
    std::memcpy(bytes.data(), window_.data() + (offset - begin_), bytes.size());
    return true;
  }

 private:
  const storage::File& file_;
  std::array<std::byte, 4096> window_{};
  std::uint64_t begin_ = 0;
  std::size_t filled_ = 0;
};

/// Pictures and labels of one shard, joined by key.
class ShardReader {
 public:
  ShardReader(const std::string& path, const storage::File& file, std::uint32_t shard, SourceIndices& indices)
      : path_(path), file_(file), reads_(file), shard_(shard), indices_(indices) {}

  Result<void> read(SampleIndexBuilder& pictures) {
    const auto size = file_.regular_size();
    if (!size) {
      return unreadable_shard(path_, errno, ExitCode::NoInput);
    }
    const Result<void> indexed = index_tar(
        *size, [&](std::span<std::byte> bytes, std::uint64_t at) { return reads_.read_at(bytes, at); },
        [&](const TarMember& member) { return take(member, pictures); });
    if (!indexed) {
      Error error = indexed.error();
      error.value = error.value.empty() ? path_ : error.value;
      return error;
    }
    return finish_sample(pictures);
  }

 private:
  Result<void> take(const TarMember& member, SampleIndexBuilder& pictures) {
    if (indices_.stop) {
      return indexing_stopped(path_);
    }
    const auto [key, ending] = split_name(member.name);
    if (key != key_) {
      if (auto finished = finish_sample(pictures); !finished) {
        return finished;
      }
      key_ = key;
    }
    if (is_picture(ending)) {
      if (member.bytes > std::numeric_limits<std::uint32_t>::max()) {
        return unusable(path_ + ": " + member.name, "has more than 4 GiB");
      }
      picture_ = {.offset = member.offset, .bytes = static_cast<std::uint32_t>(member.bytes), .shard = shard_};
    } else if (ending == "cls") {
      return take_label(member);
    }
    return {};
  }

  Result<void> take_label(const TarMember& member) {
    std::string text(std::min<std::uint64_t>(member.bytes, 32), '\0');
    if (!reads_.read_at(std::as_writable_bytes(std::span(text)), member.offset)) {
      return unreadable_shard(path_, errno, ExitCode::InputOutput);
    }
    label_ = parse_integer<std::int64_t>(trim(text));
    if (!label_ || *label_ < 0 || *label_ >= kMostClasses) {
      return unusable(path_ + ": " + member.name, "holds no label, a number from 0");
    }
    return {};
  }

  /// Samples without a picture (texts, say) are passed over; one without a label is an error.
  Result<void> finish_sample(SampleIndexBuilder& pictures) {
    if (picture_ && !label_) {
      return unusable(path_ + ": " + key_, "has no label, a member of the same name with the ending .cls");
    }
    if (picture_) {
      picture_->label = static_cast<std::uint32_t>(*label_);
      pictures.add(*picture_, key_);
      indices_.found += 1;
    }
    picture_.reset();
    label_.reset();
    return {};
  }

  const std::string& path_;
  const storage::File& file_;
  NearbyReads reads_;
  std::uint32_t shard_;
  SourceIndices& indices_;
  std::string key_;
  std::optional<SampleIndex::Entry> picture_;
  std::optional<std::int64_t> label_;
};

Result<std::vector<std::string>> names_from_json(const std::string& path, const std::string& text) {
  const nlohmann::json names = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  const bool texts = names.is_array() && std::all_of(names.begin(), names.end(),
                                                     [](const nlohmann::json& name) { return name.is_string(); });
  if (!texts) {
    return unusable(path, "is no JSON list of texts");
  }
  return names.get<std::vector<std::string>>();
}

std::vector<std::string> names_from_lines(const std::string& text) {
  std::vector<std::string> names;
  for (const std::string& line : split(text, '\n')) {
    names.emplace_back(trim(line));
  }
  while (!names.empty() && names.back().empty()) {
    names.pop_back();
  }
  return names;
}

/// Beside the shards.
constexpr std::array kClassFiles{"class_names.json", "classes.txt"};

/// Nothing where neither file is there.
Result<std::optional<std::vector<std::string>>> read_class_names(const fs::path& folder) {
  for (const char* const name : kClassFiles) {
    const std::string path = (folder / name).string();
    std::string text;
    const FileReading reading = read_small_file(path, kMostClassFile, text);
    if (reading.error_number == ENOENT) {
      continue;
    }
    if (!reading.reason.empty()) {
      return fail("--data", path, "cannot be read: " + reading.reason, "checking the file with the classes' names",
                  ExitCode::NoInput);
    }
    if (path.ends_with(".txt")) {
      return std::optional(names_from_lines(text));
    }
    Result<std::vector<std::string>> names = names_from_json(path, text);
    if (!names) {
      return names.error();
    }
    return std::optional(*std::move(names));
  }
  return std::optional<std::vector<std::string>>();
}

Result<std::vector<std::string>> class_names_for(const std::string& folder, const SampleIndexBuilder& pictures) {
  const auto largest = std::max_element(pictures.entries().begin(), pictures.entries().end(),
                                        [](const auto& a, const auto& b) { return a.label < b.label; });
  Result<std::optional<std::vector<std::string>>> given = read_class_names(folder);
  if (!given) {
    return given.error();
  }
  std::vector<std::string> names = (*given).value_or(std::vector<std::string>());
  if (given->has_value() && largest->label >= static_cast<std::int64_t>(names.size())) {
    const auto i = static_cast<std::size_t>(largest - pictures.entries().begin());
    return unusable(folder, fmt::format("picture {} has label {}, and there are {} class names", pictures.name(i),
                                        largest->label, names.size()));
  }
  for (std::int64_t label = 0; !given->has_value() && label <= largest->label; ++label) {
    names.push_back(std::to_string(label));
  }
  return names;
}

Result<SampleIndex> index_shards(const std::string& source, const std::vector<std::string>& shards,
                                 const std::vector<storage::File>& files, SourceIndices& indices) {
  const std::string folder = fs::path(shards.front()).parent_path().string();
  SampleIndex::About about{.source = source, .class_names = {}, .witnesses = {}};
  for (std::size_t i = 0; i < shards.size(); ++i) {  // of what is read, not of what may bear its name by now
    about.witnesses.push_back(witness_of(shards[i], files[i].descriptor()));
  }
  for (const char* const name : kClassFiles) {
    about.witnesses.push_back(witness_of((fs::path(folder) / name).string()));
  }
  std::vector<SampleIndexBuilder> of_shard(shards.size());
  const Result<void> read = in_parallel(shards.size(), [&](std::size_t i) {
    return ShardReader(shards[i], files[i], static_cast<std::uint32_t>(i), indices).read(of_shard[i]);
  });
  if (!read) {
    return read.error();
  }
  SampleIndexBuilder pictures;
  for (SampleIndexBuilder& more : of_shard) {
    pictures.append(std::exchange(more, {}));
  }
  if (pictures.size() == 0) {
    return unusable(folder, "holds no tar archive with pictures");
  }
  Result<std::vector<std::string>> names = class_names_for(folder, pictures);
  if (!names) {
    return names.error();
  }
  about.class_names = *std::move(names);
  return pictures.finish(about);
}

/// Whether the open shards are those that the index is of, so far as their sizes tell: another node may have a copy
/// that was cut, and an archive may have been replaced since it was indexed.
Result<void> check_sizes(const std::vector<std::string>& shards, const std::vector<storage::File>& files,
                         const SampleIndex& index) {
  const std::vector<Witness>& witnesses = index.about().witnesses;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const std::int64_t bytes = witness_of(shards[i], files[i].descriptor()).bytes;
    if (i >= witnesses.size() || bytes != witnesses[i].bytes) {
      return fail("--data", shards[i],
                  fmt::format("has {} bytes here, and the archive that was indexed has {}", bytes,
                              i < witnesses.size() ? witnesses[i].bytes : 0),
                  "copying it to this node again, and leaving it alone while a run uses it", ExitCode::Mismatch);
    }
  }
  return {};
}

}  // namespace

Result<std::shared_ptr<const ImageSource>> TarSource::open(const std::vector<std::string>& shards,
                                                           SourceIndices& indices) {
  std::string source = "shards";
  std::vector<storage::File> files;
  for (const std::string& path : shards) {
    files.emplace_back(path, O_RDONLY | O_NONBLOCK);  // a named pipe would be waited for
    if (!files.back()) {
      return unreadable_shard(path, errno, ExitCode::NoInput);
    }
    std::error_code ignored;
    source += "\n" + fs::absolute(path, ignored).string();
  }
  Result<SampleIndex> index = indices.of(source, [&] { return index_shards(source, shards, files, indices); });
  if (!index) {
    return index.error();
  }
  if (const Result<void> same = check_sizes(shards, files, *index); !same) {
    return same.error();
  }
  return std::shared_ptr<const ImageSource>(std::make_shared<TarSource>(shards, std::move(files), *std::move(index)));
}

Result<ImageSource::Sample> TarSource::fetch(std::int64_t index, FetchBuffer& buffer) const {
  const SampleIndex::Entry& picture = index_.entry(index);
  if (picture.bytes > kMostPictureBytes) {
    return fail("--data", describe(index), fmt::format("has {} bytes, more than any picture", picture.bytes),
                "writing the shard without it", ExitCode::BadData);
  }
  if (buffer.bytes.size() < picture.bytes) {
    buffer.bytes.resize(picture.bytes);
  }
  const std::span<std::byte> bytes = std::span(buffer.bytes).first(picture.bytes);
  const auto count = files_[picture.shard].read_at(bytes, picture.offset);
  if (!count) {
    return unreadable_shard(describe(index), errno, ExitCode::InputOutput);
  }
  if (*count != bytes.size()) {
    return fail("--data", describe(index), "the archive became shorter while it is in use", "writing the shard again",
                ExitCode::BadData);
  }
  return Sample{{.bytes = bytes}, picture.label};
}

std::string TarSource::describe(std::int64_t index) const {
  return paths_[index_.entry(index).shard] + ": " + std::string(index_.name(index));
}

}  // namespace rollcall::data
