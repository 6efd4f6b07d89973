#include "trainer/tools/pack/program.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <ctime>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/base/text.h"
#include "runtime/base/this_process.h"
#include "runtime/command_line/command_line.h"
#include "runtime/command_line/tool_main.h"
#include "trainer/data/sources/class_names.h"
#include "trainer/data/sources/data_parts.h"
#include "trainer/data/sources/packed_file.h"
#include "trainer/metrics/progress_display.h"
#include "trainer/tools/pack/ordered_pool.h"
#include "trainer/tools/pack/pack_tree.h"
#include "trainer/tools/pack/report.h"

namespace rollcall::pack {
namespace {

namespace fs = std::filesystem;

using settings::Kind;
using settings::Setting;

constexpr std::array kTable{
    Setting{"repack", Kind::Switch, "false", "on|off",
            "Re-encode JPEG files without loss into tiles of about 64 pixels. Training then decodes only what a "
            "crop needs, about 1.4 times as fast. The pixels are the same, the files about 1 % smaller",
            "Packing"},
    Setting{"resize", Kind::Integer, "0", "PIXELS",
            "Shrink larger images so that the shorter side has this many pixels, as JPEG (lossy). 0: do not", "Packing",
            "", 0, 65535},
    Setting{"quality", Kind::Integer, "92", "N", "JPEG quality of the images that --resize shrinks", "Packing", "", 50,
            100},
    Setting{"bad-samples", Kind::Choice, "fail", "fail|skip",
            "What to do with a file that cannot be decoded or read. fail: end. skip: leave it out and name it in "
            "the report",
            "Packing"},
    Setting{"num-workers", Kind::Integer, "0", "N", "Threads. 0: one for each CPU that this process may use", "Running",
            "", 0, 1024},
    Setting{"progress", Kind::Choice, "auto", "auto|bar|lines|none",
            "Progress display on standard error. auto: a bar on a terminal, otherwise a line every ten seconds",
            "Running"},
};
constexpr std::array kFlags{
    command_line::Flag{"json", 0, "Print the report as one JSON object"},
    command_line::Flag{"overwrite", 0, "Replace OUT, and what an interrupted run with other options left"},
};

constexpr std::string_view kUsage = R"(usage: rollcall-pack [OPTION...] DIR OUT
       rollcall-pack [OPTION...] verify FILE...

Packs a folder of images into one HDF5 file for rollcall-train (--data=OUT). Reading it is faster than reading single files,
and it counts as one file in quotas. Every image is decoded once, so damage is found now.

  rollcall-pack flowers flowers.h5                        one sub-folder of images per class: one file
  rollcall-pack --repack $SCRATCH/imagenet $SCRATCH/packed     train/ and val/ in DIR: OUT/train.h5 and OUT/val.h5
  rollcall-pack --repack --resize=512 --bad-samples=skip photos photos.h5
  rollcall-pack verify flowers.h5                         read it back and check every checksum

After an interruption (Ctrl-C, kill, time limit) the same command continues; the work done so far is in OUT.partial*.
OUT appears only when it is complete and verified. Python reads it with h5py: see docs/reference/dataset_format.md.

Exit codes: 0 success; 64 wrong option; 65 a bad file, or verify found damage; 66 DIR cannot be read; 73 OUT exists or cannot
be created; 74 reading or writing failed; 75 interrupted, the same command continues; 76 an interrupted run with other options
or files left OUT.partial*.
)";

enum class Request { Pack, Verify };

struct Options {
  Request request = Request::Pack;
  bool json = false;
  metrics::WorkProgress::Style progress = metrics::WorkProgress::Style::Auto;
  PackOptions pack;                ///< without writer and created
  std::string source;              ///< Pack: DIR
  std::string out;                 ///< Pack: OUT
  std::vector<std::string> files;  ///< Verify
};

Result<Options> with_arguments(Options options, std::vector<std::string> arguments) {
  if (!arguments.empty() && arguments.front() == "verify") {
    options.request = Request::Verify;
    options.files.assign(arguments.begin() + 1, arguments.end());
    if (options.files.empty()) {
      return fail("command line", "verify", "FILE is missing", "rollcall-pack verify FILE");
    }
    return options;
  }
  if (arguments.size() != 2) {
    return fail("command line", arguments.size() > 2 ? arguments[2] : "",
                arguments.size() > 2 ? "unexpected argument" : "DIR and OUT are missing",
                "rollcall-pack DIR OUT.h5, or rollcall-pack --help");
  }
  options.request = Request::Pack;
  options.source = std::move(arguments[0]);
  options.out = std::move(arguments[1]);
  return options;
}

Result<Options> options_of(const settings::Settings& values, const command_line::ParsedCommandLine& line) {
  Options options;
  options.json = line.has("json");
  options.progress = metrics::WorkProgress::style_of(values.text("progress"));
  options.pack.prepare = {.repack = values.on("repack"),
                          .resize = static_cast<int>(values.integer("resize")),
                          .quality = static_cast<int>(values.integer("quality"))};
  const auto workers = static_cast<std::size_t>(values.integer("num-workers"));
  options.pack.threads = workers > 0 ? workers : number_of_cpus();
  options.pack.skip_bad = values.text("bad-samples") == "skip";
  options.pack.overwrite = line.has("overwrite");
  return with_arguments(std::move(options), line.positional);
}

struct Job {
  std::string tree;
  std::string out;
};

/// ISO 8601 in UTC.
std::string created_text(const Environment& environment) {
  const auto epoch = parse_integer<std::int64_t>(environment.get("SOURCE_DATE_EPOCH").value_or(""));
  return fmt::format("{:%FT%TZ}", fmt::gmtime(epoch ? static_cast<std::time_t>(*epoch) : std::time(nullptr)));
}

Error cannot_create(const std::string& path, std::string reason) {
  return fail("OUT", path, std::move(reason), "choosing another name for OUT", ErrorKind::CannotCreate);
}

/// The same error, with what its value is called on this program's command line.
Error about(const std::string& argument, Error error) {
  error.setting = argument;
  return error;
}

/// Returns which folder is packed into which file.
Result<std::vector<Job>> plan(const Options& options) {
  std::error_code error;
  const bool out_is_folder = fs::is_directory(options.out, error);
  const Result<data::DataParts> parts = data::find_parts(options.source);
  if (!parts) {
    return about("DIR", parts.error());
  }
  if (!parts->train) {
    if (out_is_folder) {
      return cannot_create(options.out, "is a folder, but DIR is packed into one file");
    }
    return std::vector<Job>{{options.source, options.out}};
  }
  if (!out_is_folder && !fs::create_directories(options.out, error)) {
    return cannot_create(options.out, "cannot be created as a folder for train.h5 and val.h5: " +
                                          (error ? errno_text(error.value()) : "a file has this name"));
  }
  const fs::path out(options.out);
  return std::vector<Job>{{*parts->train, (out / "train.h5").string()}, {*parts->valid, (out / "val.h5").string()}};
}

/// Scans all folders before the first is packed, so that an empty class in val/ is reported now and not in an hour.
Result<std::vector<data::ImageTree>> scan(const std::vector<Job>& jobs, std::ostream& err) {
  std::vector<data::ImageTree> trees;
  data::SourceIndices indices;
  for (const Job& job : jobs) {
    Result<data::ImageTree> tree = data::scan_image_tree(job.tree, indices);
    if (!tree) {
      return about("DIR", tree.error());
    }
    trees.push_back(*std::move(tree));
  }
  for (const std::string& warning : indices.warnings()) {
    err << "rollcall: warning: " << warning << "\n" << std::flush;
  }
  const std::string difference = data::class_difference(trees.front().class_names(), trees.back().class_names());
  if (!difference.empty()) {
    return fail("DIR", jobs.back().tree, "its class folders differ from those of train: it " + difference,
                "giving both folders the same sub-folders", ErrorKind::BadData);
  }
  return trees;
}

Result<void> pack(const Options& options, metrics::WorkProgress& progress, std::ostream& out, std::ostream& err) {
  ASSIGN_OR_RETURN(const std::vector<Job> jobs, plan(options));
  ASSIGN_OR_RETURN(const std::vector<data::ImageTree> trees, scan(jobs, err));
  std::vector<PackReport> reports;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    Result<PackReport> report = pack_tree(trees[i], jobs[i].out, options.pack, progress);
    progress.end();
    if (!report) {
      return report.error();
    }
    out << (options.json ? "" : report_text(*report)) << std::flush;
    reports.push_back(*std::move(report));
  }
  if (options.json) {
    out << report_json(reports) << std::flush;
  }
  return {};
}

struct VerifyReport {
  std::string path;
  std::string format_version;
  std::uint64_t samples = 0;
  std::vector<std::string> damaged;  ///< names of the samples whose checksum differs
};

/// Verifies the tables that open() does not read.
Result<void> verify_names(const data::PackedFile& file) {
  const data::PackedLayout& layout = file.layout();
  RETURN_IF_ERROR(file.read_table(layout.name_offset, data::packed_schema::kNameOffset));
  RETURN_IF_ERROR(file.read_table(layout.name_data, data::packed_schema::kNameData));
  if (layout.name_offset.elements != file.entries().size() + 1) {
    return data::damaged_packed_file(file.path(), "is damaged: the number of names is not that of the samples");
  }
  return {};
}

/// Reads a complete packed file and verifies every checksum. Damaged samples are not an Error but in the report.
/// Errors: those of PackedFile::open(); BadData: a damaged table of names; InputOutput; Interrupted.
Result<VerifyReport> verify_file(const std::string& path, std::size_t threads, metrics::WorkProgress& progress) {
  ASSIGN_OR_RETURN(const data::PackedFile file, data::PackedFile::open(path));
  RETURN_IF_ERROR(verify_names(file));
  VerifyReport report{
      .path = path, .format_version = file.layout().format_version, .samples = file.entries().size(), .damaged = {}};
  progress.begin("verifying " + std::filesystem::path(path).filename().string(), report.samples);
  std::vector<std::vector<std::byte>> buffers(threads);
  OrderedPool<Result<void>> checks(report.samples, threads, [&](std::size_t thread, std::size_t index) -> Result<void> {
    const auto read = file.read(index, buffers[thread]);
    return read ? Result<void>() : read.error();
  });
  for (std::size_t index = 0; index < report.samples; ++index) {
    const Result<void> sound = checks.next();
    if (!sound && sound.error().kind == ErrorKind::InputOutput) {
      return sound.error();
    }
    if (!sound) {
      const std::string name = file.name(index);
      report.damaged.push_back(name.empty() ? fmt::format("sample {}", index) : name);
    }
    progress.step(index + 1, file.entries()[index].offset + file.entries()[index].stored_bytes());
    if (stop_requested()) {
      return fail("FILE", path, "interrupted", "running the same command again", ErrorKind::Interrupted);
    }
  }
  return report;
}

Result<void> verify(const Options& options, metrics::WorkProgress& progress, std::ostream& out) {
  nlohmann::json files = nlohmann::json::array();
  std::optional<Error> damage;
  for (const std::string& path : options.files) {
    const Result<VerifyReport> report = verify_file(path, options.pack.threads, progress);
    progress.end();
    if (!report) {
      return about("FILE", report.error());
    }
    if (!report->damaged.empty() && !damage) {
      damage = fail("FILE", path,
                    fmt::format("{} of {} images {} damaged, the first is {}", report->damaged.size(), report->samples,
                                report->damaged.size() == 1 ? "is" : "are", report->damaged.front()),
                    "packing again, or training without them with --bad-samples=skip", ErrorKind::BadData);
    }
    files.push_back({{"path", path},
                     {"format_version", report->format_version},
                     {"images", report->samples},
                     {"damaged", report->damaged}});
    if (!options.json) {
      out << fmt::format("{}: {}, {} damaged, format {}\n", path, counted(report->samples, "image"),
                         report->damaged.size(), report->format_version)
          << std::flush;
    }
  }
  if (options.json) {
    const nlohmann::json all{{"files", files}};
    out << all.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << "\n";
  }
  return damage ? Result<void>(*damage) : Result<void>();
}

Result<void> carry_out(const std::vector<std::string>& arguments, const Environment& environment, std::ostream& out,
                       std::ostream& err) {
  settings::Settings values{settings::Table(kTable)};
  const std::array targets{&values};
  const command_line::Tool tool{"rollcall-pack", ROLLCALL_VERSION, kUsage, kFlags};
  ASSIGN_OR_RETURN(const auto line, command_line::read_tools_command_line(tool, targets, arguments, out));
  if (!line) {
    return {};
  }
  ASSIGN_OR_RETURN(Options options, options_of(values, *line));
  options.pack.writer = "rollcall-pack " ROLLCALL_VERSION;
  options.pack.created = created_text(environment);
  catch_stop_requests();
  metrics::WorkProgress progress(STDERR_FILENO, options.progress, "img");
  return options.request == Request::Verify ? verify(options, progress, out) : pack(options, progress, out, err);
}

}  // namespace

int run(const std::vector<std::string>& arguments, const Environment& environment, std::ostream& out,
        std::ostream& err) noexcept {
  return command_line::tool_main("rollcall-pack", "--num-workers=1", out, err, [&]() -> Result<int> {
    const Result<void> done = carry_out(arguments, environment, out, err);
    return done ? Result<int>(to_int(ExitCode::Success)) : done.error();
  });
}

}  // namespace rollcall::pack
