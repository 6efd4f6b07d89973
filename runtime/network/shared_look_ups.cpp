#include "runtime/network/shared_look_ups.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <new>

#include "runtime/base/text.h"

namespace rollcall::network {
namespace {

constexpr std::size_t kRoom = std::size_t{60} << 10;
constexpr char kFieldEnd = '\t';
constexpr char kAddressEnd = ' ';

std::optional<Address> parse_address(const std::string& text) {
  sockaddr_in ipv4{};
  if (inet_pton(AF_INET, text.c_str(), &ipv4.sin_addr) == 1) {
    ipv4.sin_family = AF_INET;
    return from_sockaddr(reinterpret_cast<const sockaddr*>(&ipv4));
  }
  sockaddr_in6 ipv6{};
  if (inet_pton(AF_INET6, text.c_str(), &ipv6.sin6_addr) == 1) {
    ipv6.sin6_family = AF_INET6;
    return from_sockaddr(reinterpret_cast<const sockaddr*>(&ipv6));
  }
  return std::nullopt;
}

/// "NAME\tERROR\tADDRESS ADDRESS", without a line feed.
std::optional<ResolvedName> parse_line(const std::string& line) {
  const std::size_t first = line.find(kFieldEnd);
  const std::size_t second = first == line.npos ? line.npos : line.find(kFieldEnd, first + 1);
  if (second == line.npos) {
    return std::nullopt;
  }
  ResolvedName name{line.substr(0, first), {}, line.substr(first + 1, second - first - 1)};
  for (const std::string& text : split(std::string_view(line).substr(second + 1), kAddressEnd)) {
    const std::optional<Address> address = parse_address(text);
    if (!address) {
      return std::nullopt;
    }
    name.addresses.push_back(*address);
  }
  const bool sayable = printable(name.name) == name.name && printable(name.error) == name.error;
  return sayable && !name.name.empty() ? std::optional(std::move(name)) : std::nullopt;
}

}  // namespace

struct SharedLookUps::Page {
  pthread_mutex_t mutex;
  std::atomic<bool> spoken;
  std::atomic<std::uint32_t> used;  ///< bytes of `text` that count
  std::array<char, kRoom> text;

  /// A copy, since whoever else may write there may do so while it is read.
  [[nodiscard]] std::string read() const { return {text.data(), std::min<std::size_t>(used.load(), text.size())}; }

  void append(const std::string& line) {
    const std::size_t end = used.load();
    if (end <= text.size() && line.size() <= text.size() - end) {
      std::memcpy(text.data() + end, line.data(), line.size());
      used.store(static_cast<std::uint32_t>(end + line.size()));
    }
  }
};

namespace {

/// Holds the mutex, also after a process that ended while it had it.
class Held {
 public:
  explicit Held(pthread_mutex_t& mutex) : mutex_(mutex) {
    const int status = ::pthread_mutex_lock(&mutex);
    locked_ = status == 0 || (status == EOWNERDEAD && ::pthread_mutex_consistent(&mutex) == 0);
  }
  ~Held() {
    if (locked_) {
      ::pthread_mutex_unlock(&mutex_);
    }
  }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;

 private:
  pthread_mutex_t& mutex_;
  bool locked_ = false;  ///< not: somebody spoilt the memory, and each looks up for itself
};

}  // namespace

std::string to_text(const std::vector<ResolvedName>& names) {
  std::string text;
  for (const ResolvedName& name : names) {
    std::string line = name.name + kFieldEnd + name.error + kFieldEnd;
    for (const Address& address : name.addresses) {
      line += (line.back() == kFieldEnd ? "" : std::string(1, kAddressEnd)) + address.text;
    }
    text += parse_line(line) ? line + '\n' : "";
  }
  return text;
}

std::vector<ResolvedName> parse_look_ups(std::string_view text) {
  std::vector<ResolvedName> names;
  for (const std::string& line : split(text, '\n')) {
    if (std::optional<ResolvedName> name = parse_line(line)) {
      names.push_back(*std::move(name));
    }
  }
  return names;
}

std::optional<SharedLookUps> SharedLookUps::make() {
  void* const memory = ::mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    return std::nullopt;
  }
  Page* const page = new (memory) Page;  // the kernel filled it with zeros
  pthread_mutexattr_t attributes;
  ::pthread_mutexattr_init(&attributes);
  ::pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  ::pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  ::pthread_mutex_init(&page->mutex, &attributes);
  ::pthread_mutexattr_destroy(&attributes);
  return SharedLookUps(page);
}

ResolvedName SharedLookUps::resolve(const std::string& name, const LookUp& look_up) {
  const Held held(page_->mutex);
  for (ResolvedName& known : parse_look_ups(page_->read())) {
    if (known.name == name) {
      return std::move(known);
    }
  }
  ResolvedName found = look_up(name);
  page_->append(to_text({found}));
  return found;
}

bool SharedLookUps::claim_to_speak() { return !page_->spoken.exchange(true); }

}  // namespace rollcall::network
