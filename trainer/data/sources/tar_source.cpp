#include "trainer/data/sources/tar_source.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "runtime/base/text.h"
#include "trainer/data/sources/tar_index.h"

namespace rollcall::data {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMostClasses = 10'000'000;

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

/// Pictures and labels of one shard, joined by key.
class ShardReader {
 public:
  ShardReader(const std::string& path, const storage::File& file, std::uint32_t shard)
      : path_(path), file_(file), shard_(shard) {}

  Result<void> read(std::vector<TarSource::Picture>& pictures) {
    const auto size = file_.regular_size();
    if (!size) {
      return unreadable_shard(path_, errno, ExitCode::NoInput);
    }
    const Result<std::vector<TarMember>> members = index_tar(
        *size, [&](std::span<std::byte> bytes, std::uint64_t at) { return file_.read_at(bytes, at) == bytes.size(); });
    if (!members) {
      Error error = members.error();
      error.value = path_;
      return error;
    }
    for (const TarMember& member : *members) {
      if (auto taken = take(member, pictures); !taken) {
        return taken.error();
      }
    }
    return finish_sample(pictures);
  }

 private:
  Result<void> take(const TarMember& member, std::vector<TarSource::Picture>& pictures) {
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
      picture_ = {member.offset, static_cast<std::uint32_t>(member.bytes), shard_, 0, std::string(key)};
    } else if (ending == "cls") {
      return take_label(member);
    }
    return {};
  }

  Result<void> take_label(const TarMember& member) {
    std::string text(std::min<std::uint64_t>(member.bytes, 32), '\0');
    if (file_.read_at(std::as_writable_bytes(std::span(text)), member.offset) != text.size()) {
      return unreadable_shard(path_, errno, ExitCode::InputOutput);
    }
    label_ = parse_integer<std::int64_t>(trim(text));
    if (!label_ || *label_ < 0 || *label_ >= kMostClasses) {
      return unusable(path_ + ": " + member.name, "holds no label, a number from 0");
    }
    return {};
  }

  /// Samples without a picture (texts, say) are passed over; one without a label is an error.
  Result<void> finish_sample(std::vector<TarSource::Picture>& pictures) {
    if (picture_ && !label_) {
      return unusable(path_ + ": " + picture_->key, "has no label, a member of the same name with the ending .cls");
    }
    if (picture_) {
      picture_->label = *label_;
      pictures.push_back(*std::move(picture_));
    }
    picture_.reset();
    label_.reset();
    return {};
  }

  const std::string& path_;
  const storage::File& file_;
  std::uint32_t shard_;
  std::string key_;
  std::optional<TarSource::Picture> picture_;
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

/// Nothing where neither file is there.
Result<std::optional<std::vector<std::string>>> read_class_names(const fs::path& folder) {
  for (const char* name : {"class_names.json", "classes.txt"}) {
    const std::string path = (folder / name).string();
    std::ifstream file(path, std::ios::binary);
    if (!file) {
      continue;
    }
    const std::string text{std::istreambuf_iterator<char>(file), {}};
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

Result<std::vector<std::string>> class_names_for(const std::string& folder,
                                                 const std::vector<TarSource::Picture>& pictures) {
  const auto largest = std::max_element(pictures.begin(), pictures.end(),
                                        [](const auto& a, const auto& b) { return a.label < b.label; });
  Result<std::optional<std::vector<std::string>>> given = read_class_names(folder);
  if (!given) {
    return given.error();
  }
  std::vector<std::string> names = (*given).value_or(std::vector<std::string>());
  if (given->has_value() && largest->label >= static_cast<std::int64_t>(names.size())) {
    return unusable(folder, fmt::format("picture {} has label {}, and there are {} class names", largest->key,
                                        largest->label, names.size()));
  }
  for (std::int64_t label = 0; !given->has_value() && label <= largest->label; ++label) {
    names.push_back(std::to_string(label));
  }
  return names;
}

}  // namespace

Result<std::shared_ptr<const ImageSource>> TarSource::open(const std::vector<std::string>& shards) {
  std::vector<storage::File> files;
  std::vector<Picture> pictures;
  for (const std::string& path : shards) {
    files.emplace_back(path, O_RDONLY);
    if (!files.back()) {
      return unreadable_shard(path, errno, ExitCode::NoInput);
    }
    const auto shard = static_cast<std::uint32_t>(files.size() - 1);
    if (auto read = ShardReader(path, files.back(), shard).read(pictures); !read) {
      return read.error();
    }
  }
  const std::string folder = shards.empty() ? "." : fs::path(shards.front()).parent_path().string();
  if (pictures.empty()) {
    return unusable(folder, "holds no tar archive with pictures");
  }
  Result<std::vector<std::string>> names = class_names_for(folder, pictures);
  if (!names) {
    return names.error();
  }
  return std::shared_ptr<const ImageSource>(
      std::make_shared<TarSource>(shards, std::move(files), std::move(pictures), *std::move(names)));
}

Result<ImageSource::Sample> TarSource::fetch(std::int64_t index, FetchBuffer& buffer) const {
  const Picture& picture = pictures_[static_cast<std::size_t>(index)];
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
  const Picture& picture = pictures_[static_cast<std::size_t>(index)];
  return paths_[picture.shard] + ": " + picture.key;
}

}  // namespace rollcall::data
