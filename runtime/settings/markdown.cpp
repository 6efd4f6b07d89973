#include "runtime/settings/settings.h"

#include <fmt/format.h>

#include <iterator>
#include <string_view>

#include "runtime/contract/env_table.h"
#include "runtime/settings/launch_settings.h"
#include "runtime/settings/values.h"

namespace rollcall::settings {
namespace {

constexpr std::string_view kSettingsIntroduction = R"(# Settings

For users and administrators: every setting, its default, the values it accepts and what it does.

Generated from the settings tables: do not edit. `rollcall --print-settings-markdown` and
`rollcall-train --print-settings-markdown` print it.

A setting can be given in five places. A later one in this list overrides those before it:

1. its default;
2. the site's profile: the file that plugstack.conf names, otherwise `ROLLCALL_SITE_CONFIG`, otherwise
   `/etc/rollcall/site.toml`, otherwise the installed profile that fits this machine
   ([site_guide.md](../administrator/site_guide.md)). It may lock settings against the places below;
3. the user's file: `$XDG_CONFIG_HOME/rollcall/config.toml`, otherwise `~/.config/rollcall/config.toml`;
4. an environment variable;
5. the command line: an option, or an entry of `srun --ddp=key=value,key=value`.

`rollcall --print-config` shows every value and where it comes from. An unknown name or a bad value is an error.

| where | `port.range` of launching | `batch-size` of the trainer |
|---|---|---|
| TOML file | `[port]` `range = "20000-29999"`, or `port-range = "20000-29999"` | `[trainer]` `batch-size = 64` |
| environment | `ROLLCALL_PORT_RANGE=20000-29999` | `ROLLCALL_BATCH_SIZE=64` |
| option | `--port-range=20000-29999` | `--batch-size=64` |
| `srun --ddp` | `--ddp=port.range=20000-29999` | |

- **Lists** are written `ib0,ib1`. In TOML `["ib0", "ib1"]` works too. In `--ddp=` the separator is `+`:
  `--ddp=interface.gloo=ib0+ib1`.
- **Names**: '.', '-' and '_' are the same. TOML cannot hold both `rendezvous = ...` and `rendezvous.folder = ...`. Write
  `rendezvous-folder = ...` there, and `venv-root = ...`.
- **Paths** may contain `${SCRATCH}`, `${HOME}`, `${USER}`, `${TMPDIR}`, `${SLURM_JOB_ID}` and `${XDG_RUNTIME_DIR}`.
  Nothing else is expanded, and no shell is used.

)";

constexpr std::string_view kEnvironmentIntroduction = R"(# Environment variables

For users and administrators: every variable that rollcall sets for your programs, and every one that it reads.

Generated from `runtime/contract/env_table.h`: do not edit. `rollcall --print-environment-markdown` prints it.

`srun --ddp`, `rollcall exec` and `rollcall-train` set the same variables, by the same rules, for every task of a step.
Any program can follow `srun --ddp` and `rollcall exec`. `srun rollcall env` prints each value with its origin and
reason, in your step and on your site.

**A variable that you set is kept.** If it differs from rollcall's value, there is a warning. Values that another
rollcall set (for example in the batch script's step) are listed in `ROLLCALL_SET`. They are replaced.

**Variables that differ from task to task are set for each task**: `LOCAL_RANK`, `NODE_RANK`, `GROUP_RANK`,
`CROSS_RANK`, `ROLE_RANK`, `LOCAL_WORLD_SIZE`, `LOCAL_SIZE`, `PET_NODE_RANK` and `JAX_PROCESS_ID`. For example,
`export LOCAL_RANK=$SLURM_LOCALID` in a batch script would be 0 in all tasks. In a step of several tasks a wrong value is
replaced, and the first such task of each node warns. A `LOCAL_RANK` of 0 is kept if the task sees one GPU. To give tasks
other numbers than Slurm's, set them after rollcall: `srun --ddp bash -c 'LOCAL_RANK=... exec python train.py'`.

## What a task gets

| variable | who reads it | meaning | where rollcall's value comes from | not set if |
|---|---|---|---|---|
)";

constexpr std::string_view kRead = R"(
## What rollcall reads

Not listed: `ROLLCALL_<SETTING>` ([settings.md](settings.md)), and the variables that paths in settings may contain.

Variables of Slurm, PMIx and PMI are used only if they belong to this job and step ([steps.md](../user/steps.md)).

| variable | set by or for | meaning |
|---|---|---|
)";

constexpr std::string_view kNever = R"(
## What rollcall never sets

`rollcall run` is an agent like torchrun's. It does set the `TORCHELASTIC_` variables for its workers
([elastic.md](../user/elastic.md)).

| variable | reason: it |
|---|---|
)";

/// Escapes a text for a cell of a Markdown table, where '|' would end the cell and '<' would start a tag.
std::string markdown_cell(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    escaped += c == '|' ? "\\|" : c == '<' ? "&lt;" : std::string(1, c);
  }
  return escaped;
}

/// Returns the cell in backquotes; empty for an empty text.
std::string markdown_code(std::string_view text) { return text.empty() ? "" : "`" + markdown_cell(text) + "`"; }

/// Returns the part after the semicolon of "resolve; torch, Lightning".
std::string_view others(const env::Variable& variable) {
  const std::size_t semicolon = variable.used_by.find("; ");
  return semicolon == std::string_view::npos ? variable.used_by : variable.used_by.substr(semicolon + 2);
}

}  // namespace

std::string settings_markdown(std::string_view title, Table table) {
  std::string page = fmt::format("## {}\n", title);
  std::string_view group;
  for (const Setting& setting : table) {
    if (setting.group != group) {
      group = setting.group;
      fmt::format_to(std::back_inserter(page),
                     "\n### {}\n\n| setting | default | accepts | meaning |\n|---|---|---|---|\n", group);
    }
    fmt::format_to(std::back_inserter(page), "| {} | {} | {} | {}. |\n", markdown_code(setting.name),
                   markdown_code(setting.default_text), markdown_cell(accepted_values(setting)),
                   markdown_cell(setting.help));
  }
  return page;
}

std::string launch_settings_markdown() {
  return std::string(kSettingsIntroduction) + settings_markdown("Launching", launch_table());
}

std::string environment_markdown() {
  std::string page(kEnvironmentIntroduction);
  const auto out = std::back_inserter(page);
  for (const env::Variable& row : env::kVariables) {
    if (row.use != env::Use::Read) {
      fmt::format_to(out, "| {} | {} | {} | {} | {} |\n", markdown_code(row.name), markdown_cell(others(row)),
                     markdown_cell(row.meaning), markdown_cell(row.value_from), markdown_cell(row.left_alone));
    }
  }
  page += kRead;
  for (const env::Variable& row : env::kVariables) {
    if (row.use == env::Use::Read) {
      fmt::format_to(out, "| {} | {} | {} |\n", markdown_code(row.name), markdown_cell(others(row)),
                     markdown_cell(row.meaning));
    }
  }
  page += kNever;
  for (const env::NeverSet& row : env::kNeverSet) {
    fmt::format_to(out, "| {} | {} |\n", markdown_code(row.name), markdown_cell(row.reason));
  }
  return page;
}

}  // namespace rollcall::settings
