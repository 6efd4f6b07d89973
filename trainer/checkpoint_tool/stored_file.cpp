#include "trainer/checkpoint_tool/stored_file.h"

#include <algorithm>
#include <filesystem>

#include "runtime/base/text.h"
#include "trainer/checkpoint/format/folder.h"
#include "trainer/checkpoint/format/schema.h"
#include "trainer/storage/crc32c.h"

namespace rollcall::checkpoint_tool {
namespace {

namespace format = checkpoint::format;

Result<StoredFile> open_newest(const std::string& folder) {
  const auto listed = format::list_checkpoints(folder);
  for (const format::ListedCheckpoint& checkpoint : listed) {
    auto file = StoredFile::open(checkpoint.path);
    if (file || file.error().exit_code != ExitCode::BadData || &checkpoint == &listed.back()) {
      return file;
    }
  }
  return fail("checkpoint", folder, "holds no checkpoint (step-*.h5)", "the folder that --checkpoint-dir named",
              ExitCode::NoInput);
}

}  // namespace

Result<StoredFile> StoredFile::open(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    return open_newest(path);
  }
  auto loaded = format::read_checkpoint(path);
  if (!loaded) {
    return loaded.error();
  }
  StoredFile file;
  file.path_ = path;
  file.file_bytes_ = std::filesystem::file_size(path, ignored);
  file.loaded_ = *std::move(loaded);
  for (const format::TensorView& tensor : file.loaded_.content.tensors) {
    file.tensors_.push_back({tensor.path, tensor.state_dict_key, tensor.dtype, tensor.shape, tensor.bytes.size(),
                             storage::crc32c(tensor.bytes)});
  }
  return file;
}

const StoredTensor* StoredFile::find(std::string_view name) const {
  const auto has_name = [&](const StoredTensor& tensor) { return tensor.key == name || tensor.path == name; };
  const auto found = std::ranges::find_if(tensors_, has_name);
  return found == tensors_.end() ? nullptr : &*found;
}

Result<std::vector<const StoredTensor*>> StoredFile::model() const {
  const auto keys = values().find(format::schema::kModelKeys);
  const auto* const names = keys == values().end() ? nullptr : std::get_if<std::vector<std::string>>(&keys->second);
  if (names == nullptr) {
    return fail("checkpoint", path_, "holds no list of the model's tensors", "another checkpoint", ExitCode::BadData);
  }
  std::map<std::string_view, const StoredTensor*> by_key;
  for (const StoredTensor& tensor : tensors_) {
    by_key.emplace(tensor.key, &tensor);
  }
  std::vector<const StoredTensor*> model;
  for (const std::string& name : *names) {
    const auto found = by_key.find(name);
    if (name.empty() || found == by_key.end()) {
      return fail("checkpoint", path_, "lacks the tensor " + name, "another checkpoint", ExitCode::BadData);
    }
    model.push_back(found->second);
  }
  return model;
}

Result<std::unique_ptr<std::byte[]>> StoredFile::read(const StoredTensor& tensor) const {
  const auto& bytes = loaded_.content.tensors[static_cast<std::size_t>(&tensor - tensors_.data())].bytes;
  auto copy = std::make_unique_for_overwrite<std::byte[]>(bytes.size());
  std::copy(bytes.begin(), bytes.end(), copy.get());
  return copy;
}

Error unknown_tensor(const StoredFile& file, const std::string& name) {
  std::vector<std::string> names;
  for (const StoredTensor& tensor : file.tensors()) {
    names.push_back(tensor.name());
  }
  const auto meant = nearest(name, names);
  return fail("tensor", name, "is not in " + file.path(),
              meant ? *meant : "rollcall-checkpoint show --tensors, which names all");
}

}  // namespace rollcall::checkpoint_tool
