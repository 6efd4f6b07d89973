#include "trainer/data/image/jpeg_markers.h"

namespace rollcall::data {

std::optional<JpegMarker> JpegSegments::next_marker() {
  constexpr std::byte kPrefix{0xff};
  if (at_ >= file_.size() || file_[at_] != kPrefix) {
    return std::nullopt;
  }
  while (at_ < file_.size() && file_[at_] == kPrefix) {  // any number of them may stand before a marker
    ++at_;
  }
  if (at_ == file_.size()) {
    return std::nullopt;
  }
  return static_cast<JpegMarker>(file_[at_++]);
}

std::optional<JpegSegment> JpegSegments::next() {
  if (ended_) {
    return std::nullopt;
  }
  const std::optional<JpegMarker> marker = next_marker();
  ended_ = !marker || file_.size() - at_ < 2;
  if (ended_) {
    return std::nullopt;
  }
  const std::size_t length = uint16_at(file_, at_);  // its own two bytes count
  ended_ = length < 2 || length > file_.size() - at_;
  if (ended_) {
    return std::nullopt;
  }
  const JpegSegment segment{*marker, at_ + 2, file_.subspan(at_ + 2, length - 2)};
  at_ += length;
  ended_ = *marker == JpegMarker::StartOfScan;
  return segment;
}

}  // namespace rollcall::data
