#include "runtime/install/sealed_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/job/marker.h"

namespace rollcall::install {
namespace {

constexpr std::string_view kFileMark = "# Written by `rollcall install`; `rollcall uninstall` takes it back. Seal ";
constexpr std::string_view kBlockMark = "# >>> rollcall: `rollcall uninstall --site` takes these lines back. Seal ";
constexpr std::string_view kBlockEnd = "# <<< rollcall\n";
constexpr std::size_t kDigits = 8;

std::string mark_line(std::string_view mark, std::string_view text) {
  return fmt::format("{}{:08x}\n", mark, job::fnv1a(text));
}

/// Offsets in a file: of the opening line, of the lines inside, and of the closing line.
struct Block {
  std::size_t begin = 0;
  std::size_t lines = 0;
  std::size_t end = 0;
};

std::optional<Block> find_block(std::string_view file) {
  const std::size_t begin = file.find(kBlockMark);
  if (begin == std::string_view::npos) {
    return std::nullopt;
  }
  const std::size_t lines = begin + kBlockMark.size() + kDigits + 1;
  const std::size_t end = lines <= file.size() ? file.find(kBlockEnd, lines) : std::string_view::npos;
  return Block{begin, lines, end};
}

/// Removes the words that an administrator may add to the plugin's line or change.
std::string without_own_words(std::string_view lines) {
  std::string text(lines);
  for (const std::string_view key : {"config_owner=", "log=", "rollcall="}) {
    for (std::size_t at = text.find(key); at != std::string::npos; at = text.find(key, at)) {
      const std::size_t before = text.find_last_not_of(" \t", at - 1) + 1;
      if (before == at) {
        at += key.size();  // within a word
      } else {
        text.erase(before, std::min(text.find_first_of(" \t\n", at), text.size()) - before);
        at = before;
      }
    }
  }
  return text;
}

bool is_intact(std::string_view file, const Block& block) {
  if (block.end == std::string_view::npos) {
    return false;
  }
  const std::string_view lines = file.substr(block.lines, block.end - block.lines);
  const std::string_view mark = file.substr(block.begin, block.lines - block.begin);
  return mark == mark_line(kBlockMark, without_own_words(lines)) || mark == mark_line(kBlockMark, lines);
}

}  // namespace

std::string seal(std::string_view text) { return mark_line(kFileMark, text).append(text); }

Seal seal_of(std::string_view file) {
  if (!file.starts_with(kFileMark)) {
    return Seal::Foreign;
  }
  const std::size_t text = kFileMark.size() + kDigits + 1;
  return text <= file.size() && seal(file.substr(text)) == file ? Seal::Intact : Seal::Edited;
}

std::string with_block(std::string_view file, std::string_view lines) {
  return mark_line(kBlockMark, without_own_words(lines)).append(lines).append(kBlockEnd).append(file);
}

std::optional<Seal> block_of(std::string_view file) {
  const std::optional<Block> block = find_block(file);
  if (!block) {
    return std::nullopt;
  }
  return is_intact(file, *block) ? Seal::Intact : Seal::Edited;
}

std::string_view lines_of_block(std::string_view file) {
  const std::optional<Block> block = find_block(file);
  return block && is_intact(file, *block) ? file.substr(block->lines, block->end - block->lines) : std::string_view();
}

std::string without_block(std::string_view file) {
  const std::optional<Block> block = find_block(file);
  if (!block || !is_intact(file, *block)) {
    return std::string(file);
  }
  return std::string(file.substr(0, block->begin)).append(file.substr(block->end + kBlockEnd.size()));
}

}  // namespace rollcall::install
