#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace rollcall::data {

/// Counts of the files that a source leaves out, by kind, so that nobody trains on fewer samples unknowingly.
class LeftOut {
 public:
  /// Counts files of a kind, such as ".webp".
  void add(const std::string& kind, const std::string& example, std::int64_t count = 1);
  void append(const LeftOut& other);

  [[nodiscard]] bool is_empty() const { return kinds_.empty(); }
  /// Returns the total and the most frequent kinds: "30: 20 .webp (such as cat/1.webp), 10 .bmp (such as cat/2.bmp)".
  [[nodiscard]] std::string text() const;

 private:
  struct Kind {
    std::int64_t count = 0;
    std::string example;
  };

  std::map<std::string, Kind> kinds_;
};

/// Returns the text with A to Z in lower case.
[[nodiscard]] std::string lower_case(std::string text);
/// The name endings of pictures, without the dot. The content of a file, not its ending, decides its format.
inline constexpr std::array<std::string_view, 10> kPictureEndings{"jpg", "jpeg", "jfif", "png", "webp",
                                                                  "tif", "tiff", "gif",  "bmp", "avif"};
/// Returns ".jpg, .jpeg, ... or .avif".
[[nodiscard]] std::string picture_endings();
/// Returns whether a name's ending, without the dot and in any case, is one of kPictureEndings.
[[nodiscard]] bool is_picture_ending(const std::string& ending);
/// Returns what follows the last dot of a name, in lower case; empty if there is no dot or only a leading one.
[[nodiscard]] std::string last_ending(const std::string& name);

}  // namespace rollcall::data
