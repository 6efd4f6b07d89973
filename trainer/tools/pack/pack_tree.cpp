#include "trainer/tools/pack/pack_tree.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/base/text.h"
#include "trainer/data/sources/packed_file.h"
#include "trainer/storage/crc.h"
#include "trainer/tools/pack/ordered_pool.h"
#include "trainer/tools/pack/partial_file.h"

namespace rollcall::pack {
namespace {

volatile std::sig_atomic_t requested = 0;

void remember(int signal) {
  if (signal == SIGINT && requested != 0) {
    std::signal(SIGINT, SIG_DFL);
    std::raise(SIGINT);
  }
  requested = 1;
}

namespace fs = std::filesystem;

/// Returns the checksum of everything that decides the content of the packed file, except the pictures themselves.
std::uint32_t input_checksum(const data::ImageTree& tree, const PrepareOptions& options) {
  std::string text = fmt::format("repack={} resize={} quality={}", options.repack, options.resize,
                                 options.resize > 0 ? options.quality : 0);
  const auto add = [&](std::string_view part) { text.append(1, '\0').append(part); };
  for (const std::string& name : tree.class_names()) {
    add(name);
  }
  for (std::size_t file = 0; file < tree.size(); ++file) {
    add(tree.name(file));
    add(std::to_string(tree.label(file)));
  }
  return storage::crc32c(std::as_bytes(std::span(text)));
}

class TreePacker {
 public:
  TreePacker(const data::ImageTree& tree, std::string out, const PackOptions& options, metrics::WorkProgress& progress)
      : tree_(tree),
        out_(std::move(out)),
        options_(options),
        progress_(progress),
        input_crc32c_(input_checksum(tree, options.prepare)) {}

  Result<PackReport> run();

 private:
  [[nodiscard]] Result<std::optional<PackReport>> earlier_report() const;
  [[nodiscard]] Result<void> check_earlier_work(PartialFile& partial);
  [[nodiscard]] Result<void> pack_rest(PartialFile& partial);
  [[nodiscard]] Result<void> verify(PartialFile& partial);
  [[nodiscard]] std::optional<Error> objection(const PreparedSample& sample, std::size_t index) const;
  [[nodiscard]] Error interrupted(const PartialFile& partial) const;
  [[nodiscard]] Result<data::PackedContent> content(const PartialFile& partial) const;
  [[nodiscard]] Result<PackReport> report(const PartialFile& partial) const;

  [[nodiscard]] std::string path_of(std::size_t index) const { return tree_.path(index); }
  [[nodiscard]] std::string out_name() const { return fs::path(out_).filename().string(); }

  const data::ImageTree& tree_;
  std::string out_;
  const PackOptions& options_;
  metrics::WorkProgress& progress_;
  std::uint32_t input_crc32c_;
  std::size_t earlier_ = 0;
  std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
};

/// Returns the report if an earlier run has done the same work.
Result<std::optional<PackReport>> TreePacker::earlier_report() const {
  std::error_code ignored;
  if (options_.overwrite || !fs::exists(fs::symlink_status(out_, ignored))) {
    return std::optional<PackReport>();
  }
  const Result<data::PackedFile> file = data::PackedFile::open(out_);
  if (file && file->layout().input_crc32c == input_crc32c_) {
    ::unlink((out_ + ".partial.journal").c_str());  // left by a run that was killed before its last step
    PackReport report;
    report.out = out_;
    report.format_version = file->layout().format_version;
    report.was_there_already = true;
    return std::optional(report);
  }
  return fail("OUT", out_, "exists and holds something else", "--overwrite, or choosing another name",
              ErrorKind::CannotCreate);
}

Error TreePacker::interrupted(const PartialFile& partial) const {
  return fail(
      "OUT", out_, fmt::format("interrupted: {} of {} files are done", partial.records().size(), tree_.size()),
      fmt::format("running the same command again to continue (or removing {})", PartialFile::partial_files(out_)),
      ErrorKind::Interrupted);
}

/// Keeps the samples before the first whose bytes or file changed.
Result<void> TreePacker::check_earlier_work(PartialFile& partial) {
  const std::size_t count = std::min(partial.records().size(), tree_.size());
  if (count == 0) {
    return partial.keep(0);
  }
  progress_.begin("checking earlier work on " + out_name(), count);
  std::vector<std::vector<std::byte>> buffers(options_.threads);
  std::size_t sound = 0;
  {
    OrderedPool<bool> checks(count, options_.threads, [&](std::size_t thread, std::size_t index) {
      return partial.is_sound(index, buffers[thread]) &&
             source_facts(path_of(index)) == partial.records()[index].source;
    });
    while (sound < count && checks.next()) {
      progress_.step(++sound, 0);
      if (stop_requested()) {
        return interrupted(partial);
      }
    }
  }
  earlier_ = sound;
  return partial.keep(sound);
}

/// Returns the error with which the work ends at this sample.
std::optional<Error> TreePacker::objection(const PreparedSample& sample, std::size_t index) const {
  // A failing device says nothing about the file, so the file must not be left out.
  const bool is_files_fault = sample.kind != ErrorKind::InputOutput && sample.kind != ErrorKind::Internal;
  if (sample.outcome != Outcome::Bad || (options_.skip_bad && is_files_fault)) {
    return std::nullopt;
  }
  return fail("DIR", path_of(index), sample.note,
              is_files_fault
                  ? "repairing or removing it, or --bad-samples=skip, then running the same command again to continue"
                  : "running the same command again to continue",
              is_files_fault ? ErrorKind::BadData : sample.kind);
}

Result<void> TreePacker::pack_rest(PartialFile& partial) {
  const std::size_t first = partial.records().size();
  progress_.begin("packing " + out_name(), tree_.size(), first);
  std::vector<Preparer> preparers;
  preparers.reserve(options_.threads);
  for (std::size_t thread = 0; thread < options_.threads; ++thread) {
    preparers.emplace_back(options_.prepare);
  }
  OrderedPool<PreparedSample> samples(
      tree_.size() - first, options_.threads, [&](std::size_t thread, std::size_t index) {
        return preparers[thread].prepare(path_of(first + index), static_cast<std::int32_t>(tree_.label(first + index)));
      });
  for (std::size_t index = first; index < tree_.size(); ++index) {
    const PreparedSample sample = samples.next();
    if (std::optional<Error> error = objection(sample, index)) {
      return *std::move(error);
    }
    RETURN_IF_ERROR(partial.append(sample));
    progress_.step(index + 1, partial.data_bytes());
    if (stop_requested() && index + 1 < tree_.size()) {
      return interrupted(partial);
    }
  }
  return {};
}

/// Reads all samples back from the device.
Result<void> TreePacker::verify(PartialFile& partial) {
  RETURN_IF_ERROR(partial.sync());
  const std::size_t count = partial.records().size();
  progress_.begin("verifying " + out_name(), count);
  std::vector<std::vector<std::byte>> buffers(options_.threads);
  OrderedPool<bool> checks(count, options_.threads, [&](std::size_t thread, std::size_t index) {
    return partial.is_sound(index, buffers[thread]);
  });
  for (std::size_t index = 0; index < count; ++index) {
    if (!checks.next()) {
      return fail("DIR", path_of(index), fmt::format("has other bytes when read back from {}", out_),
                  "running the same command again, or writing to another file system", ErrorKind::InputOutput);
    }
    progress_.step(index + 1, partial.records()[index].entry.offset);
    if (stop_requested()) {
      return interrupted(partial);
    }
  }
  return {};
}

Result<data::PackedContent> TreePacker::content(const PartialFile& partial) const {
  data::PackedContent content{.columns = {},
                              .class_names = tree_.class_names(),
                              .data_bytes = partial.data_bytes(),
                              .writer = options_.writer,
                              .created = options_.created,
                              .input_crc32c = input_crc32c_};
  for (std::size_t i = 0; i < partial.records().size(); ++i) {
    const JournalRecord& record = partial.records()[i];
    if (record.outcome != Outcome::Bad) {
      content.columns.add(record.entry, std::string(tree_.name(i)));
    }
  }
  if (content.columns.offset.empty()) {
    return fail("DIR", tree_.root, "holds no usable images", "naming a folder of images", ErrorKind::BadData);
  }
  return content;
}

Result<PackReport> TreePacker::report(const PartialFile& partial) const {
  PackReport report;
  report.out = out_;
  report.format_version = data::packed_schema::version();
  report.classes = tree_.class_names().size();
  report.from_earlier_run = earlier_;
  std::set<fs::path> folders{""};
  std::vector<bool> filled(tree_.class_names().size());
  for (std::size_t i = 0; i < partial.records().size(); ++i) {
    const JournalRecord& record = partial.records()[i];
    folders.insert(fs::path(tree_.name(i)).parent_path());
    if (record.outcome == Outcome::Bad) {
      report.bad.push_back({std::string(tree_.name(i)), record.note});
      report.from_earlier_run -= i < earlier_ ? 1 : 0;
      continue;
    }
    ++report.samples;
    filled[tree_.label(i)] = true;
    report.bytes_in += static_cast<std::uint64_t>(record.source.bytes);
    report.repacked += record.outcome == Outcome::Repacked || record.outcome == Outcome::ResizedAndRepacked ? 1 : 0;
    report.resized += record.outcome == Outcome::Resized || record.outcome == Outcome::ResizedAndRepacked ? 1 : 0;
    if (!record.note.empty()) {
      ++report.not_repacked[record.note];
    }
  }
  for (std::size_t label = 0; label < filled.size(); ++label) {
    if (!filled[label]) {
      report.empty_classes.push_back(tree_.class_names()[label]);
    }
  }
  report.inodes_in = tree_.size() + folders.size();
  return report;
}

Result<PackReport> TreePacker::run() {
  ASSIGN_OR_RETURN(const std::optional<PackReport> earlier, earlier_report());
  if (earlier) {
    return *earlier;
  }
  ASSIGN_OR_RETURN(PartialFile partial, PartialFile::open(out_, input_crc32c_, options_.overwrite));
  for (const auto step : {&TreePacker::check_earlier_work, &TreePacker::pack_rest, &TreePacker::verify}) {
    const Result<void> done = (this->*step)(partial);
    progress_.end();
    if (!done) {
      return done.error();
    }
  }
  ASSIGN_OR_RETURN(const data::PackedContent whole, content(partial));
  Result<PackReport> finished = report(partial);
  RETURN_IF_ERROR(partial.finish(whole));
  std::error_code ignored;
  finished->bytes_out = fs::file_size(out_, ignored);
  finished->seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun_).count();
  return finished;
}

}  // namespace

void catch_stop_requests() {
  struct sigaction action {};
  action.sa_handler = remember;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

bool stop_requested() { return requested != 0; }

Result<PackReport> pack_tree(const data::ImageTree& tree, const std::string& out, const PackOptions& options,
                             metrics::WorkProgress& progress) {
  return TreePacker(tree, out, options, progress).run();
}

}  // namespace rollcall::pack
