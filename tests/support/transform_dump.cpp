// Writes what the data pipeline makes of image files to stdout, for comparison with torchvision and Pillow:
//   transform_dump decode FILE...                       uint8 [height][width][3] each
//   transform_dump eval IMAGE_SIZE RESIZE_SIZE FILE...  float32 [IMAGE_SIZE][IMAGE_SIZE][3] each, normalised
//   transform_dump crop LEFT TOP WIDTH HEIGHT SIZE FILE...  float32 [SIZE][SIZE][3] each, levels 0 ... 255
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "tests/support/rgb_image.h"
#include "trainer/data/image/decode.h"
#include "trainer/data/image/read_file.h"
#include "trainer/data/transforms.h"

namespace rollcall::data {
namespace {

std::vector<std::byte> load(const std::string& path) {
  std::vector<std::byte> buffer;
  const auto bytes = read_file(path, buffer);
  if (!bytes) {
    std::fprintf(stderr, "%s\n", bytes.error().message().c_str());
    std::exit(to_int(bytes.error().exit_code));
  }
  return {bytes->begin(), bytes->end()};
}

template <typename T>
T checked(Result<T> result) {
  if (!result) {
    std::fprintf(stderr, "%s\n", result.error().message().c_str());
    std::exit(to_int(result.error().exit_code));
  }
  return *std::move(result);
}

void write_floats(const std::vector<float>& values) {
  std::fwrite(values.data(), sizeof(float), values.size(), stdout);
}

void resize_and_write(ImageDecoder& decoder, const Resize& plan, const ChannelAffine& affine) {
  std::vector<float> pixels;
  const OutputPixels out = test::square_of(pixels, plan.window.width);
  resize(checked(decoder.decode(needed(plan))), plan, affine, out);
  write_floats(pixels);
}

int dump(const std::vector<std::string>& arguments) {
  const auto number = [&](std::size_t i) { return std::stoi(arguments.at(i)); };
  const std::string& mode = arguments.at(0);
  const std::size_t first_file = mode == "decode" ? 1 : mode == "eval" ? 3 : 6;
  for (std::size_t i = first_file; i < arguments.size(); ++i) {
    const std::vector<std::byte> file = load(arguments[i]);
    ImageDecoder decoder;
    const ImageSize size = checked(decoder.open({.bytes = file}));
    if (mode == "decode") {
      const Box whole{0, 0, size.width, size.height};
      const auto image = test::copy_of(checked(decoder.decode(whole)), whole);
      std::fwrite(image.pixels.data(), 1, image.pixels.size(), stdout);
    } else if (mode == "eval") {
      const EvalTransform transform{.image_size = number(1), .resize_size = number(2), .normalisation = {}};
      Random unused(0, Purpose::Augmentation, 0, 0);
      resize_and_write(decoder, transform.plan(size, unused), transform.normalisation.affine());
    } else {
      Resize plan{.source = {number(1), number(2), number(3), number(4)}, .width = number(5), .height = number(5)};
      plan.window = {0, 0, number(5), number(5)};
      resize_and_write(decoder, plan, {});
    }
  }
  return 0;
}

}  // namespace
}  // namespace rollcall::data

int main(int argc, char** argv) { return rollcall::data::dump({argv + 1, argv + argc}); }
