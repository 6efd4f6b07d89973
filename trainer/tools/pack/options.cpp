#include "trainer/tools/pack/program.h"

#include <sched.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "runtime/command_line/command_line.h"

namespace rollcall::pack {
namespace {

using settings::Kind;
using settings::Setting;

constexpr std::array kTable{
    Setting{
        "repack", Kind::Switch, "false", "on|off",
        "re-encode JPEG files without loss into tiles of about 64 pixels, so that training decodes only what a crop "
        "needs: about 1.4 times as fast, same pixels, about 1 % smaller",
        "Packing"},
    Setting{"resize", Kind::Integer, "0", "PIXELS",
            "shrink larger images so that the shorter side has this many pixels, as JPEG (lossy); 0: do not", "Packing",
            "", 0, 65535},
    Setting{"quality", Kind::Integer, "92", "N", "JPEG quality of images that --resize shrinks", "Packing", "", 50,
            100},
    Setting{"bad-samples", Kind::Choice, "fail", "fail|skip",
            "what a file that cannot be decoded or read does: end the work, or be left out and named in the report",
            "Packing", "fail|skip"},
    Setting{"num-workers", Kind::Integer, "0", "N", "threads; 0: one for each CPU that this process may use", "Running",
            "", 0, 1024},
    Setting{"progress", Kind::Choice, "auto", "auto|bar|lines|none",
            "progress display on stderr; auto: a bar on a terminal, else a line every ten seconds", "Running",
            "auto|bar|lines|none"},
};

constexpr std::array kFlags{
    command_line::Flag{"help", 'h', "show this text"},
    command_line::Flag{"version", 0, "show the version"},
    command_line::Flag{"json", 0, "print the report as one JSON object"},
    command_line::Flag{"overwrite", 0, "replace OUT if it is there, and what an interrupted run of other options left"},
};

constexpr std::string_view kUsage = R"(usage: rollcall-pack [OPTION...] DIR OUT
       rollcall-pack [OPTION...] verify FILE...

Packs a folder of images into one HDF5 file that rollcall-train reads (--data=OUT), faster than single files and as one
inode instead of a million: quotas count files. Every image is decoded once, so damage is found now.

  rollcall-pack flowers flowers.h5                        one sub-folder of images per class: one file
  rollcall-pack --repack $SCRATCH/imagenet $SCRATCH/packed     train/ and val/ in DIR: OUT/train.h5 and OUT/val.h5
  rollcall-pack --repack --resize=512 --bad-samples=skip photos photos.h5
  rollcall-pack verify flowers.h5                         read it back and check every checksum

Interrupted (Ctrl-C, kill, time limit)? The same command goes on where it was; what was done is in OUT.partial*.
OUT appears only once it is complete and verified. Python reads it with h5py: see docs/dataset_format.md.

Exit codes: 0 done; 64 wrong option; 65 a bad file, or verify found damage; 66 DIR cannot be read; 73 OUT is there already
or cannot be created; 74 reading or writing failed; 75 interrupted, the same command goes on; 76 what an interrupted run left
is of other options or files.
)";

std::size_t usable_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  const int count = ::sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
  return static_cast<std::size_t>(std::max(count, 1));
}

Result<Options> with_arguments(Options options, std::vector<std::string> arguments) {
  if (!arguments.empty() && arguments.front() == "verify") {
    options.request = Request::Verify;
    options.files.assign(arguments.begin() + 1, arguments.end());
    if (options.files.empty()) {
      return fail("command line", "verify", "lacks its file", "rollcall-pack verify FILE");
    }
    return options;
  }
  if (arguments.size() != 2) {
    return fail("command line", arguments.size() > 2 ? arguments[2] : "",
                arguments.size() > 2 ? "is one argument too many" : "DIR and OUT are missing",
                "rollcall-pack DIR OUT.h5, or rollcall-pack --help");
  }
  options.request = Request::Pack;
  options.source = std::move(arguments[0]);
  options.out = std::move(arguments[1]);
  return options;
}

}  // namespace

Result<Options> read_options(const std::vector<std::string>& arguments) {
  settings::Settings values{settings::Table(kTable)};
  const std::array targets{&values};
  ASSIGN_OR_RETURN(auto parsed, command_line::parse_command_line(targets, kFlags, arguments));
  Options options;
  options.json = parsed.has("json");
  options.progress = metrics::WorkProgress::style_of(values.text("progress"));
  options.pack.prepare = {.repack = values.on("repack"),
                          .resize = static_cast<int>(values.integer("resize")),
                          .quality = static_cast<int>(values.integer("quality"))};
  const auto workers = static_cast<std::size_t>(values.integer("num-workers"));
  options.pack.threads = workers > 0 ? workers : usable_cpus();
  options.pack.skip_bad = values.text("bad-samples") == "skip";
  options.pack.overwrite = parsed.has("overwrite");
  if (parsed.has("help") || parsed.has("version")) {
    options.request = parsed.has("help") ? Request::Help : Request::Version;
    return options;
  }
  std::vector<std::string> positional = std::move(parsed.positional);
  positional.insert(positional.end(), parsed.program.begin(), parsed.program.end());  // after "--"
  return with_arguments(std::move(options), std::move(positional));
}

std::string help_text() {
  const std::array tables{settings::Table(kTable)};
  return std::string(kUsage) + "\n" + command_line::help_text(kFlags, tables);
}

}  // namespace rollcall::pack
