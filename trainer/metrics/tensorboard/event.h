#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/base/result.h"

namespace rollcall::metrics::tensorboard {

// Encoders for TensorBoard's event files, which need neither TensorFlow nor protobuf. Each encode_ function returns one
// protocol buffer message Event. All are pure.
//
// Messages: tensorflow/core/util/event.proto (Event, SessionLog), tensorflow/core/framework/summary.proto (Summary,
// SummaryMetadata, HistogramProto), tensor.proto, tensor_shape.proto and types.proto beside it. Wire format:
// https://protobuf.dev/programming-guides/encoding

/// The position of an event in a curve.
struct Moment {
  double time = 0;        ///< seconds since the epoch
  std::int64_t step = 0;  ///< steps done
};

/// A point of a curve, which is stored as float32. The text before the first '/' of the tag is its group on the page.
struct Scalar {
  std::string tag;
  double value = 0;
};

/// A histogram: counts[i] numbers are between limits[i - 1] and limits[i], and the first ones between `min` and
/// limits[0]. An empty bucket exists only where it is needed as the lower limit of the next one.
struct Histogram {
  double min = 0;
  double max = 0;
  double count = 0;
  double sum = 0;
  double sum_of_squares = 0;
  std::vector<double> limits{};  ///< ascending, finite
  std::vector<double> counts{};
};

/// Computes the histogram of the finite `values`. There are four buckets per power of two, whose widths are 1/8 to 1/4
/// of their numbers, so that gradients around 1e-8 and weights around 1 are both resolved. Reads each number once.
/// Pure.
[[nodiscard]] Histogram histogram_of(std::span<const float> values);

/// Encodes the first event of a file.
[[nodiscard]] std::string encode_file_version(double time);

/// Encodes an event that makes readers drop this step and later ones of earlier files in the folder.
[[nodiscard]] std::string encode_session_start(const Moment& moment);

[[nodiscard]] std::string encode_scalars(const Moment& moment, const std::vector<Scalar>& scalars);

/// `markdown` in UTF-8.
[[nodiscard]] std::string encode_text(const Moment& moment, std::string_view tag, std::string_view markdown);

/// Encodes the settings of a run for the page HParams, which compares runs: names and values, of which numbers are told
/// from text (tensorboard/plugins/hparams/plugin_data.proto).
[[nodiscard]] std::string encode_hyperparameters(const Moment& moment,
                                                 const std::vector<std::pair<std::string, std::string>>& values);

/// Encodes an image. `png` is a PNG file of width x height pixels in RGB.
[[nodiscard]] std::string encode_image(const Moment& moment, std::string_view tag, int width, int height,
                                       std::string_view png);

/// Encodes histograms with their tags. None of them may be empty.
[[nodiscard]] std::string encode_histograms(const Moment& moment,
                                            const std::vector<std::pair<std::string, Histogram>>& histograms);

/// Returns a record of an event file (tensorflow/core/lib/io/record_writer.h): the length in 8 bytes, its masked
/// CRC-32C, the event, its masked CRC-32C; little-endian.
[[nodiscard]] std::string framed(std::string_view event);

/// Encodes a PNG file. `rgb` has 8 bits per channel, [height][width][3], without padding. Errors (Internal): libpng
/// refuses, for example an image without pixels or with too long lines.
[[nodiscard]] Result<std::string> encode_png(std::span<const std::uint8_t> rgb, int width, int height);

}  // namespace rollcall::metrics::tensorboard
