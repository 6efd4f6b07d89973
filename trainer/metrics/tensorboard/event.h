#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/base/result.h"

namespace rollcall::metrics::tensorboard {

// What TensorBoard reads: the few messages of protocol buffers that an event file consists of, encoded here, so that
// neither TensorFlow nor protobuf is needed. Each encode_ function returns one message Event. All are pure.
//
// Messages: tensorflow/core/util/event.proto (Event, SessionLog), tensorflow/core/framework/summary.proto (Summary,
// SummaryMetadata, HistogramProto), tensor.proto, tensor_shape.proto and types.proto beside it. Wire format:
// https://protobuf.dev/programming-guides/encoding

/// Where an event is in a curve.
struct Moment {
  double time = 0;        ///< seconds since the epoch
  std::int64_t step = 0;  ///< steps done
};

/// A point of a curve; it travels as float32. What stands before the first '/' of a tag is its group on the page.
struct Scalar {
  std::string tag;
  double value = 0;
};

/// How numbers are distributed: counts[i] of them are between limits[i - 1] and limits[i], the first ones between `min`
/// and limits[0]. Empty buckets are there only where the next one has to begin somewhere.
struct Histogram {
  double min = 0;
  double max = 0;
  double count = 0;
  double sum = 0;
  double sum_of_squares = 0;
  std::vector<double> limits{};  ///< ascending, finite
  std::vector<double> counts{};
};

/// Of the finite ones of `values`. Buckets have a width of an eighth to a quarter of their numbers' size, four to a
/// power of two, so that gradients around 1e-8 and weights around 1 are both seen well. Reads each number once. Pure.
[[nodiscard]] Histogram histogram_of(std::span<const float> values);

/// What every file begins with.
[[nodiscard]] std::string encode_file_version(double time);

/// Makes a reader drop what earlier files of the folder hold of this step and later ones.
[[nodiscard]] std::string encode_session_start(const Moment& moment);

[[nodiscard]] std::string encode_scalars(const Moment& moment, const std::vector<Scalar>& scalars);

/// `markdown` in UTF-8.
[[nodiscard]] std::string encode_text(const Moment& moment, std::string_view tag, std::string_view markdown);

/// `png`: a PNG file of width x height pixels in RGB.
[[nodiscard]] std::string encode_image(const Moment& moment, std::string_view tag, int width, int height,
                                       std::string_view png);

/// Tags and histograms, none of them of no numbers.
[[nodiscard]] std::string encode_histograms(const Moment& moment,
                                            const std::vector<std::pair<std::string, Histogram>>& histograms);

/// A record of an event file, as tensorflow/core/lib/io/record_writer.h says: the length in 8 bytes, the masked
/// CRC-32C of these, the event, its masked CRC-32C; little-endian.
[[nodiscard]] std::string framed(std::string_view event);

/// A PNG file. `rgb`: 8 bits a channel, [height][width][3], without gaps. Errors (Internal): libpng refuses, as for a
/// picture without pixels or one whose lines are too long.
[[nodiscard]] Result<std::string> encode_png(std::span<const std::uint8_t> rgb, int width, int height);

}  // namespace rollcall::metrics::tensorboard
