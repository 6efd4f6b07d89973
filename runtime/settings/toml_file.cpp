#include "runtime/settings/toml_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <stdexcept>

#include "runtime/base/small_file.h"
#include "runtime/settings/layers.h"
#include "runtime/settings/site_profile.h"
#include "runtime/settings/values.h"

namespace rollcall::settings {
namespace {

/// An assertion of toml++ failed in its parser, which a damaged file can cause ("[~").
struct TomlLibraryFault : std::logic_error {
  using std::logic_error::logic_error;
};

/// Returns the text of a string, integer, number or boolean, and nothing for other values.
std::optional<std::string> scalar_text(const toml::node& node) {
  if (const auto* text = node.as_string()) {
    return text->get();
  }
  if (const auto* integer = node.as_integer()) {
    return std::to_string(integer->get());
  }
  if (const auto* number = node.as_floating_point()) {
    return fmt::format("{}", number->get());
  }
  if (const auto* truth = node.as_boolean()) {
    return truth->get() ? "true" : "false";
  }
  return std::nullopt;
}

/// A quote opens a string only where a value or key may begin.
bool may_begin_token(std::string_view line, std::size_t at) {
  return at == 0 || std::string_view(" \t\n=[{,.").find(line[at - 1]) != std::string_view::npos;
}

/// Returns the position after the string that begins at `at`, or the end of the line.
std::size_t end_of_string(std::string_view line, std::size_t at) {
  const char quote = line[at];
  for (std::size_t i = at + 1; i < line.size(); ++i) {
    if (line[i] == '\\' && quote == '"') {
      ++i;
    } else if (line[i] == quote) {
      return i + 1;
    }
  }
  return line.size();
}

/// A text that toml++ must not parse, and its line.
struct Refusal {
  std::size_t line;  ///< counted from 1
  const char* reason;
  const char* action;
};

/// Finds the first of these, or returns nothing if toml++ may read the text:
/// - a byte that is not ASCII outside comments and quotes. TOML 1.0 does not allow it, and toml++ 3.3 has undefined
///   behaviour for some (is_non_ascii_horizontal_whitespace). A byte order mark at the start is skipped.
/// - a key of more than kMostParts parts (`a.b.c = 1`). toml++ limits how deep values are nested, but makes a table of
///   each part and destroys the tables recursively, so the stack would overflow.
/// - text in triple quotes. No setting needs it, and without it every string ends on its line. So this function and
///   toml++ find the same strings, up to the first place that is not TOML, where toml++ stops.
std::optional<Refusal> first_refusal(std::string_view content) {
  constexpr std::size_t kMostParts = 32;
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  if (content.starts_with(kByteOrderMark)) {
    content.remove_prefix(kByteOrderMark.size());
  }
  std::size_t line = 1;
  std::size_t dots = 0;
  for (std::size_t at = 0; at < content.size();) {
    const char c = content[at];
    if ((c == '"' || c == '\'') && may_begin_token(content, at)) {
      if (content.substr(at, 3) == std::string(3, c)) {
        return Refusal{line, "has text in triple quotes", "using single quotes, on one line"};
      }
      at = end_of_string(content.substr(0, content.find('\n', at)), at);
      continue;
    }
    if (c == '#') {
      at = std::min(content.find('\n', at), content.size());
      continue;
    }
    if (static_cast<unsigned char>(c) >= 0x80) {
      return Refusal{line, "has a character that is not ASCII outside quotes and comments", "quoting it"};
    }
    if (std::string_view("\n=,[]{}").find(c) != std::string_view::npos) {
      dots = 0;
    }
    dots += c == '.' ? 1 : 0;
    if (dots >= kMostParts) {
      return Refusal{line, "has a key with too many parts", "rollcall help settings for the names of keys"};
    }
    line += c == '\n' ? 1 : 0;
    ++at;
  }
  return std::nullopt;
}

constexpr std::array kProgramSections{kTrainerSection};

/// A file that is applied to Settings.
struct TomlFile {
  Settings& settings;
  const std::string& path;

  [[nodiscard]] std::string place(const toml::node& node, const std::string& key) const {
    return settings::place(path, node, key);
  }
  [[nodiscard]] bool is_site_profile() const { return settings.site() && settings.site()->file == path; }
};

/// Returns "ib0,ib1" for ["ib0", "ib1"]; nothing if an item is not a word.
std::optional<std::string> array_text(const toml::array& array) {
  std::string joined;
  for (const toml::node& item : array) {
    const std::optional<std::string> word = scalar_text(item);
    if (!word || word->find(',') != std::string::npos) {
      return std::nullopt;
    }
    joined += (joined.empty() ? "" : ",") + *word;
  }
  return joined;
}

Result<void> apply_value(const TomlFile& file, const toml::node& node, const std::string& key) {
  const Setting* const setting = find_setting(file.settings.table(), key);
  const bool list = setting != nullptr && setting->kind == Kind::List;
  const std::optional<std::string> text = list && node.is_array() ? array_text(*node.as_array()) : scalar_text(node);
  if (setting != nullptr && !text) {
    return fail(file.place(node, key), "", "has a value of the wrong type", "giving " + accepted_values(*setting),
                ErrorKind::Configuration);
  }
  const Result<void> applied = file.settings.set(key, text.value_or(""), file.path);
  if (!applied) {
    const Error& error = applied.error();
    return fail(file.place(node, key), error.value, error.reason, error.action, ErrorKind::Configuration);
  }
  return {};
}

bool is_program_section(std::string_view name) {
  return std::ranges::find(kProgramSections, name) != kProgramSections.end();
}

Result<void> apply_table(const TomlFile& file, const toml::table& table, const std::string& prefix, bool top_level) {
  for (const auto& [key, node] : table) {
    if (top_level && is_program_section(key.str())) {
      continue;
    }
    if (top_level && key.str() == kSiteSection) {
      if (!file.is_site_profile()) {
        return fail(file.place(node, std::string(kSiteSection)), "", "belongs in a site profile",
                    "leaving the section out", ErrorKind::Configuration);
      }
      continue;
    }
    const std::string name = prefix + std::string(key.str());
    RETURN_IF_ERROR(node.is_table() ? apply_table(file, *node.as_table(), name + ".", false)
                                    : apply_value(file, node, name));
  }
  return {};
}

Result<void> apply_section(const TomlFile& file, const toml::table& root, std::string_view section) {
  const toml::node* const node = root.get(section);
  if (node == nullptr) {
    return {};
  }
  if (!node->is_table()) {
    return fail(file.place(*node, std::string(section)), "", "is not a table", fmt::format("writing [{}]", section),
                ErrorKind::Configuration);
  }
  return apply_table(file, *node->as_table(), "", false);
}

}  // namespace

void throw_toml_fault(const char* expectation) { throw TomlLibraryFault(expectation); }

Result<toml::table> parse_toml(const std::string& content, const std::string& path) {
  if (const std::optional<Refusal> refused = first_refusal(content)) {
    return fail(fmt::format("{}:{}", path, refused->line), "", refused->reason, refused->action,
                ErrorKind::Configuration);
  }
  try {
    return toml::parse(content, path);
  } catch (const toml::parse_error& error) {
    return fail(fmt::format("{}:{}", path, error.source().begin.line), "", std::string(error.description()),
                "correcting the TOML there", ErrorKind::Configuration);
  } catch (const TomlLibraryFault& fault) {
    return fail(path, "", fmt::format("cannot be parsed as TOML ({})", fault.what()), "rewriting it",
                ErrorKind::Configuration);
  }
}

Result<std::optional<toml::table>> read_toml(const std::string& path, bool required, const TrustedOwners& owners) {
  std::string content;
  std::optional<TrustProblem> trust_problem;
  const FileReading read = read_trusted_file(path, owners, kLongestFile, content, trust_problem);
  if (trust_problem) {
    return refuse_untrusted(path, *trust_problem);
  }
  if (!required && (read.error_number == ENOENT || read.error_number == ENOTDIR)) {
    return std::optional<toml::table>();
  }
  if (!read.reason.empty()) {
    return fail(path, "", read.reason,
                required ? "naming a configuration file that can be read"
                         : "setting XDG_CONFIG_HOME to a folder with a readable rollcall/config.toml",
                read.error_number != 0 ? ErrorKind::NoInput : ErrorKind::Configuration);
  }
  ASSIGN_OR_RETURN(toml::table root, parse_toml(content, path));
  return std::optional<toml::table>(std::move(root));
}

std::string place(const std::string& path, const toml::node& node, const std::string& key) {
  return fmt::format("{}:{}: {}", path, node.source().begin.line, key);
}

Result<void> apply_toml(Settings& settings, const toml::table& root, const std::string& path,
                        std::string_view section) {
  const TomlFile file{settings, path};
  return section.empty() ? apply_table(file, root, "", true) : apply_section(file, root, section);
}
Result<void> apply_toml_file(Settings& settings, const std::string& path, bool required, std::string_view section) {
  ASSIGN_OR_RETURN(const std::optional<toml::table> root, read_toml(path, required, {.anybody = true}));
  return root ? apply_toml(settings, *root, path, section) : Result<void>();
}

}  // namespace rollcall::settings
