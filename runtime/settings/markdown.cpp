#include "runtime/settings/markdown.h"

#include <fmt/format.h>

#include <iterator>

#include "runtime/settings/launch_settings.h"
#include "runtime/settings/value_check.h"

namespace rollcall::settings {
namespace {

constexpr std::string_view kIntroduction = R"(# Settings

Generated from the settings tables: do not edit. `rollcall --print-settings-markdown` and
`rollcall-train --print-settings-markdown` print it.

A setting can be given in five places. A later one in this list overrides those before it:

1. its default;
2. the site's profile: the file that plugstack.conf names, otherwise `ROLLCALL_SITE_CONFIG`, otherwise
   `/etc/rollcall/site.toml`, otherwise the installed profile that fits this machine ([site_guide.md](site_guide.md)); it
   may lock settings against the places below;
3. the user's file: `$XDG_CONFIG_HOME/rollcall/config.toml`, otherwise `~/.config/rollcall/config.toml`;
4. an environment variable;
5. the command line: an option, or an entry of `srun --ddp=key=value,key=value`.

`rollcall --print-config` shows every value with the place that it came from. An unknown name and a bad value are errors.

| where | `port.range` of launching | `batch-size` of the trainer |
|---|---|---|
| TOML file | `[port]` `range = "20000-29999"`, or `port-range = "20000-29999"` | `[trainer]` `batch-size = 64` |
| environment | `ROLLCALL_PORT_RANGE=20000-29999` | `ROLLCALL_BATCH_SIZE=64` |
| option | `--port-range=20000-29999` | `--batch-size=64` |
| `srun --ddp` | `--ddp=port.range=20000-29999` | |

Lists are written `ib0,ib1`, in TOML also `["ib0", "ib1"]`, and in `--ddp=` with `+`: `--ddp=interface.gloo=ib0+ib1`.
'.', '-' and '_' are the same in names. TOML cannot hold both `rendezvous = ...` and `rendezvous.folder = ...`: write
`rendezvous-folder = ...` there, and `venv-root = ...`.
Paths may hold `${SCRATCH}`, `${HOME}`, `${USER}`, `${TMPDIR}`, `${SLURM_JOB_ID}` and `${XDG_RUNTIME_DIR}`; nothing else
is expanded, and no shell is involved.

)";

}  // namespace

std::string markdown_cell(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    escaped += c == '|' ? "\\|" : c == '<' ? "&lt;" : std::string(1, c);
  }
  return escaped;
}

std::string markdown_code(std::string_view text) { return text.empty() ? "" : "`" + markdown_cell(text) + "`"; }

std::string settings_markdown(std::string_view title, Table table) {
  std::string page = fmt::format("## {}\n", title);
  std::string_view group;
  for (const Setting& setting : table) {
    if (setting.group != group) {
      group = setting.group;
      fmt::format_to(std::back_inserter(page),
                     "\n### {}\n\n| setting | default | accepts | meaning |\n|---|---|---|---|\n", group);
    }
    fmt::format_to(std::back_inserter(page), "| {} | {} | {} | {} |\n", markdown_code(setting.name),
                   markdown_code(setting.default_text), markdown_cell(accepted_values(setting)),
                   markdown_cell(setting.help));
  }
  return page;
}

std::string launch_settings_markdown() {
  return std::string(kIntroduction) + settings_markdown("Launching", launch_table());
}

}  // namespace rollcall::settings
