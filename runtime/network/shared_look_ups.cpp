#include "runtime/network/shared_look_ups.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "runtime/base/text.h"
#include "runtime/contract/hook_wire.h"

namespace rollcall::network {
namespace {

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

/// Parses "NAME\tERROR\tADDRESS ADDRESS", without a line feed.
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
  const bool is_printable = printable(name.name) == name.name && printable(name.error) == name.error;
  return is_printable && !name.name.empty() ? std::optional(std::move(name)) : std::nullopt;
}

}  // namespace

struct SharedLookUps::Page {
  std::atomic<std::uint32_t> spoken;  ///< 1: a task reports for the node; the plugin uses it too
  std::atomic<std::uint32_t> used;    ///< bytes of `text` in use
  std::array<char, hook::kSharedSize - 2 * sizeof(std::uint32_t)> text;

  /// Returns a copy, because other processes may write to the memory meanwhile.
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

/// Holds the lock of the memory's file, which the kernel releases when the process ends.
class Held {
 public:
  explicit Held(int memory) : memory_(memory) { set(F_WRLCK); }
  ~Held() { set(F_UNLCK); }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;

 private:
  void set(short type) const {
    struct flock lock {};
    lock.l_type = type;
    lock.l_whence = SEEK_SET;
    while (::fcntl(memory_, F_SETLKW, &lock) != 0 && errno == EINTR) {  // on other errors it continues without the lock
    }
  }

  int memory_;
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

std::optional<SharedLookUps> SharedLookUps::open(int memory) {
  static_assert(sizeof(Page) == hook::kSharedSize);
  void* const page = ::mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
  return page == MAP_FAILED ? std::nullopt : std::optional(SharedLookUps(memory, static_cast<Page*>(page)));
}

ResolvedName SharedLookUps::resolve(const std::string& name, const LookUp& look_up) {
  const Held held(memory_);
  for (ResolvedName& known : parse_look_ups(page_->read())) {
    if (known.name == name) {
      return std::move(known);
    }
  }
  ResolvedName found = look_up(name);
  page_->append(to_text({found}));
  return found;
}

bool SharedLookUps::claim_report() { return !(page_->spoken.exchange(1) != 0); }

}  // namespace rollcall::network
