#include "trainer/data/sources/image_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <system_error>

#include "trainer/storage/file.h"

namespace rollcall::data {
namespace {

namespace fs = std::filesystem;

Error unreadable(const std::string& path, int error_number, ExitCode code) {
  return fail("--data", path, "cannot be read: " + errno_text(error_number), "checking the file and its permissions",
              code);
}

Error unreadable_folder(const fs::path& folder, const std::error_code& error) {
  return fail("--data", folder.string(), "cannot be read: " + errno_text(error.value()),
              "checking the path and its permissions", ExitCode::NoInput);
}

bool is_image(const fs::path& path) {
  std::string name = path.filename().string();
  std::transform(name.begin(), name.end(), name.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  constexpr std::array extensions{".jpg", ".jpeg", ".png"};
  return std::any_of(extensions.begin(), extensions.end(), [&](const char* end) { return name.ends_with(end); });
}

/// Names of the class folders, sorted.
Result<std::vector<std::string>> find_classes(const std::string& root) {
  std::error_code error;
  std::vector<std::string> names;
  for (fs::directory_iterator entry(root, error), end; !error && entry != end; entry.increment(error)) {
    std::error_code ignored;  // a dangling link is no folder
    if (entry->is_directory(ignored)) {
      names.push_back(entry->path().filename().string());
    }
  }
  if (error) {
    return unreadable_folder(root, error);
  }
  if (names.empty()) {
    return fail("--data", root, "holds no class folder", "naming a folder with one sub-folder of images per class",
                ExitCode::BadData);
  }
  std::sort(names.begin(), names.end());
  return names;
}

/// Which folder this is, whatever links lead there.
struct FolderIdentity {
  dev_t device = 0;
  ino_t inode = 0;

  friend bool operator==(const FolderIdentity&, const FolderIdentity&) = default;
};

FolderIdentity identity_of(const fs::path& folder) {
  struct stat facts {};
  return ::stat(folder.c_str(), &facts) == 0 ? FolderIdentity{facts.st_dev, facts.st_ino} : FolderIdentity{};
}

/// The folders from a class's folder down to the one that is read: a link back to one of them would be followed for
/// ever.
class OpenFolders {
 public:
  explicit OpenFolders(const fs::path& top) : identities_{identity_of(top)} {}

  /// `depth` of the entry as the iterator counts it, from 0. False where the folder is one of those above it.
  [[nodiscard]] bool enter(const fs::path& folder, int depth) {
    identities_.resize(static_cast<std::size_t>(depth) + 1);
    const FolderIdentity identity = identity_of(folder);
    const bool known = std::find(identities_.begin(), identities_.end(), identity) != identities_.end();
    identities_.push_back(identity);
    return !known;
  }

 private:
  std::vector<FolderIdentity> identities_;
};

/// The images below a class's folder in os.walk's sorted order: by folder path, then by name.
Result<std::vector<fs::path>> find_images(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::path> images;
  OpenFolders open_folders(folder);
  const auto options = fs::directory_options::follow_directory_symlink;
  for (fs::recursive_directory_iterator entry(folder, options, error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code ignored;
    if (entry->is_directory(ignored)) {
      if (!open_folders.enter(entry->path(), entry.depth())) {
        return fail("--data", entry->path().string(), "is a link that leads back to a folder above it",
                    "removing the link", ExitCode::BadData);
      }
    } else if (is_image(entry->path())) {
      images.push_back(entry->path());
    }
  }
  if (error) {
    return unreadable_folder(folder, error);
  }
  if (images.empty()) {
    return fail("--data", folder.string(), "holds no .jpg, .jpeg or .png file",
                "adding images of this class or removing its folder", ExitCode::BadData);
  }
  std::sort(images.begin(), images.end(), [](const fs::path& a, const fs::path& b) {
    const int folders = a.parent_path().native().compare(b.parent_path().native());
    return folders != 0 ? folders < 0 : a.filename().native() < b.filename().native();
  });
  return images;
}

}  // namespace

Result<std::span<const std::byte>> read_file(const std::string& path, std::vector<std::byte>& buffer) {
  // O_NONBLOCK: opening a named pipe would otherwise wait for a writer for ever.
  const storage::File file(path, O_RDONLY | O_NONBLOCK);
  struct stat facts {};
  if (!file || ::fstat(file.descriptor(), &facts) != 0) {
    return unreadable(path, errno, ExitCode::NoInput);
  }
  if (!S_ISREG(facts.st_mode)) {
    return fail("--data", path, "is not a regular file", "removing it from the data set", ExitCode::NoInput);
  }
  const auto size = static_cast<std::size_t>(facts.st_size);
  if (buffer.size() < size) {
    buffer.resize(size);
  }
  std::size_t done = 0;
  while (done < size) {
    const ssize_t count = ::read(file.descriptor(), buffer.data() + done, size - done);
    if (count < 0 && errno != EINTR) {
      return unreadable(path, errno, ExitCode::InputOutput);
    }
    if (count == 0) {
      break;  // the file became shorter meanwhile: the decoder finds it truncated
    }
    done += count > 0 ? static_cast<std::size_t>(count) : 0;
  }
  return std::span<const std::byte>(buffer.data(), done);
}

Result<ImageTree> scan_image_tree(const std::string& root) {
  Result<std::vector<std::string>> names = find_classes(root);
  if (!names) {
    return names.error();
  }
  ImageTree tree{.root = root, .class_names = *std::move(names), .files = {}};
  for (std::size_t label = 0; label < tree.class_names.size(); ++label) {
    const Result<std::vector<fs::path>> images = find_images(fs::path(root) / tree.class_names[label]);
    if (!images) {
      return images.error();
    }
    for (const fs::path& image : *images) {
      tree.files.push_back({image.lexically_relative(root).string(), static_cast<std::int64_t>(label)});
    }
  }
  return tree;
}

Result<ImageSource::Sample> ImageFolder::fetch(std::int64_t index, FetchBuffer& buffer) const {
  const ImageTree::File& file = tree_.files[static_cast<std::size_t>(index)];
  buffer.path.assign(tree_.root).append("/").append(file.path);
  const Result<std::span<const std::byte>> bytes = read_file(buffer.path, buffer.bytes);
  if (!bytes) {
    return bytes.error();
  }
  return Sample{{.bytes = *bytes}, file.label};
}

std::string ImageFolder::describe(std::int64_t index) const {
  return (fs::path(tree_.root) / tree_.files[static_cast<std::size_t>(index)].path).string();
}

}  // namespace rollcall::data
