// GIF by giflib. Of an animation the first frame is decoded. As in Pillow, pixels outside the frame have the
// transparent colour, or colour 0, and colours that are in no table are grey.
#include <gif_lib.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include "trainer/data/image/whole_picture.h"

namespace rollcall::data {
namespace {

Error damaged_gif(int error) {
  const char* const text = GifErrorString(error);
  return damaged(fmt::format("is a damaged GIF file ({})", text != nullptr ? text : "unknown error"));
}

class GifPicture : public WholePicture {
 public:
  explicit GifPicture(std::span<const std::byte> file) : rest_(file) {}
  ~GifPicture() override {
    if (gif_ != nullptr) {
      DGifCloseFile(gif_, nullptr);
    }
  }

  [[nodiscard]] Result<void> read_header() {
    int error = 0;
    gif_ = DGifOpen(this, read, &error);
    if (gif_ == nullptr) {
      return damaged_gif(error);
    }
    for (GifRecordType record = UNDEFINED_RECORD_TYPE; record != IMAGE_DESC_RECORD_TYPE;) {
      if (DGifGetRecordType(gif_, &record) == GIF_ERROR) {
        return damaged_gif(gif_->Error);
      }
      if (record == TERMINATE_RECORD_TYPE) {
        return damaged("is a GIF file without an image");
      }
      if (record == EXTENSION_RECORD_TYPE && !read_extension()) {
        return damaged_gif(gif_->Error);
      }
    }
    if (DGifGetImageDesc(gif_) == GIF_ERROR) {
      return damaged_gif(gif_->Error);
    }
    code_size_ = std::to_integer<unsigned>(*(rest_.data() - 1));  // the last byte that giflib read
    const GifImageDesc& frame = gif_->Image;
    if (code_size_ > 8 || frame.Width <= 0 || frame.Height <= 0) {
      return damaged_gif(D_GIF_ERR_IMAGE_DEFECT);
    }
    header.size = {std::max(gif_->SWidth, frame.Left + frame.Width), std::max(gif_->SHeight, frame.Top + frame.Height)};
    return {};
  }

  [[nodiscard]] Result<void> decode(std::uint8_t* pixels) override {
    const std::vector<std::array<std::uint8_t, kPixelBytes>> colours = colour_table();
    const GifImageDesc& frame = gif_->Image;
    const auto canvas = static_cast<std::size_t>(header.size.width) * static_cast<std::size_t>(header.size.height);
    for (std::size_t i = 0; i < canvas; ++i) {
      std::memcpy(pixels + i * kPixelBytes, colours[transparent_].data(), kPixelBytes);
    }
    const auto width = static_cast<std::size_t>(frame.Width);
    const std::size_t count = width * static_cast<std::size_t>(frame.Height);
    std::uint8_t* const memory = indices_.at_least(count);
    if (memory == nullptr) {
      return no_memory();
    }
    if (!read_indices({memory, count})) {
      return damaged_gif(gif_->Error != 0 ? gif_->Error : D_GIF_ERR_IMAGE_DEFECT);
    }
    std::span<const std::uint8_t> rest(memory, count);
    struct Pass {
      int first;
      int step;
    };
    constexpr std::array<Pass, 5> kPasses{
        {{0, 8}, {4, 8}, {2, 4}, {1, 2}, {0, 1}}};  // the first four if interlaced, else the last
    const auto passes = frame.Interlace ? std::span(kPasses).first(4) : std::span(kPasses).last(1);
    for (const Pass& pass : passes) {
      for (int y = pass.first; y < frame.Height; y += pass.step) {
        std::uint8_t* out =
            pixels + (static_cast<std::size_t>(frame.Top + y) * static_cast<std::size_t>(header.size.width) +
                      static_cast<std::size_t>(frame.Left)) *
                         kPixelBytes;
        for (const std::uint8_t index : rest.first(width)) {
          std::memcpy(out, colours[index].data(), kPixelBytes);
          out += kPixelBytes;
        }
        rest = rest.subspan(width);
      }
    }
    return {};
  }

 private:
  static int read(GifFileType* gif, GifByteType* out, int count) {
    std::span<const std::byte>& rest = static_cast<GifPicture*>(gif->UserData)->rest_;
    const std::size_t given = std::min(static_cast<std::size_t>(count), rest.size());
    std::memcpy(out, rest.data(), given);
    rest = rest.subspan(given);
    return static_cast<int>(given);
  }

  [[nodiscard]] bool read_extension() {
    int code = 0;
    GifByteType* block = nullptr;
    if (DGifGetExtension(gif_, &code, &block) == GIF_ERROR) {
      return false;
    }
    while (block != nullptr) {
      GraphicsControlBlock control{};
      if (code == GRAPHICS_EXT_FUNC_CODE && DGifExtensionToGCB(block[0], block + 1, &control) == GIF_OK &&
          control.TransparentColor != NO_TRANSPARENT_COLOR) {
        transparent_ = static_cast<std::size_t>(control.TransparentColor);
      }
      if (DGifGetExtensionNext(gif_, &block) == GIF_ERROR) {
        return false;
      }
    }
    return true;
  }

  /// A stretch of the decoded indices.
  struct Stretch {
    std::size_t begin;
    std::size_t length;
  };

  /// Decodes the frame's LZW codes. Source: GIF89a, appendix F. giflib's own function takes any code that the table
  /// does not have for the next one, so that a flipped bit would give other pixels.
  [[nodiscard]] bool read_indices(std::span<std::uint8_t> out) {
    constexpr std::size_t kMostCodes = 4096;
    const auto clear = std::size_t{1} << code_size_;  // behind it are the end and the codes of `strings`
    std::vector<Stretch> strings;
    Stretch previous{};
    for (std::size_t at = 0; at < out.size(); at += previous.length) {
      int code = 0;
      if (DGifGetLZCodes(gif_, &code) == GIF_ERROR || code < 0) {  // -1: the end
        return false;
      }
      const auto given = static_cast<std::size_t>(code);
      if (given == clear) {
        strings.clear();
        previous = {};
        continue;
      }
      if (previous.length > 0 && strings.size() < kMostCodes - clear - 2) {
        strings.push_back({previous.begin, previous.length + 1});  // with the first index of this code
      }
      if (given < clear) {
        out[at] = static_cast<std::uint8_t>(given);
        previous = {at, 1};
        continue;
      }
      if (given - clear - 2 >= strings.size()) {
        return false;
      }
      const Stretch string = strings[given - clear - 2];
      previous = {at, std::min(string.length, out.size() - at)};
      for (std::size_t i = 0; i < previous.length; ++i) {  // the new string may begin where it is read
        out[at + i] = out[string.begin + i];
      }
    }
    return true;
  }

  [[nodiscard]] std::vector<std::array<std::uint8_t, kPixelBytes>> colour_table() const {
    std::vector<std::array<std::uint8_t, kPixelBytes>> colours(256);
    for (std::size_t i = 0; i < colours.size(); ++i) {
      colours[i].fill(static_cast<std::uint8_t>(i));
    }
    const ColorMapObject* const table = gif_->Image.ColorMap != nullptr ? gif_->Image.ColorMap : gif_->SColorMap;
    for (int i = 0; table != nullptr && i < std::min(table->ColorCount, 256); ++i) {
      colours[static_cast<std::size_t>(i)] = {table->Colors[i].Red, table->Colors[i].Green, table->Colors[i].Blue, 255};
    }
    return colours;
  }

  std::span<const std::byte> rest_;  ///< what giflib has not read yet
  GifFileType* gif_ = nullptr;
  std::size_t transparent_ = 0;  ///< colour
  unsigned code_size_ = 0;       ///< bits of an index, at most 8
  ReusableBuffer indices_;
};

}  // namespace

OpenedPicture open_gif(std::span<const std::byte> file) {
  auto picture = std::make_unique<GifPicture>(file);
  const Result<void> read = picture->read_header();
  return read ? OpenedPicture(std::move(picture)) : read.error();
}

}  // namespace rollcall::data
