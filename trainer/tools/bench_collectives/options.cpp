#include "trainer/tools/bench_collectives/options.h"

#include <fmt/format.h>
#include <array>
#include <string_view>

#include "runtime/base/text.h"
#include "runtime/command_line/command_line.h"
#include "runtime/settings/launch_settings.h"
#include "runtime/settings/layers.h"
#include "trainer/tools/bench_collectives/operations.h"

namespace rollcall::bench_collectives {
namespace {

using settings::Kind;
using settings::Setting;

constexpr double kMostBytes = 1e12;

constexpr std::array kTable{
    Setting{"backend", Kind::List, "auto", "NAME,...",
            "back ends, of those that rollcall-train knows; several are measured in turn, with their ratio", "What"},
    Setting{"operation", Kind::List, "all_reduce", "NAME,...",
            "all_reduce, reduce_scatter, all_gather, broadcast, all_to_all; all: these", "What"},
    Setting{"min-bytes", Kind::Integer, "1024", "BYTES", "size of the smallest buffer", "Sizes", "", 0, kMostBytes},
    Setting{"max-bytes", Kind::Integer, "67108864", "BYTES", "size of the largest buffer", "Sizes", "", 4, kMostBytes},
    Setting{"factor", Kind::Integer, "4", "N", "each size is this many times the one before", "Sizes", "", 2, 1e6},
    Setting{"iterations", Kind::Integer, "20", "N", "measurements of each size", "Running", "", 1, 1e6},
    Setting{"warm-up", Kind::Integer, "3", "N", "runs before them", "Running", "", 0, 1e6},
};

constexpr std::array kFlags{
    command_line::Flag{"help", 'h', "show this text"},
    command_line::Flag{"version", 0, "show the version"},
    command_line::Flag{"json", 0, "print one JSON object a line instead of a table"},
};

constexpr std::string_view kUsage = R"(usage: rollcall-bench-collectives [OPTION...]

Measures collectives among all ranks of this Slurm step, as nccl-tests does, and checks every result.

  srun --ddp -n4 rollcall-bench-collectives                                  all-reduce, 1 KiB to 64 MiB
  srun --ddp -n4 rollcall-bench-collectives --backend=gloo,ucx --operation=all
  srun --ddp -N2 -n2 rollcall-bench-collectives --min-bytes=1048576 --max-bytes=1048576 --json

Bytes are those of the larger of a rank's input and output. Latency is the median over iterations of the slowest rank.
Algorithm bandwidth is bytes by latency; bus bandwidth is that times what a rank must send at least of them, 2 (N-1)/N for
all-reduce, 1 for broadcast, (N-1)/N for the others: a measure that does not depend on the number of ranks.

Exit codes: 0 done; 1 a result was wrong; 64 wrong option; 69 no connection, or a peer was lost.
)";

Result<void> check(const Options& options) {
  for (const std::string& name : options.operations) {
    if (!find_operation(name)) {
      return fail("--operation", name, "is not an operation", "rollcall-bench-collectives --help");
    }
  }
  if (options.min_bytes > options.max_bytes) {
    return fail("--min-bytes", std::to_string(options.min_bytes), "is more than --max-bytes", "a smaller one");
  }
  return {};
}

}  // namespace

Result<Options> read_options(const Environment& environment, const std::vector<std::string>& arguments) {
  settings::Settings own{settings::Table(kTable)};
  Result<settings::Settings> launch = settings::load_settings(settings::launch_table(), environment,
                                                              {.site_file = {}, .section = {}, .other_tables = {}});
  if (!launch) {
    return launch.error();
  }
  Options options{.launch = *std::move(launch)};
  const std::array targets{&own, &options.launch};
  const Result<command_line::ParsedCommandLine> parsed = command_line::parse_command_line(targets, kFlags, arguments);
  if (!parsed) {
    return parsed.error();
  }
  if (!parsed->positional.empty()) {
    return fail("command line", parsed->positional[0], "is not an option", "rollcall-bench-collectives --help");
  }
  options.request = parsed->has("help") ? Request::Help : parsed->has("version") ? Request::Version : Request::Measure;
  options.json = parsed->has("json");
  options.backends = split(own.text("backend"), ',');
  options.operations = own.text("operation") == "all" ? operation_names() : split(own.text("operation"), ',');
  options.min_bytes = own.integer("min-bytes");
  options.max_bytes = own.integer("max-bytes");
  options.factor = own.integer("factor");
  options.iterations = static_cast<int>(own.integer("iterations"));
  options.warm_up = static_cast<int>(own.integer("warm-up"));
  const Result<void> sound = check(options);
  return sound ? Result<Options>(std::move(options)) : sound.error();
}

std::string help_text() {
  const std::array tables{settings::Table(kTable), settings::launch_table()};
  return fmt::format("{}\n{}", kUsage, command_line::help_text(kFlags, tables));
}

}  // namespace rollcall::bench_collectives
