#include "trainer/storage/hdf5_headers.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <limits>

namespace rollcall::storage {
namespace {

static_assert(std::endian::native == std::endian::little, "HDF5's numbers are little-endian");

constexpr std::uint64_t kUndefined = std::numeric_limits<std::uint64_t>::max();  // the undefined address
constexpr std::uint64_t kChecksumBytes = 4;
constexpr std::uint64_t kSignatureBytes = 4;  // "OHDR", "OCHK"
constexpr std::uint64_t kMostHeaderBytes = std::uint64_t{1} << 20U;

// The types of messages.
constexpr std::uint8_t kDataspace = 0x01;
constexpr std::uint8_t kDatatype = 0x03;
constexpr std::uint8_t kLink = 0x06;
constexpr std::uint8_t kExternalFiles = 0x07;
constexpr std::uint8_t kLayout = 0x08;
constexpr std::uint8_t kAttribute = 0x0c;
constexpr std::uint8_t kContinuation = 0x10;

/// Reads bytes and numbers from the front. Beyond the end it returns nothing, and ok() is false from then on.
class Cursor {
 public:
  explicit Cursor(std::span<const std::byte> bytes) : rest_(bytes) {}

  std::span<const std::byte> take(std::uint64_t count) {
    ok_ = ok_ && count <= rest_.size();
    const auto taken = rest_.first(ok_ ? count : 0);
    rest_ = rest_.subspan(taken.size());
    return taken;
  }
  std::uint64_t number(std::uint64_t bytes) {
    std::uint64_t value = 0;
    std::ranges::copy(take(bytes), std::as_writable_bytes(std::span(&value, 1)).begin());
    return value;
  }
  std::string_view text(std::uint64_t bytes) {
    const auto taken = take(bytes);
    return {reinterpret_cast<const char*>(taken.data()), taken.size()};
  }
  [[nodiscard]] std::size_t left() const { return rest_.size(); }
  [[nodiscard]] bool ok() const { return ok_; }

 private:
  std::span<const std::byte> rest_;
  bool ok_ = true;
};

/// Returns nothing if the file ends before.
std::optional<std::vector<std::byte>> bytes_at(const File& file, std::uint64_t at, std::uint64_t count) {
  std::vector<std::byte> bytes(count);
  const bool whole = at <= std::numeric_limits<std::int64_t>::max() - count && file.read_at(bytes, at) == count;
  return whole ? std::optional(std::move(bytes)) : std::nullopt;
}

/// Returns whether the checksum at the end of `bytes` is right.
bool is_sound(std::span<const std::byte> bytes) {
  return bytes.size() >= kChecksumBytes && hdf5_checksum(bytes.first(bytes.size() - kChecksumBytes)) ==
                                               Cursor(bytes.last(kChecksumBytes)).number(kChecksumBytes);
}

Hdf5Type type_in(std::span<const std::byte> message) {
  constexpr std::uint64_t kNumberClass = 0;
  constexpr std::uint64_t kTextClass = 3;
  constexpr std::uint64_t kBigEndian = 1;
  constexpr std::uint64_t kIsSigned = 8;
  Cursor cursor(message);
  const std::uint64_t type_class = cursor.number(1) & 0x0fU;  // the other bits are the message's version
  const std::uint64_t bits = cursor.number(3);
  Hdf5Type type{.kind = Hdf5Type::Kind::Other, .bytes = cursor.number(4)};
  if (type_class == kTextClass && cursor.ok() && type.bytes > 0) {
    type.kind = Hdf5Type::Kind::Text;
  } else if (type_class == kNumberClass && (bits & kBigEndian) == 0) {
    const std::uint64_t first_bit = cursor.number(2);
    const std::uint64_t bit_count = cursor.number(2);
    if (cursor.ok() && first_bit == 0 && bit_count == 8 * type.bytes && bit_count > 0) {
      type.kind = (bits & kIsSigned) != 0 ? Hdf5Type::Kind::Signed : Hdf5Type::Kind::Unsigned;
    }
  }
  return type;
}

struct Space {
  std::uint64_t dimensions = 0;
  std::uint64_t elements = 1;
};

/// Returns nothing if there is more than one dimension.
std::optional<Space> space_in(std::span<const std::byte> message) {
  constexpr std::uint64_t kVersion = 2;
  constexpr std::uint64_t kNothing = 2;  // a space without elements; scalar is 0, simple is 1
  Cursor cursor(message);
  const bool known = cursor.number(1) == kVersion;
  Space space{.dimensions = cursor.number(1), .elements = 1};
  (void)cursor.number(1);  // whether maximum dimensions follow
  const std::uint64_t kind = cursor.number(1);
  if (space.dimensions == 1) {
    space.elements = cursor.number(8);
  }
  const bool sound = known && kind < kNothing && space.dimensions == kind && cursor.ok();
  return sound ? std::optional(space) : std::nullopt;
}

/// Returns the address of a hard link; nothing if the link has another kind or name.
std::optional<std::uint64_t> target_of(std::span<const std::byte> message, std::string_view name) {
  Cursor cursor(message);
  const std::uint64_t version = cursor.number(1);
  const std::uint64_t flags = cursor.number(1);
  const std::uint64_t kind = (flags & 0x08U) != 0 ? cursor.number(1) : 0;
  (void)cursor.take((flags & 0x04U) != 0 ? 8 : 0);  // creation order
  (void)cursor.take((flags & 0x10U) != 0 ? 1 : 0);  // the name's character set
  const bool named = cursor.text(cursor.number(std::uint64_t{1} << (flags & 0x03U))) == name;
  const std::uint64_t address = cursor.number(8);
  return version == 1 && kind == 0 && named && cursor.ok() ? std::optional(address) : std::nullopt;
}

Error unreadable(std::string reason, ErrorKind kind = ErrorKind::BadData) {
  return fail("", "", std::move(reason), "", kind);
}

}  // namespace

std::uint32_t hdf5_checksum(std::span<const std::byte> bytes) {
  using std::rotl;
  constexpr std::size_t kBlock = 12;
  std::uint32_t a = 0xdeadbeefU + static_cast<std::uint32_t>(bytes.size());
  std::uint32_t b = a;
  std::uint32_t c = a;
  const auto add = [&](std::span<const std::byte> block) {
    Cursor cursor(block);
    a += static_cast<std::uint32_t>(cursor.number(4));
    b += static_cast<std::uint32_t>(cursor.number(4));
    c += static_cast<std::uint32_t>(cursor.number(4));
  };
  for (; bytes.size() > kBlock; bytes = bytes.subspan(kBlock)) {
    add(bytes.first(kBlock));
    a = (a - c) ^ rotl(c, 4), c += b;
    b = (b - a) ^ rotl(a, 6), a += c;
    c = (c - b) ^ rotl(b, 8), b += a;
    a = (a - c) ^ rotl(c, 16), c += b;
    b = (b - a) ^ rotl(a, 19), a += c;
    c = (c - b) ^ rotl(b, 4), b += a;
  }
  if (!bytes.empty()) {
    std::array<std::byte, kBlock> last{};
    std::ranges::copy(bytes, last.begin());
    add(last);
    c = (c ^ b) - rotl(b, 14);
    a = (a ^ c) - rotl(c, 11);
    b = (b ^ a) - rotl(a, 25);
    c = (c ^ b) - rotl(b, 16);
    a = (a ^ c) - rotl(c, 4);
    b = (b ^ a) - rotl(a, 14);
    c = (c ^ b) - rotl(b, 24);
  }
  return c;
}

struct Hdf5Header::Attribute {
  Hdf5Type type;
  std::uint64_t elements = 0;
  std::span<const std::byte> value;
};

Result<Hdf5Header> Hdf5Header::read_root(const File& file, std::uint64_t file_bytes) {
  constexpr std::string_view kSignature = "\x89HDF\r\n\x1a\n";
  constexpr std::uint64_t kVersion = 2;
  constexpr std::uint64_t kSizes = 0x0808;  // addresses and lengths have eight bytes
  std::array<std::byte, 48> superblock{};
  const auto count = file.read_at(superblock, 0);
  if (!count) {
    return unreadable(errno_text(errno));
  }
  Cursor cursor(std::span<const std::byte>(superblock).first(*count));
  if (cursor.text(kSignature.size()) != kSignature) {
    return unreadable("it has no HDF5 signature", ErrorKind::NoInput);
  }
  if (const std::uint64_t version = cursor.number(1); version != kVersion) {
    return unreadable(fmt::format("its superblock has version {}, not {}", version, kVersion), ErrorKind::Mismatch);
  }
  const std::uint64_t sizes = cursor.number(2);
  (void)cursor.number(1);  // flags, which readers ignore
  const std::uint64_t base = cursor.number(8);
  (void)cursor.number(8);  // address of the extension
  const std::uint64_t end = cursor.number(8);
  const std::uint64_t root = cursor.number(8);
  if (*count < superblock.size() || !is_sound(superblock) || sizes != kSizes || base != 0) {
    return unreadable("its superblock is invalid");
  }
  if (end > file_bytes) {
    return unreadable(fmt::format("it has {} bytes, but was written with {}", file_bytes, end));
  }
  auto header = at(file, root);
  return header ? Result<Hdf5Header>(*std::move(header)) : unreadable("the header of its root group is invalid");
}

std::optional<Hdf5Header> Hdf5Header::at(const File& file, std::uint64_t address) {
  constexpr std::uint64_t kVersion = 2;
  constexpr std::uint64_t kLongestPrefix = 34;
  std::array<std::byte, kLongestPrefix> prefix{};
  const auto count = address < kUndefined / 2 ? file.read_at(prefix, address) : std::nullopt;
  Cursor cursor(std::span<const std::byte>(prefix).first(count.value_or(0)));
  const bool begins = cursor.text(kSignatureBytes) == "OHDR" && cursor.number(1) == kVersion;
  const std::uint64_t flags = cursor.number(1);
  const bool ordered = (flags & 0x04U) != 0;
  (void)cursor.take((flags & 0x20U) != 0 ? 16 : 0);  // times
  (void)cursor.take((flags & 0x10U) != 0 ? 4 : 0);   // limits of attribute storage
  const std::uint64_t message_bytes = cursor.number(std::uint64_t{1} << (flags & 0x03U));
  const std::uint64_t begin = count.value_or(0) - cursor.left();
  if (!begins || !cursor.ok() || message_bytes > kMostHeaderBytes) {
    return std::nullopt;
  }
  const auto chunk = bytes_at(file, address, begin + message_bytes + kChecksumBytes);
  Hdf5Header header;
  const bool sound = chunk && is_sound(*chunk) &&
                     header.take_messages(std::span(*chunk).subspan(begin, message_bytes), ordered) &&
                     header.take_continuations(file, chunk->size(), ordered);
  return sound ? std::optional(std::move(header)) : std::nullopt;
}

/// Reads the messages that did not fit into the first chunk, of `total` bytes. They may point to further chunks,
/// possibly in a cycle.
bool Hdf5Header::take_continuations(const File& file, std::uint64_t total, bool ordered) {
  std::size_t next = 0;
  while (next < messages_.size()) {  // the vector grows in the loop
    const Message& message = messages_[next++];
    if (message.type != kContinuation) {
      continue;
    }
    Cursor place(message.body);
    const std::uint64_t address = place.number(8);
    const std::uint64_t length = place.number(8);
    total += std::min(length, kMostHeaderBytes);
    if (!place.ok() || length < kSignatureBytes + kChecksumBytes || total > kMostHeaderBytes) {
      return false;
    }
    const auto chunk = bytes_at(file, address, length);
    if (!chunk || !is_sound(*chunk) || Cursor(*chunk).text(kSignatureBytes) != "OCHK" ||
        !take_messages(std::span(*chunk).first(length - kChecksumBytes).subspan(kSignatureBytes), ordered)) {
      return false;
    }
  }
  return true;
}

/// Reads messages. A rest that is smaller than a message's header is a gap at the end.
bool Hdf5Header::take_messages(std::span<const std::byte> bytes, bool ordered) {
  constexpr std::uint64_t kShared = 0x02;  // the message is stored elsewhere, which is not supported
  const std::size_t head = ordered ? 6 : 4;
  Cursor cursor(bytes);
  while (cursor.left() >= head) {
    Message message{.type = static_cast<std::uint8_t>(cursor.number(1)), .body = {}};
    const std::uint64_t length = cursor.number(2);
    const bool shared = (cursor.number(1) & kShared) != 0;
    (void)cursor.take(ordered ? 2 : 0);
    const auto body = cursor.take(length);
    if (!cursor.ok()) {
      return false;
    }
    message.body.assign(body.begin(), shared ? body.begin() : body.end());
    messages_.push_back(std::move(message));
  }
  return true;
}

std::optional<std::span<const std::byte>> Hdf5Header::body_of(std::uint8_t type) const {
  const auto found = std::ranges::find(messages_, type, &Message::type);
  return found == messages_.end() ? std::nullopt : std::optional<std::span<const std::byte>>(found->body);
}

std::optional<Hdf5Header> Hdf5Header::child(const File& file, std::string_view name) const {
  for (const Message& message : messages_) {
    if (const auto target = message.type == kLink ? target_of(message.body, name) : std::nullopt) {
      return at(file, *target);
    }
  }
  return std::nullopt;
}

std::optional<Hdf5Header::Attribute> Hdf5Header::attribute(std::string_view name) const {
  constexpr std::uint64_t kVersion = 3;
  for (const Message& message : messages_) {
    Cursor cursor(message.body);
    if (message.type != kAttribute || cursor.number(1) != kVersion || cursor.number(1) != 0) {
      continue;
    }
    const std::uint64_t name_bytes = cursor.number(2);
    const std::uint64_t type_bytes = cursor.number(2);
    const std::uint64_t space_bytes = cursor.number(2);
    (void)cursor.number(1);  // the name's character set
    const std::string_view padded = cursor.text(name_bytes);
    const Hdf5Type type = type_in(cursor.take(type_bytes));
    const auto space = space_in(cursor.take(space_bytes));
    if (padded.substr(0, padded.find('\0')) == name) {
      const bool whole = space && type.bytes > 0 && space->elements <= cursor.left() / type.bytes;
      const auto value = cursor.take(whole ? space->elements * type.bytes : 0);
      return whole && cursor.ok() ? std::optional(Attribute{type, space->elements, value}) : std::nullopt;
    }
  }
  return std::nullopt;
}

std::optional<std::string> Hdf5Header::text(std::string_view name) const {
  const auto found = attribute(name);
  if (!found || found->type.kind != Hdf5Type::Kind::Text || found->elements != 1) {
    return std::nullopt;
  }
  const std::string_view padded = Cursor(found->value).text(found->value.size());
  return std::string(padded.substr(0, padded.find('\0')));
}

std::optional<std::uint32_t> Hdf5Header::number(std::string_view name) const {
  const auto found = attribute(name);
  const bool fits = found && found->type.kind == Hdf5Type::Kind::Unsigned && found->elements == 1 &&
                    found->type.bytes <= sizeof(std::uint32_t);
  return fits ? std::optional(static_cast<std::uint32_t>(Cursor(found->value).number(found->type.bytes)))
              : std::nullopt;
}

std::optional<Hdf5Array> Hdf5Header::array() const {
  constexpr std::uint64_t kVersion = 3;
  constexpr std::uint64_t kContiguous = 1;
  const auto type = body_of(kDatatype);
  const auto space = space_in(body_of(kDataspace).value_or(std::span<const std::byte>()));
  const auto layout = body_of(kLayout);
  if (!type || !space || space->dimensions != 1 || !layout || body_of(kExternalFiles)) {
    return std::nullopt;
  }
  Cursor cursor(*layout);
  const bool contiguous = cursor.number(1) == kVersion && cursor.number(1) == kContiguous;
  const std::uint64_t start = cursor.number(8);
  const bool placed = contiguous && cursor.ok() && (start != kUndefined || space->elements == 0);
  return placed ? std::optional(Hdf5Array{type_in(*type), space->elements > 0 ? start : 0, space->elements})
                : std::nullopt;
}

}  // namespace rollcall::storage
