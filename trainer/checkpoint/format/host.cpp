#include "trainer/checkpoint/format/host.h"

#include <unistd.h>

#include <array>

namespace rollcall::checkpoint::format {

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? std::string(name.data()) : std::string("unknown");
}

}  // namespace rollcall::checkpoint::format
