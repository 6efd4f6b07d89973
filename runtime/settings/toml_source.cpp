#include "runtime/settings/toml_source.h"

#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <memory>

#include "runtime/settings/toml_characters.h"

namespace rollcall::settings {

// C streams, because C++'s do not tell why they failed.
int read_file(const std::string& path, std::string& content) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "re"), std::fclose);
  if (file == nullptr) {
    return errno;
  }
  std::array<char, 4096> block;
  for (std::size_t count = 1; count > 0;) {
    count = std::fread(block.data(), 1, block.size(), file.get());
    content.append(block.data(), count);
  }
  return std::ferror(file.get()) != 0 ? errno : 0;
}

void throw_toml_fault(const char* expectation) { throw TomlLibraryFault(expectation); }

Result<toml::table> parse_toml(const std::string& content, const std::string& path) {
  if (const auto line = line_with_stray_character(content)) {
    return fail(fmt::format("{}:{}", path, *line), "", "a character beyond ASCII stands outside quotes and comments",
                "quoting it", ExitCode::Configuration);
  }
  try {
    return toml::parse(content, path);
  } catch (const toml::parse_error& error) {
    return fail(fmt::format("{}:{}", path, error.source().begin.line), "", std::string(error.description()),
                "correcting the TOML there", ExitCode::Configuration);
  } catch (const TomlLibraryFault& fault) {
    return fail(path, "", fmt::format("is damaged beyond what the TOML parser expects ({})", fault.what()),
                "writing it anew", ExitCode::Configuration);
  }
}

Result<std::optional<toml::table>> read_toml(const std::string& path, bool required) {
  std::string content;
  const int error_number = read_file(path, content);
  if (!required && (error_number == ENOENT || error_number == ENOTDIR)) {
    return std::optional<toml::table>();
  }
  if (error_number != 0) {
    return fail(path, "", errno_text(error_number), "naming a configuration file that can be read", ExitCode::NoInput);
  }
  Result<toml::table> root = parse_toml(content, path);
  if (!root) {
    return root.error();
  }
  return std::optional<toml::table>(*std::move(root));
}

std::string place(const std::string& path, const toml::node& node, const std::string& key) {
  return fmt::format("{}:{}: {}", path, node.source().begin.line, key);
}

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

}  // namespace rollcall::settings
