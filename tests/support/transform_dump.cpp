// Writes what the data pipeline makes of image files to stdout, for comparison with torchvision and Pillow:
//   transform_dump decode FILE...                       uint8 [height][width][3] each
//   transform_dump eval IMAGE_SIZE RESIZE_SIZE FILE...  float32 [IMAGE_SIZE][IMAGE_SIZE][3] each, normalised
//   transform_dump crop LEFT TOP WIDTH HEIGHT SIZE FILE...  float32 [SIZE][SIZE][3] each, levels 0 ... 255
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "trainer/data/image/decode.h"
#include "trainer/data/image/read_file.h"
#include "trainer/data/transforms.h"

namespace rollcall::data {
namespace {

Image load(const std::string& path) {
  const auto file = read_file(path);
  Result<Image> image = file ? decode(*file, path) : Result<Image>(file.error());
  if (!image) {
    std::fprintf(stderr, "%s\n", image.error().message().c_str());
    std::exit(to_int(image.error().exit_code));
  }
  return *std::move(image);
}

void write_floats(const std::vector<float>& values) {
  std::fwrite(values.data(), sizeof(float), values.size(), stdout);
}

std::vector<float> square(int size) { return std::vector<float>(static_cast<std::size_t>(size) * size * 3U); }

int dump(const std::vector<std::string>& arguments) {
  const auto number = [&](std::size_t i) { return std::stoi(arguments.at(i)); };
  const std::string& mode = arguments.at(0);
  const std::size_t first_file = mode == "decode" ? 1 : mode == "eval" ? 3 : 6;
  for (std::size_t i = first_file; i < arguments.size(); ++i) {
    const Image image = load(arguments[i]);
    if (mode == "decode") {
      std::fwrite(image.pixels.get(), 1, image.row_bytes() * static_cast<std::size_t>(image.height), stdout);
    } else if (mode == "eval") {
      std::vector<float> pixels = square(number(1));
      EvalTransform{.image_size = number(1), .resize_size = number(2), .normalisation = {}}(image, pixels);
      write_floats(pixels);
    } else {
      std::vector<float> pixels = square(number(5));
      Resize request{.source = {number(1), number(2), number(3), number(4)}, .width = number(5), .height = number(5)};
      request.window = {0, 0, number(5), number(5)};
      resize(image, request, {}, pixels);
      write_floats(pixels);
    }
  }
  return 0;
}

}  // namespace
}  // namespace rollcall::data

int main(int argc, char** argv) { return rollcall::data::dump({argv + 1, argv + argc}); }
