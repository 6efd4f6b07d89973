// What the data pipeline makes of image files, for comparison with torchvision and Pillow. Requests come by stdin, a
// line each with tabs between its words; each is answered by "EXIT_CODE BYTES ERROR_BYTES\n", the pixels, and the error
// where a picture is refused. (To start a program for each took longer than all that is compared.)
//   decode FILE...                       uint8 [height][width][3] each
//   decode_upright FILE...               the same with their orientation applied
//   eval IMAGE_SIZE RESIZE_SIZE FILE...  float32 [IMAGE_SIZE][IMAGE_SIZE][3] each, normalised
//   crop LEFT TOP WIDTH HEIGHT SIZE FILE...  float32 [SIZE][SIZE][3] each, levels 0 ... 255
//   crop_bfloat16 (as crop)              the same as bfloat16
//   crop_levels (as crop)                the same as uint8
//   crop_cubic, crop_cubic_levels (as crop)  the same with bicubic interpolation
//   operation NUMBER MAGNITUDE FILE...   uint8 [height][width][3] each, after an Operation
//   timm NUMBER LEVEL NEGATIVE CUBIC FILE...  the same after a TimmOperation, with ImageNet's mean around it
//   hue TURNS FILE...                    the same after adjust_hue
//   blur RADIUS FILE...                  the same after gaussian_blur
//   greyscale FILE...                    the same after to_greyscale
//   magnitudes POLICY WIDTH HEIGHT       float64 [14 operations][31 bins]; POLICY 1 or 2, AugmentPolicy's
#include <functional>
#include <iostream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/rgb_image.h"
#include "trainer/data/image/image_decoder.h"
#include "trainer/data/sources/image_folder.h"
#include "trainer/data/transforms/operations.h"
#include "trainer/data/transforms/policy.h"
#include "trainer/data/transforms/three_augment.h"
#include "trainer/data/transforms/timm_policy.h"
#include "trainer/data/transforms/transforms.h"

namespace rollcall::data {
namespace {

/// Thrown where a picture is refused.
struct Refused {
  Error error;
};

template <typename T>
T checked(Result<T> result) {
  if (!result) {
    throw Refused{result.error()};
  }
  return *std::move(result);
}

std::string written;  ///< of the answer

template <typename Element>
void write(const std::vector<Element>& values) {
  written.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(Element));
}

/// Red, green and blue of [height][width][4].
void write_rgb(const std::vector<std::uint8_t>& rgbx, std::size_t pixels) {
  for (std::size_t i = 0; i < pixels; ++i) {
    written.append(reinterpret_cast<const char*>(&rgbx[i * kPixelBytes]), 3);
  }
}

/// An opened file.
struct Picture {
  std::vector<std::byte> buffer;
  ImageDecoder decoder;
  ImageSize size;

  explicit Picture(const std::string& path, const DecodeOptions& options = {}) : decoder(options) {
    size = checked(decoder.open({.bytes = checked(read_file(path, buffer))}));
  }
};

using Arguments = std::vector<std::string>;

Resize square_resize(const Arguments& arguments) {
  const auto number = [&](std::size_t i) { return std::stoi(arguments.at(i)); };
  return {.source = {number(0), number(1), number(2), number(3)},
          .width = number(4),
          .height = number(4),
          .wanted = {0, 0, number(4), number(4)}};
}

void dump_whole(Picture& picture, const Arguments& /*arguments*/) {
  const Box whole{0, 0, picture.size.width, picture.size.height};
  write(test::copy_of(checked(picture.decoder.decode(whole)), whole).pixels);
}

void dump_floats(Picture& picture, const Resize& plan, const ChannelAffine& affine) {
  std::vector<float> pixels;
  const OutputPixels out = test::square_of(pixels, plan.wanted.width);
  resize(checked(picture.decoder.decode(needed(plan))), plan, affine, out);
  write(pixels);
}

void dump_eval(Picture& picture, const Arguments& arguments) {
  const EvalTransform transform{.image_size = std::stoi(arguments.at(0)), .resize_size = std::stoi(arguments.at(1))};
  Random unused(0, Purpose::Augmentation, 0, 0);
  dump_floats(picture, transform.plan(picture.size, unused), transform.normalisation.affine());
}

template <Interpolation kind>
void dump_crop(Picture& picture, const Arguments& arguments) {
  Resize plan = square_resize(arguments);
  plan.interpolation = kind;
  dump_floats(picture, plan, {});
}

void dump_bfloat16(Picture& picture, const Arguments& arguments) {
  const Resize plan = square_resize(arguments);
  std::vector<std::uint16_t> pixels(static_cast<std::size_t>(plan.width * plan.height * 3));
  resize(checked(picture.decoder.decode(needed(plan))), plan, {},
         {pixels.data(), PixelType::BFloat16, plan.width, plan.height});
  write(pixels);
}

template <Interpolation kind>
void dump_levels(Picture& picture, const Arguments& arguments) {
  Resize plan = square_resize(arguments);
  plan.interpolation = kind;
  std::vector<std::uint8_t> pixels(static_cast<std::size_t>(plan.width * plan.height * kPixelBytes));
  resize_to_uint8(checked(picture.decoder.decode(needed(plan))), plan, pixels.data());
  write_rgb(pixels, pixels.size() / kPixelBytes);
}

/// The whole picture after something was done to its levels.
void dump_changed(Picture& picture, const std::function<void(const UInt8Image&)>& change) {
  const Box whole{0, 0, picture.size.width, picture.size.height};
  std::vector<std::uint8_t> pixels(static_cast<std::size_t>(whole.width * whole.height * kPixelBytes));
  const Resize copy{.source = whole, .width = whole.width, .height = whole.height, .wanted = whole};
  resize_to_uint8(checked(picture.decoder.decode(whole)), copy, pixels.data());
  change({pixels.data(), whole.width, whole.height});
  write_rgb(pixels, pixels.size() / kPixelBytes);
}

void dump_operation(Picture& picture, const Arguments& arguments) {
  AugmentScratch scratch;
  const auto operation = static_cast<Operation>(std::stoi(arguments.at(0)));
  const double magnitude = std::stod(arguments.at(1));
  dump_changed(picture, [&](const UInt8Image& levels) { apply(operation, magnitude, levels, scratch); });
}

void dump_timm(Picture& picture, const Arguments& arguments) {
  AugmentScratch scratch;
  const Moving moving{arguments.at(3) == "1" ? Interpolation::Bicubic : Interpolation::Bilinear,
                      Normalisation{}.mean_levels()};
  dump_changed(picture, [&](const UInt8Image& levels) {
    apply(static_cast<TimmOperation>(std::stoi(arguments.at(0))), std::stod(arguments.at(1)), arguments.at(2) == "1",
          levels, moving, scratch);
  });
}

void dump_hue(Picture& picture, const Arguments& arguments) {
  dump_changed(picture, [&](const UInt8Image& levels) { adjust_hue(levels, std::stod(arguments.at(0))); });
}

void dump_blur(Picture& picture, const Arguments& arguments) {
  AugmentScratch scratch;
  dump_changed(picture, [&](const UInt8Image& levels) { gaussian_blur(levels, std::stod(arguments.at(0)), scratch); });
}

void dump_greyscale(Picture& picture, const Arguments& /*arguments*/) { dump_changed(picture, to_greyscale); }

void dump_magnitudes(const Arguments& arguments) {
  const auto policy = static_cast<AugmentPolicy>(std::stoi(arguments.at(1)));
  const ImageSize size{std::stoi(arguments.at(2)), std::stoi(arguments.at(3))};
  std::vector<double> magnitudes;
  for (int operation = 0; operation < kOperations; ++operation) {
    for (int bin = 0; bin < kMagnitudeBins; ++bin) {
      magnitudes.push_back(magnitude_of(policy, static_cast<Operation>(operation), bin, size));
    }
  }
  write(magnitudes);
}

struct Mode {
  std::ptrdiff_t arguments;  ///< between the mode and the files
  void (*dump)(Picture&, const Arguments&);
};

void dump(const Arguments& arguments) {
  if (arguments.at(0) == "magnitudes") {
    dump_magnitudes(arguments);
    return;
  }
  const std::map<std::string, Mode> modes{
      {"decode", {0, dump_whole}},
      {"decode_upright", {0, dump_whole}},
      {"eval", {2, dump_eval}},
      {"crop", {5, dump_crop<Interpolation::Bilinear>}},
      {"crop_cubic", {5, dump_crop<Interpolation::Bicubic>}},
      {"crop_bfloat16", {5, dump_bfloat16}},
      {"crop_levels", {5, dump_levels<Interpolation::Bilinear>}},
      {"crop_cubic_levels", {5, dump_levels<Interpolation::Bicubic>}},
      {"operation", {2, dump_operation}},
      {"timm", {4, dump_timm}},
      {"hue", {1, dump_hue}},
      {"blur", {1, dump_blur}},
      {"greyscale", {0, dump_greyscale}},
  };
  const Mode& mode = modes.at(arguments.at(0));
  const auto first_file = arguments.begin() + 1 + mode.arguments;
  for (auto path = first_file; path != arguments.end(); ++path) {
    Picture picture(*path, {.apply_orientation = arguments.at(0) == "decode_upright"});
    mode.dump(picture, {arguments.begin() + 1, first_file});
  }
}

Arguments words_of(const std::string& line) {
  Arguments words;
  std::istringstream stream(line);
  for (std::string word; std::getline(stream, word, '\t');) {
    words.push_back(word);
  }
  return words;
}

void answer(const Arguments& request) {
  written.clear();
  int code = 0;
  std::string error;
  try {
    dump(request);
  } catch (const Refused& refused) {
    code = to_int(refused.error.exit_code());
    error = refused.error.message() + "\n";
  }
  std::cout << code << ' ' << written.size() << ' ' << error.size() << '\n' << written << error << std::flush;
}

}  // namespace
}  // namespace rollcall::data

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    rollcall::data::answer(rollcall::data::words_of(line));
  }
}
