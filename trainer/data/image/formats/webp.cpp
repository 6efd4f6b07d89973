// WebP by libwebp. Of an animation the first frame is decoded.
#include <webp/decode.h>
#include <webp/demux.h>

#include <algorithm>
#include <utility>

#include "trainer/data/image/whole_picture.h"
#include "trainer/data/jpeg/markers.h"

namespace rollcall::data {
namespace {

struct FreeDemuxer {
  void operator()(WebPDemuxer* demuxer) const { WebPDemuxDelete(demuxer); }
};
using Demuxer = std::unique_ptr<WebPDemuxer, FreeDemuxer>;

int orientation_in(const WebPDemuxer* demuxer) {
  WebPChunkIterator chunk;
  const bool is_found = WebPDemuxGetChunk(demuxer, "EXIF", 1, &chunk) != 0;
  const int orientation =
      is_found ? orientation_in_exif(std::as_bytes(std::span(chunk.chunk.bytes, chunk.chunk.size))) : 1;
  WebPDemuxReleaseChunkIterator(&chunk);
  return orientation;
}

class WebpPicture : public WholePicture {
 public:
  explicit WebpPicture(Demuxer demuxer) : demuxer_(std::move(demuxer)) {
    header = {{static_cast<int>(WebPDemuxGetI(demuxer_.get(), WEBP_FF_CANVAS_WIDTH)),
               static_cast<int>(WebPDemuxGetI(demuxer_.get(), WEBP_FF_CANVAS_HEIGHT))},
              orientation_in(demuxer_.get())};
  }

  [[nodiscard]] Result<void> decode(std::uint8_t* pixels) override {
    WebPIterator frame;
    const bool is_decoded = WebPDemuxGetFrame(demuxer_.get(), 1, &frame) != 0 && decode_frame(frame, pixels);
    WebPDemuxReleaseIterator(&frame);
    return is_decoded ? Result<void>() : damaged("is a damaged WebP file");
  }

 private:
  [[nodiscard]] bool decode_frame(const WebPIterator& frame, std::uint8_t* pixels) const {
    WebPDecoderConfig config;
    if (WebPInitDecoderConfig(&config) == 0) {
      return false;
    }
    const std::size_t row_bytes = static_cast<std::size_t>(header.size.width) * kPixelBytes;
    const std::size_t all = row_bytes * static_cast<std::size_t>(header.size.height);
    if (frame.width != header.size.width || frame.height != header.size.height) {
      std::fill_n(pixels, all, std::uint8_t{0});  // a frame may cover only a part of the canvas
    }
    const std::size_t at =
        static_cast<std::size_t>(frame.y_offset) * row_bytes + static_cast<std::size_t>(frame.x_offset) * kPixelBytes;
    if (frame.x_offset + frame.width > header.size.width || at > all) {
      return false;
    }
    config.output.colorspace = MODE_RGBA;
    config.output.is_external_memory = 1;
    config.output.u.RGBA = {pixels + at, static_cast<int>(row_bytes), all - at};
    return WebPDecode(frame.fragment.bytes, frame.fragment.size, &config) == VP8_STATUS_OK;
  }

  Demuxer demuxer_;
};

}  // namespace

OpenedPicture open_webp(std::span<const std::byte> file) {
  const WebPData data{reinterpret_cast<const std::uint8_t*>(file.data()), file.size()};
  Demuxer demuxer(WebPDemux(&data));
  if (!demuxer) {
    return damaged("is a damaged WebP file");  // or truncated
  }
  return std::unique_ptr<WholePicture>(std::make_unique<WebpPicture>(std::move(demuxer)));
}

}  // namespace rollcall::data
