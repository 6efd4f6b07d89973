#include "trainer/data/image/coded_window.h"

#include <algorithm>
#include <cstring>

#include "trainer/data/image/jpeg_markers.h"

namespace rollcall::data {
namespace {

constexpr std::uint8_t kPrefix = 0xff;

/// Behind the prefixes at `byte`: any number of them counts as one.
const std::uint8_t* behind_prefixes(const std::uint8_t* byte, const std::uint8_t* end) {
  return std::find_if(byte, end, [](std::uint8_t value) { return value != kPrefix; });
}

}  // namespace

void CodedWindow::start(const std::uint8_t* file, const std::uint8_t* file_end) {
  file_ = file;
  file_end_ = file_end;
  end_ = bytes_.data();
  is_complete_ = false;
}

void CodedWindow::take_prefix() {
  const std::uint8_t* const next = behind_prefixes(file_, file_end_);
  is_complete_ = next == file_end_ || *next != 0;
  if (!is_complete_) {
    *end_++ = kPrefix;
    file_ = next + 1;
  }
}

const std::uint8_t* CodedWindow::refill(const std::uint8_t* next) {
  const std::ptrdiff_t kept = end_ - next;
  std::memmove(bytes_.data(), next, static_cast<std::size_t>(kept));
  end_ = bytes_.data() + kept;
  const std::uint8_t* const limit = bytes_.data() + kPiece;
  while (!is_complete_ && end_ < limit) {
    const auto most = static_cast<std::size_t>(std::min(limit - end_, file_end_ - file_));
    const auto* prefix = static_cast<const std::uint8_t*>(std::memchr(file_, kPrefix, most));
    const std::size_t copied = prefix != nullptr ? static_cast<std::size_t>(prefix - file_) : most;
    std::memcpy(end_, file_, copied);
    end_ += copied;
    file_ += copied;
    if (prefix != nullptr) {
      take_prefix();
    } else {
      is_complete_ = file_ == file_end_;
    }
  }
  if (is_complete_) {
    std::memset(end_, 0, kCodedSlack);
  }
  return bytes_.data();
}

bool CodedWindow::pass_restart(unsigned number) {
  const std::uint8_t* const code = behind_prefixes(file_, file_end_);
  if (!is_complete_ || code == file_end_ || *code != static_cast<unsigned>(JpegMarker::Restart0) + number) {
    return false;
  }
  file_ = code + 1;
  end_ = bytes_.data();
  is_complete_ = false;
  return true;
}

}  // namespace rollcall::data
