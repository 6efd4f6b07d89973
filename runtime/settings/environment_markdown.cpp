#include "runtime/settings/environment_markdown.h"

#include <fmt/format.h>

#include <iterator>
#include <string_view>

#include "runtime/contract/env_table.h"
#include "runtime/settings/markdown.h"

namespace rollcall::settings {
namespace {

constexpr std::string_view kIntroduction = R"(# Environment variables

Generated from `runtime/contract/env_table.h`: do not edit. `rollcall --print-environment-markdown` prints it.

`srun --ddp`, `rollcall exec` and `rollcall-train` set the same variables, by the same rules, for every task of a step;
`srun --ddp` and `rollcall exec` can be followed by any program. `srun -n1 rollcall env` shows each value with its origin
and reason, in your step and on your site.

**A variable that you set is kept**, whatever rollcall would have set; where the two disagree, a warning says so. Values
that another rollcall set (of the batch script's step, say) are known by `ROLLCALL_SET` and made anew.

## What a task gets

| variable | who reads it | meaning | where our value comes from | left alone where |
|---|---|---|---|---|
)";

constexpr std::string_view kRead = R"(
## What rollcall reads besides

Not listed: `ROLLCALL_<SETTING>` ([settings.md](settings.md)), and the folders that paths in settings may name.

| variable | whose it is | meaning |
|---|---|---|
)";

constexpr std::string_view kNever = R"(
## What rollcall never sets

| variable | why not: it |
|---|---|
)";

/// "resolve; torch, Lightning": the part behind the semicolon.
std::string_view others(const env::Variable& variable) {
  const std::size_t semicolon = variable.used_by.find("; ");
  return semicolon == std::string_view::npos ? variable.used_by : variable.used_by.substr(semicolon + 2);
}

}  // namespace

std::string environment_markdown() {
  std::string page(kIntroduction);
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
