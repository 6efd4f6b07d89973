// Any bytes as a picture: an Error or pixels, never a crash.
#include <cstddef>
#include <cstdint>
#include <span>

#include "trainer/data/image/decode.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static rollcall::data::ImageDecoder decoder;
  const auto opened = decoder.open({.bytes = std::as_bytes(std::span(data, size))});
  if (opened && static_cast<long long>(opened->width) * opened->height < 1 << 20) {
    (void)decoder.decode({opened->width / 3, opened->height / 3, opened->width - opened->width / 3,
                          opened->height - opened->height / 3});
  }
  return 0;
}
