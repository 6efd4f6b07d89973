#include "trainer/data/sources/picture_list.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "runtime/base/small_file.h"
#include "runtime/base/text.h"
#include "trainer/data/sources/csv_rows.h"
#include "trainer/data/sources/image_folder.h"
#include "trainer/data/sources/left_out.h"
#include "trainer/data/sources/tar_index.h"
#include "trainer/data/sources/tar_source.h"

namespace rollcall::data {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSetting = "images";

Error unreadable(const std::string& path, const std::string& reason) {
  return fail(kSetting, path, "cannot be read: " + reason, "naming a file that every node can read",
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
    return unreadable(folder, errno_text(error.value()));
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
    return unreadable(path, errno_text(file ? error.value() : errno));
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

Result<void> list_csv(const std::string& path, PictureList& list) {
  std::string text;
  if (const FileReading reading = read_small_file(path, kMostCsvBytes, text); !reading.reason.empty()) {
    return unreadable(path, reading.reason);
  }
  CsvRows rows(text);
  std::vector<std::string> fields;
  while (rows.next(fields)) {
    const std::string cell(trim(fields.front()));
    if (!cell.empty() && !(rows.number() == 1 && lower_case(cell) == "path")) {
      list.pictures.push_back({.name = (fs::path(path).parent_path() / cell).string()});
    }
  }
  return rows.has_open_quote()
             ? fail(kSetting, path, "begins a quote that does not end", "adding the closing quote", ErrorKind::BadData)
             : Result<void>();
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
      return unreadable(path, errno_text(errno));
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
