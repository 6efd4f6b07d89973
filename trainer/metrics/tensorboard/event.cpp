#include "trainer/metrics/tensorboard/event.h"

#include <png.h>

#include <bit>
#include <cassert>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <span>

#include "trainer/storage/crc.h"

namespace rollcall::metrics::tensorboard {
namespace {

template <typename Unsigned>
void append_little_endian(std::string& bytes, Unsigned value) {
  for (std::size_t i = 0; i < sizeof value; ++i) {
    bytes.push_back(static_cast<char>(value >> (8 * i)));
  }
}

void append_varint(std::string& bytes, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) {
    bytes.push_back(static_cast<char>(value | 0x80));
  }
  bytes.push_back(static_cast<char>(value));
}

/// A protocol buffer message, to which fields are appended.
class Message {
 public:
  Message& add_integer(int field, std::int64_t value) {
    append_tag(field, kVarint);
    append_varint(bytes_, static_cast<std::uint64_t>(value));
    return *this;
  }
  Message& add_double(int field, double value) {
    append_tag(field, kFixed64);
    append_little_endian(bytes_, std::bit_cast<std::uint64_t>(value));
    return *this;
  }
  Message& add_float(int field, float value) {
    append_tag(field, kFixed32);
    append_little_endian(bytes_, std::bit_cast<std::uint32_t>(value));
    return *this;
  }
  /// Appends a string or a nested message.
  Message& add(int field, std::string_view bytes) {
    append_tag(field, kLengthDelimited);
    append_varint(bytes_, bytes.size());
    bytes_ += bytes;
    return *this;
  }
  Message& add(int field, const Message& message) { return add(field, message.bytes_); }
  /// Appends a packed repeated double.
  Message& add(int field, const std::vector<double>& values) {
    std::string packed;
    for (const double value : values) {
      append_little_endian(packed, std::bit_cast<std::uint64_t>(value));
    }
    return add(field, packed);
  }

  [[nodiscard]] const std::string& bytes() const { return bytes_; }

 private:
  enum WireType : std::uint32_t { kVarint = 0, kFixed64 = 1, kLengthDelimited = 2, kFixed32 = 5 };

  void append_tag(int field, WireType type) { append_varint(bytes_, static_cast<std::uint64_t>(field) << 3 | type); }

  std::string bytes_;
};

// Field numbers of the .proto files.
namespace event {
constexpr int kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5, kSessionLog = 7;
}
namespace session_log {
constexpr int kStatus = 1, kStart = 1;  // of the enumeration SessionStatus
}
namespace summary {
constexpr int kValue = 1;
}
namespace value {
constexpr int kTag = 1, kSimpleValue = 2, kImage = 4, kHistogram = 5, kTensor = 8, kMetadata = 9;
}
namespace metadata {
constexpr int kPluginData = 1, kPluginName = 1, kContent = 2;  // the last two: of PluginData
}
namespace image {
constexpr int kHeight = 1, kWidth = 2, kColorspace = 3, kEncodedString = 4;
constexpr int kRgb = 3;  // of the values of colorspace
}  // namespace image
namespace histogram {
constexpr int kMin = 1, kMax = 2, kNum = 3, kSum = 4, kSumSquares = 5, kBucketLimit = 6, kBucket = 7;
}
namespace tensor {
constexpr int kDataType = 1, kShape = 2, kContent = 4, kStringValue = 8;
constexpr int kFloat = 1, kString = 7;    // DT_FLOAT and DT_STRING of DataType
constexpr int kDimension = 2, kSize = 1;  // of TensorShapeProto, and of its Dim
}  // namespace tensor

namespace hparams {
constexpr int kSessionStartInfo = 3, kHparams = 1;  // kHparams: of SessionStartInfo
constexpr int kKey = 1, kEntry = 2;                 // of an entry of that map
constexpr int kNumber = 2, kString = 3;             // of google.protobuf.Value
}  // namespace hparams

Message event_at(const Moment& moment) {
  return Message().add_double(event::kWallTime, moment.time).add_integer(event::kStep, moment.step);
}

std::string event_with(const Moment& moment, const Message& summary) {
  return event_at(moment).add(event::kSummary, summary).bytes();
}

Message value_of(std::string_view tag) { return Message().add(value::kTag, tag); }

Message encoded(const Histogram& of) {
  return Message()
      .add_double(histogram::kMin, of.min)
      .add_double(histogram::kMax, of.max)
      .add_double(histogram::kNum, of.count)
      .add_double(histogram::kSum, of.sum)
      .add_double(histogram::kSumSquares, of.sum_of_squares)
      .add(histogram::kBucketLimit, of.limits)
      .add(histogram::kBucket, of.counts);
}

/// Returns the number that is all of `text`.
std::optional<double> number_in(const std::string& text) {
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  const bool whole = !text.empty() && end == text.c_str() + text.size();
  return whole && std::isfinite(number) ? std::optional(number) : std::nullopt;
}

/// Masks a CRC like record_writer.h, because a CRC over bytes that contain CRCs would be weak.
std::uint32_t masked_crc(std::string_view bytes) {
  return std::rotr(storage::crc32c(std::as_bytes(std::span(bytes))), 15) + 0xa282ead8U;
}

}  // namespace

std::string encode_file_version(double time) {
  return Message().add_double(event::kWallTime, time).add(event::kFileVersion, "brain.Event:2").bytes();
}

std::string encode_session_start(const Moment& moment) {
  return event_at(moment)
      .add(event::kSessionLog, Message().add_integer(session_log::kStatus, session_log::kStart))
      .bytes();
}

std::string encode_scalars(const Moment& moment, const std::vector<Scalar>& scalars) {
  Message all;
  for (const Scalar& scalar : scalars) {
    all.add(summary::kValue, value_of(scalar.tag).add_float(value::kSimpleValue, static_cast<float>(scalar.value)));
  }
  return event_with(moment, all);
}

std::string encode_text(const Moment& moment, std::string_view tag, std::string_view markdown) {
  const Message shape = Message().add(tensor::kDimension, Message().add_integer(tensor::kSize, 1));
  const Message text = Message()
                           .add_integer(tensor::kDataType, tensor::kString)
                           .add(tensor::kShape, shape)
                           .add(tensor::kStringValue, markdown);
  const Message of_plugin = Message().add(metadata::kPluginData, Message().add(metadata::kPluginName, "text"));
  return event_with(
      moment, Message().add(summary::kValue, value_of(tag).add(value::kTensor, text).add(value::kMetadata, of_plugin)));
}

std::string encode_hyperparameters(const Moment& moment,
                                   const std::vector<std::pair<std::string, std::string>>& values) {
  Message all;
  for (const auto& [name, text] : values) {
    const std::optional<double> number = number_in(text);
    const Message entry =
        number ? Message().add_double(hparams::kNumber, *number) : Message().add(hparams::kString, text);
    all.add(hparams::kHparams, Message().add(hparams::kKey, name).add(hparams::kEntry, entry));
  }
  const Message content = Message().add(hparams::kSessionStartInfo, all);
  const Message zero =
      Message()  // a value is required, and not shown
          .add_integer(tensor::kDataType, tensor::kFloat)
          .add(tensor::kShape, Message().add(tensor::kDimension, Message().add_integer(tensor::kSize, 1)))
          .add(tensor::kContent, std::string(4, '\0'));
  const Message plugin = Message().add(metadata::kPluginName, "hparams").add(metadata::kContent, content);
  return event_with(
      moment, Message().add(summary::kValue, value_of("_hparams_/session_start_info")
                                                 .add(value::kTensor, zero)
                                                 .add(value::kMetadata, Message().add(metadata::kPluginData, plugin))));
}

std::string encode_image(const Moment& moment, std::string_view tag, int width, int height, std::string_view png) {
  const Message picture = Message()
                              .add_integer(image::kHeight, height)
                              .add_integer(image::kWidth, width)
                              .add_integer(image::kColorspace, image::kRgb)
                              .add(image::kEncodedString, png);
  return event_with(moment, Message().add(summary::kValue, value_of(tag).add(value::kImage, picture)));
}

std::string encode_histograms(const Moment& moment, const std::vector<std::pair<std::string, Histogram>>& histograms) {
  Message all;
  for (const auto& [tag, of] : histograms) {
    all.add(summary::kValue, value_of(tag).add(value::kHistogram, encoded(of)));
  }
  return event_with(moment, all);
}

std::string framed(std::string_view event) {
  std::string record;
  record.reserve(event.size() + 16);
  append_little_endian(record, std::uint64_t{event.size()});
  append_little_endian(record, masked_crc(record));
  record += event;
  append_little_endian(record, masked_crc(event));
  return record;
}

Result<std::string> encode_png(std::span<const std::uint8_t> rgb, int width, int height) {
  assert(rgb.size() == std::size_t{3} * static_cast<std::size_t>(width) * static_cast<std::size_t>(height));
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(width);
  image.height = static_cast<png_uint_32>(height);
  image.format = PNG_FORMAT_RGB;
  image.flags = PNG_IMAGE_FLAG_FAST;  // training waits for it
  std::string file(PNG_IMAGE_PNG_SIZE_MAX(image), '\0');
  png_alloc_size_t bytes = file.size();
  const int done = png_image_write_to_memory(&image, file.data(), &bytes, 0, rgb.data(), 0, nullptr);
  const std::string message = image.message;
  png_image_free(&image);
  if (done == 0) {
    return fail("--tensorboard", "", "libpng: " + message, "reporting this: it is a bug", ErrorKind::Internal);
  }
  file.resize(bytes);
  return file;
}

}  // namespace rollcall::metrics::tensorboard
