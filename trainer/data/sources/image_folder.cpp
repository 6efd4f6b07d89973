#include "trainer/data/sources/image_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "trainer/data/sources/image_source.h"
#include "trainer/data/sources/left_out.h"
#include "trainer/storage/file.h"

namespace rollcall::data {
namespace {

namespace fs = std::filesystem;

Error unreadable(const std::string& path, int error_number, ErrorKind kind) {
  return fail("--data", path, "cannot be read: " + errno_text(error_number), "checking the file and its permissions",
              kind);
}

Error unreadable_folder(const fs::path& folder, const std::error_code& error) {
  return fail("--data", folder.string(), "cannot be read: " + errno_text(error.value()),
              "checking the path and its permissions", ErrorKind::NoInput);
}

/// Returns whether a name is that of a picture, except for the "._NAME" files of macOS.
bool is_image(const std::string& name) {
  const std::size_t dot = name.rfind('.');
  return dot != std::string::npos && is_picture_ending(name.substr(dot + 1)) && !name.starts_with("._");
}

/// Returns whether an entry of a folder is a folder; links are followed. Errors (NoInput) if the system does not tell:
/// the target of a link may exist again in the next run, and its pictures must not be missed silently until then. A
/// picture that cannot be reached is found when it is read.
Result<bool> is_folder(const fs::directory_entry& entry) {
  std::error_code error;
  const bool link = entry.is_symlink(error);  // most file systems return it with the name: no further system call
  if (!link && entry.is_regular_file(error)) {
    return false;
  }
  if (!link && entry.is_directory(error)) {
    return true;
  }
  struct stat facts {};
  if (::stat(entry.path().c_str(), &facts) == 0) {
    return S_ISDIR(facts.st_mode);
  }
  const int failed = errno;
  const bool removed = failed == ENOENT && !link;  // after its name was read
  if (removed || is_image(entry.path().filename().string())) {
    return false;
  }
  const char* const what = link ? "is a link whose target cannot be reached: " : "cannot be read: ";
  return fail("--data", entry.path().string(), what + errno_text(failed),
              "restoring it, or removing it from the data set", ErrorKind::NoInput);
}

/// Returns the names of the class folders, sorted. Pictures beside them belong to no class.
Result<std::vector<std::string>> find_classes(const std::string& root, LeftOut& left_out) {
  std::error_code error;
  std::vector<std::string> names;
  for (fs::directory_iterator entry(root, error), end; !error && entry != end; entry.increment(error)) {
    ASSIGN_OR_RETURN(const bool folder, is_folder(*entry));
    const std::string name = entry->path().filename().string();
    if (folder) {
      names.push_back(name);
    } else if (is_image(name)) {
      left_out.add("beside the class folders", name);
    }
  }
  if (error) {
    return unreadable_folder(root, error);
  }
  if (names.empty()) {
    return fail("--data", root, std::string("holds no class folders") + (left_out.is_empty() ? "" : ", only pictures"),
                "naming a folder with one sub-folder of images per class", ErrorKind::BadData);
  }
  std::sort(names.begin(), names.end());
  return names;
}

/// Identifies a folder, whatever links lead to it.
struct FolderIdentity {
  dev_t device = 0;
  ino_t inode = 0;

  friend bool operator==(const FolderIdentity&, const FolderIdentity&) = default;
};

FolderIdentity identity_of(const fs::path& folder) {
  struct stat facts {};
  return ::stat(folder.c_str(), &facts) == 0 ? FolderIdentity{facts.st_dev, facts.st_ino} : FolderIdentity{};
}

/// Lists one class, whose folder is `name` below the root.
class ClassScan {
 public:
  ClassScan(const std::string& root, const std::string& name, SourceIndices& indices)
      : root_(root), name_(name), indices_(indices) {}

  /// Lists the images in os.walk's sorted order: by folder path, then by name.
  Result<void> run(std::uint32_t label) {
    RETURN_IF_ERROR(list(name_));
    std::sort(folders_.begin(), folders_.end(), [](const Folder& a, const Folder& b) { return a.path < b.path; });
    for (Folder& folder : folders_) {
      std::sort(folder.images.begin(), folder.images.end());
      for (const std::string& image : folder.images) {
        samples.add({.label = label}, folder.path + "/" + image);
      }
    }
    if (samples.size() == 0) {
      return fail("--data", root_ + "/" + name_,
                  "holds no pictures (" + picture_endings() + ")" +
                      (left_out.is_empty() ? "" : ", only other files, " + left_out.text()),
                  "adding images of this class or removing its folder", ErrorKind::BadData);
    }
    folders_.clear();
    return {};
  }

  SampleIndexBuilder samples;
  std::vector<FileStamp> stamps;
  LeftOut left_out;

 private:
  struct Folder {
    std::string path;  ///< relative to the root
    std::vector<std::string> images;
  };

  /// Lists `path`, relative to the root, and everything below it.
  Result<void> list(const std::string& path) {
    const fs::path folder = fs::path(root_) / path;
    const FolderIdentity identity = identity_of(folder);
    if (std::find(open_.begin(), open_.end(), identity) != open_.end()) {  // would be followed endlessly
      return fail("--data", folder.string(), "is a link to a folder above it", "removing the link", ErrorKind::BadData);
    }
    open_.push_back(identity);
    stamps.push_back(file_stamp(folder));  // before it is read: a change meanwhile shows
    std::vector<std::string> below;
    std::vector<std::string> images;
    std::error_code error;
    for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
      ASSIGN_OR_RETURN(const bool is_below, is_folder(*entry));
      std::string name = entry->path().filename().string();
      if (is_below) {
        below.push_back(std::move(name));
      } else if (is_image(name)) {
        images.push_back(std::move(name));
      } else if (!name.starts_with('.')) {
        const std::string ending = last_ending(name);
        left_out.add(ending.empty() ? "without an ending" : "." + ending, std::string(path).append("/").append(name));
      }
    }
    if (error) {
      return unreadable_folder(folder, error);
    }
    if (indices_.stop) {
      return indexing_stopped(root_);
    }
    indices_.found += static_cast<std::int64_t>(images.size());
    folders_.push_back({path, std::move(images)});
    for (const std::string& name : below) {
      RETURN_IF_ERROR(list(std::string(path).append("/").append(name)));
    }
    open_.pop_back();
    return {};
  }

  const std::string& root_;
  const std::string& name_;
  SourceIndices& indices_;
  std::vector<FolderIdentity> open_;  ///< from the class's folder down to the one that is read
  std::vector<Folder> folders_;
};

Result<SampleIndex> index_tree(const std::string& source, const std::string& root, SourceIndices& indices) {
  SampleIndex::About about{.source = source, .class_names = {}, .stamps = {file_stamp(root)}};
  LeftOut left_out;
  ASSIGN_OR_RETURN(std::vector<std::string> names, find_classes(root, left_out));
  about.class_names = std::move(names);
  std::vector<ClassScan> classes;
  for (const std::string& name : about.class_names) {
    classes.emplace_back(root, name, indices);
  }
  RETURN_IF_ERROR(
      in_parallel(classes.size(), [&](std::size_t i) { return classes[i].run(static_cast<std::uint32_t>(i)); }));
  SampleIndexBuilder samples;
  for (ClassScan& scan : classes) {
    samples.append(std::exchange(scan.samples, {}));
    about.stamps.insert(about.stamps.end(), scan.stamps.begin(), scan.stamps.end());
    left_out.append(scan.left_out);
  }
  if (!left_out.is_empty()) {
    about.warning = "--data: " + root + ": files whose endings are not those of pictures are left out, " +
                    left_out.text() + "; try converting those that are pictures";
  }
  return samples.finish(about);
}

/// Warns if a folder above or below the intended one was named, which also has sub-folders.
void warn_of_level(const ImageTree& tree, SourceIndices& indices) {
  const std::vector<std::string>& classes = tree.class_names();
  bool is_deeper = true;  // no picture is directly in a class folder
  for (std::size_t file = 0; is_deeper && file < tree.size(); ++file) {
    const std::string_view name = tree.name(file);
    is_deeper = name.find('/') != name.rfind('/');
  }
  const std::string action = "; try naming the folder whose sub-folders are the classes";
  if (classes.size() == 1) {
    indices.warn("--data: " + tree.root + ": holds only one class, " + classes[0] + action);
  } else if (is_deeper) {
    indices.warn("--data: " + tree.root + ": its classes are " + classes[0] + ", " + classes[1] +
                 (classes.size() > 2 ? ", ..." : "") + ", but the pictures are in folders below them, such as " +
                 std::string(tree.name(0)) + action);
  }
}

}  // namespace

Result<std::span<const std::byte>> read_file(const std::string& path, std::vector<std::byte>& buffer) {
  // O_NONBLOCK: opening a named pipe would otherwise wait for a writer.
  const storage::File file(path, O_RDONLY | O_NONBLOCK);
  struct stat facts {};
  if (!file || ::fstat(file.descriptor(), &facts) != 0) {
    return unreadable(path, errno, ErrorKind::NoInput);
  }
  if (!S_ISREG(facts.st_mode)) {
    return fail("--data", path, "is not a regular file", "removing it from the data set", ErrorKind::NoInput);
  }
  const auto size = static_cast<std::size_t>(facts.st_size);
  if (size > kMostPictureBytes) {
    return fail("--data", path, "has " + std::to_string(size) + " bytes, more than a picture may have (256 MiB)",
                "removing it from the data set", ErrorKind::BadData);
  }
  if (buffer.size() < size) {
    buffer.resize(size);
  }
  std::size_t done = 0;
  while (done < size) {
    const ssize_t count = ::read(file.descriptor(), buffer.data() + done, size - done);
    if (count < 0 && errno != EINTR) {
      return unreadable(path, errno, ErrorKind::InputOutput);
    }
    if (count == 0) {
      break;  // the file became shorter: the decoder reports it as truncated
    }
    done += count > 0 ? static_cast<std::size_t>(count) : 0;
  }
  return std::span<const std::byte>(buffer.data(), done);
}

Result<ImageTree> scan_image_tree(const std::string& root, SourceIndices& indices) {
  std::error_code ignored;
  const std::string source = "tree of " + picture_endings() + "\n" + fs::absolute(root, ignored).string();
  ASSIGN_OR_RETURN(SampleIndex index, indices.get_or_make(source, [&] { return index_tree(source, root, indices); }));
  ImageTree tree{root, std::move(index)};
  warn_of_level(tree, indices);
  return tree;
}

Result<ImageSource::Sample> ImageFolder::fetch(std::int64_t index, FetchBuffer& buffer) const {
  const std::string_view name = tree_.index.name(index);
  buffer.path.clear();
  if (!name.starts_with('/')) {  // a list may have absolute paths
    buffer.path.append(tree_.root).append("/");
  }
  buffer.path.append(name);
  ASSIGN_OR_RETURN(const std::span<const std::byte> bytes, read_file(buffer.path, buffer.bytes));
  return Sample{{.bytes = bytes}, tree_.index.entry(index).label};
}

std::string ImageFolder::describe(std::int64_t index) const {
  return (fs::path(tree_.root) / tree_.index.name(index)).string();
}

}  // namespace rollcall::data
