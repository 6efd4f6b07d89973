#include "trainer/data/jpeg/jpeg_file.h"

#include <algorithm>

#include "trainer/data/encoded_image.h"
#include "trainer/data/jpeg/tiles.h"

namespace rollcall::data {
namespace {

Error damaged_tile() { return damaged("is a damaged repacked JPEG file (a tile holds invalid data)"); }

}  // namespace

Result<ImageSize> TiledJpeg::open(std::span<const std::byte> file, const Tiling& tiling) {
  file_ = file;
  RETURN_IF_ERROR(read_tile_grid(file, tiling, grid_));
  return grid_.size;
}

Result<PixelView> TiledJpeg::decode_range(const TileRange& range, const JpegCrop& crop, ReusableBuffer& pixels) {
  const bool tiles_are_sound = !entropy_decoder_ || entropy_decoder_->read_tiles(file_, grid_, range);
  const std::span<const std::byte> jpeg =
      entropy_decoder_ ? splice_header(file_, grid_, range, spliced_) : splice(file_, grid_, range, spliced_);
  if (!tiles_are_sound || jpeg.empty()) {
    return damaged_tile();
  }
  RETURN_IF_ERROR(decompressor_.read_header(jpeg));
  const Result<PixelView> view = decompressor_.decode(crop, pixels, entropy_decoder_.get());
  return view && entropy_decoder_ && entropy_decoder_->found_damage() ? damaged_tile() : view;
}

Result<PixelView> TiledJpeg::decode(const Box& box, int reduction, ReusableBuffer& pixels) {
  const Box full{box.left * reduction, box.top * reduction, box.width * reduction, box.height * reduction};
  const TileRange range = grid_.tiles_for(full, reduction);
  const int left = range.first_column * grid_.tile_width / reduction;
  const int top = range.first_row * grid_.tile_height / reduction;
  JpegCrop crop;
  crop.box = {box.left - left, box.top - top, box.width, box.height};
  crop.picture_width = (grid_.picture_width(range) + reduction - 1) / reduction;
  crop.reduction = reduction;
  Result<PixelView> view = decode_range(range, crop, pixels);
  if (view) {
    view->area.left += left;
    view->area.top += top;
  }
  return view;
}

}  // namespace rollcall::data
