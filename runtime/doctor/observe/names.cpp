#include "runtime/doctor/observe/names.h"

#include <netdb.h>
#include <sys/socket.h>

#include <array>
#include <memory>

namespace rollcall::doctor {

std::string reverse_name(const std::string& address) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST;
  addrinfo* list = nullptr;
  if (getaddrinfo(address.c_str(), nullptr, &hints, &list) != 0) {
    return "";
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owned(list, freeaddrinfo);
  std::array<char, NI_MAXHOST> name{};
  const int error = getnameinfo(list->ai_addr, list->ai_addrlen, name.data(), name.size(), nullptr, 0, NI_NAMEREQD);
  return error == 0 ? name.data() : "";
}

}  // namespace rollcall::doctor
