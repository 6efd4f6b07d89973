#include "trainer/data/sources/picture_list.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "runtime/base/text.h"
#include "trainer/data/sources/image_folder.h"
#include "trainer/data/sources/left_out.h"
#include "trainer/data/sources/tar_index.h"
#include "trainer/data/sources/tar_source.h"

namespace rollcall::data {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSetting = "images";

Error unreadable(const std::string& path, int error_number) {
  return fail(kSetting, path, "cannot be read: " + errno_text(error_number), "naming a file that every node can read",
              ErrorKind::NoInput);
}

Result<void> list_folder(const std::string& folder, PictureList& list, LeftOut& left_out) {
  std::vector<std::string> found;
  std::error_code error;
  for (fs::recursive_directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    std::error_code ignored;
    if (name.starts_with('.') || entry->is_directory(ignored)) {
      continue;
    }
    if (is_picture_ending(last_ending(name))) {
      found.push_back(entry->path().string());
    } else {
      left_out.add("." + last_ending(name), entry->path().string());
    }
  }
  if (error) {
    return unreadable(folder, error.value());
  }
  std::ranges::sort(found);
  for (std::string& path : found) {
    list.pictures.push_back({.name = std::move(path)});
  }
  return {};
}

Result<void> list_archive(const std::string& path, PictureList& list, LeftOut& left_out) {
  const storage::File file(path, O_RDONLY | O_NONBLOCK);
  std::error_code error;
  const std::uint64_t bytes = fs::file_size(path, error);
  if (!file || error) {
    return unreadable(path, file ? error.value() : errno);
  }
  const auto archive = static_cast<std::int64_t>(list.archives.size());
  const auto read_at = [&](std::span<std::byte> into, std::uint64_t offset) {
    return file.read_at(into, offset) == into.size();
  };
  const Result<std::uint64_t> read = index_tar(bytes, read_at, [&](const TarMember& member) -> Result<void> {
    const std::string ending = last_ending(fs::path(member.name).filename().string());
    if (is_picture_ending(ending)) {
      list.pictures.push_back({member.name, archive, member.offset, member.bytes});
    } else if (ending != "cls") {
      left_out.add("." + ending, member.name);
    }
    return {};
  });
  if (!read) {
    Error damage = read.error();
    damage.setting = kSetting;
    damage.value = path;
    return damage;
  }
  list.archives.push_back(path);
  return {};
}

/// Returns the first cell of a line of a CSV file.
std::string first_cell(const std::string& line) {
  std::string cell;
  const bool quoted = line.starts_with('"');
  for (std::size_t i = quoted ? 1 : 0; i < line.size(); ++i) {
    const bool doubled = quoted && line[i] == '"' && i + 1 < line.size() && line[i + 1] == '"';
    if (line[i] == (quoted ? '"' : ',') && !doubled) {
      break;
    }
    i += doubled ? 1 : 0;
    cell += line[i];
  }
  return std::string(trim(cell));
}

Result<void> list_csv(const std::string& path, PictureList& list) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  std::error_code error;
  if (!fs::is_regular_file(path, error)) {  // a pipe would be waited for
    return unreadable(path, fs::exists(path, error) ? EINVAL : ENOENT);
  }
  std::ifstream file(path);
  bool is_first = true;
  for (std::string line; std::getline(file, line); is_first = false) {
    if (is_first && line.starts_with(kByteOrderMark)) {
      line.erase(0, kByteOrderMark.size());
    }
    const std::string cell = first_cell(line);
    if (!cell.empty() && !(is_first && lower_case(cell) == "path")) {
      list.pictures.push_back({.name = (fs::path(path).parent_path() / cell).string()});
    }
  }
  return file.eof() ? Result<void>() : Result<void>(unreadable(path, errno));
}

}  // namespace

Result<PictureList> list_pictures(const std::vector<std::string>& inputs, std::vector<std::string>& warnings) {
  PictureList list;
  LeftOut left_out;
  for (const std::string& input : inputs) {
    std::error_code ignored;
    const std::string ending = last_ending(input);
    const bool is_folder = fs::is_directory(input, ignored);
    RETURN_IF_ERROR(is_folder         ? list_folder(input, list, left_out)
                    : ending == "tar" ? list_archive(input, list, left_out)
                    : ending == "csv" ? list_csv(input, list)
                                      : Result<void>());
    if (!is_folder && ending != "tar" && ending != "csv") {
      list.pictures.push_back({.name = input});
    }
  }
  if (!left_out.is_empty()) {
    warnings.push_back("images: files whose endings are not those of pictures are left out, " + left_out.text());
  }
  if (list.pictures.empty()) {
    return fail(kSetting, inputs.front(), "holds no pictures (" + picture_endings() + ")", "naming a folder with some",
                ErrorKind::NoInput);
  }
  return list;
}

std::string to_bytes(const PictureList& list) {
  nlohmann::json pictures = nlohmann::json::array();
  for (const PictureList::Picture& one : list.pictures) {
    pictures.push_back({one.name, one.archive, one.offset, one.bytes});
  }
  std::string bytes;
  nlohmann::json::to_cbor(nlohmann::json{list.archives, std::move(pictures)}, bytes);
  return bytes;
}

PictureList picture_list_of(const std::string& bytes) {
  const nlohmann::json json = nlohmann::json::from_cbor(bytes);
  PictureList list{json.at(0).get<std::vector<std::string>>(), {}};
  for (const nlohmann::json& one : json.at(1)) {
    list.pictures.push_back({one.at(0).get<std::string>(), one.at(1).get<std::int64_t>(),
                             one.at(2).get<std::uint64_t>(), one.at(3).get<std::uint64_t>()});
  }
  return list;
}

Result<std::shared_ptr<const ImageSource>> PictureListSource::open(PictureList list) {
  std::vector<storage::File> archives;
  for (const std::string& path : list.archives) {
    archives.emplace_back(path, O_RDONLY | O_NONBLOCK);
    if (!archives.back()) {
      return unreadable(path, errno);
    }
  }
  return std::shared_ptr<const ImageSource>(std::make_shared<PictureListSource>(std::move(list), std::move(archives)));
}

Result<ImageSource::Sample> PictureListSource::fetch(std::int64_t index, FetchBuffer& buffer) const {
  const PictureList::Picture& picture = list_.pictures[static_cast<std::size_t>(index)];
  if (picture.archive < 0) {
    ASSIGN_OR_RETURN(const std::span<const std::byte> bytes, read_file(picture.name, buffer.bytes));
    return Sample{{.bytes = bytes}, 0};
  }
  ASSIGN_OR_RETURN(const std::span<const std::byte> bytes,
                   read_member(
                       archives_[static_cast<std::size_t>(picture.archive)], picture.offset, picture.bytes,
                       [&] { return describe(index); }, buffer));
  return Sample{{.bytes = bytes}, 0};
}

std::string PictureListSource::describe(std::int64_t index) const {
  const PictureList::Picture& picture = list_.pictures[static_cast<std::size_t>(index)];
  return picture.archive < 0 ? picture.name
                             : list_.archives[static_cast<std::size_t>(picture.archive)] + ": " + picture.name;
}

}  // namespace rollcall::data
