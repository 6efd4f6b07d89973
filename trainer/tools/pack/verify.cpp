#include "trainer/tools/pack/verify.h"

#include <fmt/format.h>

#include <filesystem>

#include "trainer/data/packed/packed_file.h"
#include "trainer/tools/pack/ordered_pool.h"
#include "trainer/tools/pack/stop_request.h"

namespace rollcall::pack {
namespace {

/// The tables that open() leaves alone.
Result<void> verify_names(const data::PackedFile& file) {
  const data::PackedLayout& layout = file.layout();
  const auto offsets = file.read_table(layout.name_offset, data::packed_schema::kNameOffset);
  if (!offsets) {
    return offsets.error();
  }
  const auto names = file.read_table(layout.name_data, data::packed_schema::kNameData);
  if (!names) {
    return names.error();
  }
  if (layout.name_offset.elements != file.entries().size() + 1) {
    return data::damaged_packed_file(file.path(), "is damaged: there is not one name for each sample");
  }
  return {};
}

}  // namespace

Result<VerifyReport> verify_file(const std::string& path, std::size_t threads, metrics::WorkProgress& progress) {
  const Result<data::PackedFile> file = data::PackedFile::open(path);
  if (!file) {
    return file.error();
  }
  if (const auto names = verify_names(*file); !names) {
    return names.error();
  }
  VerifyReport report{.path = path,
                      .format_version = file->layout().format_version,
                      .filled_edges = file->may_have_filled_edges(),
                      .samples = file->entries().size(),
                      .damaged = {}};
  progress.begin("verifying " + std::filesystem::path(path).filename().string(), report.samples);
  std::vector<std::vector<std::byte>> buffers(threads);
  OrderedPool<Result<void>> checks(report.samples, threads, [&](std::size_t thread, std::size_t index) -> Result<void> {
    const auto read = file->read(index, buffers[thread]);
    return read ? Result<void>() : read.error();
  });
  for (std::size_t index = 0; index < report.samples; ++index) {
    const Result<void> sound = checks.next();
    if (!sound && sound.error().exit_code == ExitCode::InputOutput) {
      return sound.error();
    }
    if (!sound) {
      const std::string name = file->name(index);
      report.damaged.push_back(name.empty() ? fmt::format("sample {}", index) : name);
    }
    progress.step(index + 1, file->entries()[index].offset + file->entries()[index].stored_bytes());
    if (stop_requested()) {
      return fail("rollcall-pack", path, "interrupted", "the same command again", ExitCode::Interrupted);
    }
  }
  return report;
}

}  // namespace rollcall::pack
