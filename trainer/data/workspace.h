#pragma once

#include <chrono>
#include <cstdint>

#include "trainer/data/augment/scratch.h"
#include "trainer/data/image/decode.h"
#include "trainer/data/source.h"

namespace rollcall::data {

/// Where the time of reading samples went, summed up.
struct StageTimes {
  std::chrono::nanoseconds fetch{};    ///< bytes from the file or the page cache
  std::chrono::nanoseconds decode{};   ///< the wanted pixels of the picture
  std::chrono::nanoseconds augment{};  ///< resize, flip, colour, normalisation
  std::int64_t samples = 0;

  StageTimes& operator+=(const StageTimes& other) {
    fetch += other.fetch;
    decode += other.decode;
    augment += other.augment;
    samples += other.samples;
    return *this;
  }
};

/// What a thread needs to read samples, kept from one to the next so that a steady state allocates nothing.
struct Workspace {
  explicit Workspace(const DecodeOptions& options = {}) : decoder(options) {}

  FetchBuffer buffer;
  ImageDecoder decoder;
  AugmentScratch scratch;
  StageTimes times;
};

}  // namespace rollcall::data
