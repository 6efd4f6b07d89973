#pragma once

#include <cstdint>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/test_images.h"
#include "tests/trainer/data/packed/sample_file.h"
#include "trainer/tools/pack/program.h"

namespace rollcall::test {

namespace fs = std::filesystem;

inline std::vector<std::byte> small_jpeg(int width, int height, unsigned seed) {
  return make_jpeg(smooth_pixels(width, height, seed), width, height);
}

inline std::vector<std::byte> small_png(int width, int height, unsigned seed) {
  return make_png(smooth_pixels(width, height, seed).data(), width, height);
}

inline void put(const std::string& path, const std::vector<std::byte>& content) {
  fs::create_directories(fs::path(path).parent_path());
  write_file(path, content);
}

inline void put_text(const std::string& path, const std::string& text) {
  fs::create_directories(fs::path(path).parent_path());
  write_content(path, {text.begin(), text.end()});
}

/// Nine pictures of three classes, with difficult names.
inline void make_tree(const std::string& root) {
  for (unsigned i = 0; i < 4; ++i) {
    put(root + "/cat/" + std::to_string(i) + ".jpg", small_jpeg(130 + static_cast<int>(i), 70, i));
  }
  put(root + "/h\xc3\xbchner/a b/line\nbreak.JPEG", small_jpeg(64, 64, 10));
  put(root + "/h\xc3\xbchner/\xe9\xb8\xa1.png", small_png(40, 30, 11));
  for (unsigned i = 0; i < 3; ++i) {
    put(root + "/zebra/" + std::to_string(i) + ".jpg", small_jpeg(33, 200, 20 + i));
  }
}

struct Ended {
  int exit_code = 0;
  std::string out;
  std::string err;
};

/// rollcall-pack in this process, without progress and with a fixed time.
inline Ended pack(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "--progress=none");
  Environment environment;
  environment.set("SOURCE_DATE_EPOCH", "1767323045");
  std::ostringstream out;
  std::ostringstream err;
  const int exit_code = pack::run(arguments, environment, out, err);
  return {exit_code, out.str(), err.str()};
}

}  // namespace rollcall::test
