#include "trainer/checkpoint/format/writer.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <vector>

#include "trainer/checkpoint/format/dataset.h"
#include "trainer/checkpoint/format/durable_file.h"
#include "trainer/checkpoint/format/host.h"
#include "trainer/checkpoint/format/manifest.h"
#include "trainer/checkpoint/format/reader.h"
#include "trainer/checkpoint/format/schema.h"
#include "trainer/checkpoint/format/skeleton.h"
#include "trainer/storage/hdf5_handle.h"

namespace rollcall::checkpoint::format {
namespace {

/// Everything that goes into the file, the manifest last: it tells of all before it.
std::vector<Dataset> datasets_of(const Content& content) {
  std::vector<Dataset> datasets;
  datasets.reserve(content.tensors.size() + content.values.size() + 1);
  for (const TensorView& tensor : content.tensors) {
    datasets.push_back(dataset_of(tensor));
  }
  for (const auto& [path, value] : content.values) {
    datasets.push_back(dataset_of(path, value));
  }
  std::vector<ManifestEntry> entries;
  entries.reserve(datasets.size());
  for (const Dataset& dataset : datasets) {
    entries.push_back({dataset.path, dataset.bytes.size(), dataset.crc32c});
  }
  datasets.push_back(dataset_of(schema::kManifest, manifest_to_json(entries)));
  return datasets;
}

class Write {
 public:
  Write(std::string path, const WriterOptions& options)
      : path_(std::move(path)), temporary_(temporary_name(path_)), options_(options) {}
  ~Write() {
    if (!renamed_) {
      ::unlink(temporary_.c_str());
    }
  }
  Write(const Write&) = delete;
  Write& operator=(const Write&) = delete;

  Result<void> run(const Content& content) {
    const std::vector<Dataset> datasets = datasets_of(content);
    if (auto written = write_data(datasets); !written) {
      return written;
    }
    if (auto verified = verify_file(temporary_, Completeness::NotYet); !verified) {
      return fail("checkpoint", temporary_, "reading back what was written failed: " + verified.error().reason,
                  "setting --checkpoint-dir to another file system, and having this one checked",
                  ExitCode::InputOutput);
    }
    passed(Stage::Verified);
    if (auto marked = complete(); !marked) {
      return marked;
    }
    return rename();
  }

 private:
  Result<void> write_data(const std::vector<Dataset>& datasets) {
    ::unlink(temporary_.c_str());  // of a dead process that had our number
    const auto offsets = create_skeleton(temporary_, datasets, options_);
    if (!offsets) {
      return offsets.error();
    }
    passed(Stage::SkeletonCreated);
    auto file = DurableFile::open(temporary_);
    if (!file) {
      return file.error();
    }
    for (std::size_t i = 0; i < datasets.size(); ++i) {
      if (auto written = file->write(datasets[i].bytes, (*offsets)[i]); !written) {
        return written;
      }
      passed(Stage::DatasetWritten);
    }
    if (auto synced = file->sync(); !synced) {
      return synced;
    }
    passed(Stage::Synced);
    return {};
  }

  Result<void> complete() {
    if (auto marked = mark_complete(temporary_); !marked) {
      return marked;
    }
    auto file = DurableFile::open(temporary_);
    if (!file) {
      return file.error();
    }
    if (auto synced = file->sync(); !synced) {
      return synced;
    }
    passed(Stage::MarkedComplete);
    return {};
  }

  Result<void> rename() {
    if (std::rename(temporary_.c_str(), path_.c_str()) != 0) {
      return fail("checkpoint", path_, "the finished file cannot be given its name: " + errno_text(errno),
                  "removing what is in the way", ExitCode::CannotCreate);
    }
    renamed_ = true;
    const std::string folder = std::filesystem::path(path_).parent_path().string();
    if (auto synced = sync_folder(folder.empty() ? "." : folder); !synced) {
      return synced;
    }
    passed(Stage::Renamed);
    return {};
  }

  void passed(Stage stage) const {
    if (options_.after) {
      options_.after(stage);
    }
  }

  std::string path_;
  std::string temporary_;
  const WriterOptions& options_;
  bool renamed_ = false;
};

}  // namespace

std::string temporary_name(const std::string& path) {
  return path + ".tmp-" + host_name() + "-" + std::to_string(::getpid());
}

Result<void> write_checkpoint(const std::string& path, const Content& content, const WriterOptions& options) {
  storage::silence_hdf5();
  return Write(path, options).run(content);
}

}  // namespace rollcall::checkpoint::format
