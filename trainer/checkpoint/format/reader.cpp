#include "trainer/checkpoint/format/reader.h"

#include <algorithm>
#include <optional>

#include "trainer/checkpoint/format/open_file.h"

namespace rollcall::checkpoint::format {
namespace {

/// Puts one data set into `loaded`; data sets of kinds that this version does not know are left out.
void add_to(LoadedContent& loaded, const ManifestEntry& entry, StoredDataset& dataset) {
  const std::span<const std::byte> bytes(dataset.bytes.get(), entry.bytes);
  if (dataset.dtype) {
    loaded.content.tensors.push_back({entry.name, dataset.state_dict_key, *dataset.dtype, dataset.shape, bytes});
    loaded.storage.push_back(std::move(dataset.bytes));
  } else if (auto value = value_of(dataset, bytes)) {
    loaded.content.values.emplace(entry.name, std::move(*value));
  }
}

}  // namespace

Result<LoadedContent> read_checkpoint(const std::string& path) {
  auto file = OpenFile::open(path, Completeness::Required);
  if (!file) {
    return file.error();
  }
  const auto entries = file->manifest();
  if (!entries) {
    return entries.error();
  }
  LoadedContent loaded;
  for (const ManifestEntry& entry : *entries) {
    auto dataset = file->read(entry);
    if (!dataset) {
      return dataset.error();
    }
    add_to(loaded, entry, *dataset);
  }
  return loaded;
}

Result<FileInfo> read_info(const std::string& path) {
  auto file = OpenFile::open(path, Completeness::Required);
  if (!file) {
    return file.error();
  }
  return file->info();
}

Result<void> verify_file(const std::string& path, Completeness completeness) {
  auto file = OpenFile::open(path, completeness);
  if (!file) {
    return file.error();
  }
  const auto entries = file->manifest();
  if (!entries) {
    return entries.error();
  }
  for (const ManifestEntry& entry : *entries) {
    if (const auto dataset = file->read(entry); !dataset) {
      return dataset.error();
    }
  }
  return {};
}

}  // namespace rollcall::checkpoint::format
