#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace rollcall::data {

/// What a source holds and does not give, counted by what it is: nobody is to train on less without knowing.
class LeftOut {
 public:
  /// One more of a kind, ".webp" say.
  void add(const std::string& kind, const std::string& example, std::int64_t count = 1);
  void append(const LeftOut& other);

  [[nodiscard]] bool is_empty() const { return kinds_.empty(); }
  /// "30: 20 .webp (such as cat/1.webp), 10 .bmp (such as cat/2.bmp)"; the most frequent kinds.
  [[nodiscard]] std::string text() const;

 private:
  struct Kind {
    std::int64_t count = 0;
    std::string example;
  };

  std::map<std::string, Kind> kinds_;
};

/// A to Z as a to z.
[[nodiscard]] std::string lower_case(std::string text);
/// Endings of pictures' names. What a file holds is told by its content, whichever of them it has.
inline constexpr std::array<std::string_view, 10> kPictureEndings{"jpg", "jpeg", "jfif", "png", "webp",
                                                                  "tif", "tiff", "gif",  "bmp", "avif"};
/// ".jpg, .jpeg, ... or .avif"
[[nodiscard]] std::string picture_endings();
/// Whether a name without its dot's left part is a picture's, in any case.
[[nodiscard]] bool is_picture_ending(const std::string& ending);
/// Behind the last dot of a name, in lower case; empty where there is none, or the name begins with it.
[[nodiscard]] std::string last_ending(const std::string& name);

}  // namespace rollcall::data
