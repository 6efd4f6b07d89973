#include "trainer/data/image/whole_picture.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

namespace rollcall::data {
namespace {

using std::string_view_literals::operator""sv;

/// A format and the first bytes of its files. A format may have several entries.
struct Format {
  std::size_t at;
  std::string_view magic;
  const char* name;
  OpenedPicture (*open)(std::span<const std::byte> file) = nullptr;  ///< null: not in this build
  const char* package = nullptr;                                     ///< of Debian, with which it would be; null: never
};

#ifdef ROLLCALL_AVIF
constexpr auto kOpenAvif = open_avif;
#else
constexpr decltype(&open_avif) kOpenAvif = nullptr;
#endif
#ifdef ROLLCALL_GIF
constexpr auto kOpenGif = open_gif;
#else
constexpr decltype(&open_gif) kOpenGif = nullptr;
#endif
#ifdef ROLLCALL_TIFF
constexpr auto kOpenTiff = open_tiff;
#else
constexpr decltype(&open_tiff) kOpenTiff = nullptr;
#endif
#ifdef ROLLCALL_WEBP
constexpr auto kOpenWebp = open_webp;
#else
constexpr decltype(&open_webp) kOpenWebp = nullptr;
#endif

constexpr std::array kFormats{Format{0, "\x89PNG\r\n\x1a\n"sv, "PNG", open_png},
                              Format{8, "WEBP"sv, "WebP", kOpenWebp, "libwebp-dev"},
                              Format{0, "II*\0"sv, "TIFF", kOpenTiff, "libtiff-dev"},
                              Format{0, "MM\0*"sv, "TIFF", kOpenTiff, "libtiff-dev"},
                              Format{0, "II+\0"sv, "TIFF", kOpenTiff, "libtiff-dev"},
                              Format{0, "MM\0+"sv, "TIFF", kOpenTiff, "libtiff-dev"},
                              Format{0, "GIF87a"sv, "GIF", kOpenGif, "libgif-dev"},
                              Format{0, "GIF89a"sv, "GIF", kOpenGif, "libgif-dev"},
                              Format{4, "ftypavif"sv, "AVIF", kOpenAvif, "libavif-dev"},
                              Format{4, "ftypavis"sv, "AVIF", kOpenAvif, "libavif-dev"},
                              Format{0, "BM"sv, "BMP", open_bmp},
                              Format{4, "ftyphei"sv, "HEIF"},
                              Format{4, "ftypmif1"sv, "HEIF"},
                              Format{4, "jP  "sv, "JPEG 2000"},
                              Format{0, "<"sv, "text in HTML or XML"}};

}  // namespace

OpenedPicture open_whole_picture(std::span<const std::byte> file) {
  const std::string_view begin(reinterpret_cast<const char*>(file.data()), std::min<std::size_t>(file.size(), 32));
  const auto* const format = std::find_if(kFormats.begin(), kFormats.end(), [&](const Format& each) {
    return begin.size() > each.at && begin.substr(each.at).starts_with(each.magic);
  });
  if (format != kFormats.end() && format->open != nullptr) {
    return format->open(file);
  }
  if (format != kFormats.end() && format->package != nullptr) {
    return fail("--data", "", std::string("is a ") + format->name + " file, which this build cannot read",
                std::string("building rollcall with ") + format->package + " installed, or converting the file",
                ErrorKind::BadData);
  }
  return damaged(file.empty() ? "is empty"
                              : std::string("is not an image in a supported format") +
                                    (format == kFormats.end() ? "" : std::string(", but ") + format->name));
}

std::vector<std::string> image_formats() {
  std::vector<std::string> names{"JPEG"};
  for (const Format& format : kFormats) {
    if (format.open != nullptr && names.back() != format.name) {  // entries of one format stand together
      names.emplace_back(format.name);
    }
  }
  return names;
}

}  // namespace rollcall::data
