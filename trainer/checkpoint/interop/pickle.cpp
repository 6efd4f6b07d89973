#include "trainer/checkpoint/interop/pickle.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "trainer/checkpoint/interop/files.h"
#include "trainer/checkpoint/interop/pickle_machine.h"

namespace rollcall::checkpoint::interop {
namespace {

constexpr std::size_t kMostBytes = std::size_t{32} << 20;

/// Decodes and executes the instructions of Python's Lib/pickletools.py.
class Reader : public PickleMachine {
 public:
  explicit Reader(std::span<const std::byte> bytes) : PickleMachine(bytes.size()), bytes_(bytes) {}

  /// Returns the tree; nothing on failure(). Call it once.
  std::optional<PickleTree> run() {
    while (at_ < bytes_.size()) {
      const auto code = std::to_integer<unsigned char>(bytes_[at_++]);
      if (code == '.') {
        return finish();
      }
      if (!execute(code)) {
        return std::nullopt;
      }
    }
    take(1);  // sets the failure
    return std::nullopt;
  }

 private:
  bool execute(unsigned char code) {
    switch (code) {
      case 'N':
        return push(std::monostate());
      case 0x88:
      case 0x89:
        return push(code == 0x88);
      case '}':
        return push(PickleDict());
      case ']':
        return push(PickleSequence{false, {}});
      case ')':
        return push(PickleSequence{true, {}});
      case 0x85:
      case 0x86:
      case 0x87:
        return tuple(code - 0x84U);
      case 't':
        return with_items([this](Items items) { return push(PickleSequence{true, std::move(items)}); });
      case '(':
        marks_.push_back(stack_.size());
        return true;
      case 'a':
        return with_top([this](PickleIndex item) { return append({item}); });
      case 'e':
        return with_items([this](const Items& items) { return append(items); });
      case 's':
        return with_two([this](PickleIndex key, PickleIndex value) { return set_items({key, value}); });
      case 'u':
        return with_items([this](const Items& items) { return set_items(items); });
      case 'R':
      case 0x81:
        return with_two([this](PickleIndex callable, PickleIndex arguments) { return reduce(callable, arguments); });
      case 'Q':
        return with_top([this](PickleIndex id) { return persistent_id(id); });
      case 'b':
        return with_top([this](PickleIndex state) { return build(state); });
      case '0':
        return with_top([](PickleIndex) { return true; });
      case '1':
        return with_items([](const Items&) { return true; });
      case '2':
        return with_top([this](PickleIndex top) { return push_again(top) && push_again(top); });
      case 'o':
        return with_items([this](const Items& items) {
          return !items.empty() ? make(items.front(), {items.begin() + 1, items.end()}) : damaged();
        });
      default:
        return execute_of_later_protocol(code);
    }
  }

  /// Executes instructions of protocols 3 to 5: bytes, sets, names from texts, a memo with implicit numbers.
  bool execute_of_later_protocol(unsigned char code) {
    switch (code) {
      case 0x8f:
        return unknown("builtins.set");
      case 0x90:  // items of a set
        return with_items([this](const Items&) { return top_is_unknown() || damaged(); });
      case 0x91:
        return with_items([this](const Items&) { return unknown("builtins.frozenset"); });
      case 0x92:  // a dict of named arguments is above the tuple
        return with_top([this](PickleIndex) { return execute('R'); });
      case 0x93:
        return with_two([this](PickleIndex module, PickleIndex name) { return global_of_texts(module, name); });
      case 0x94:
        return put(static_cast<std::uint32_t>(memo_.size()));
      case 0x95:
        return take(sizeof(std::uint64_t)) != nullptr;  // a frame's length, which only streams need
      case 'C':
        return skip_bytes<std::uint8_t>();
      case 'B':
        return skip_bytes<std::uint32_t>();
      case 0x8e:
      case 0x96:
        return skip_bytes<std::uint64_t>();
      case 0x8c:
        return text<std::uint8_t>();
      case 0x8d:
        return text<std::uint64_t>();
      default:
        return execute_with_operand(code);
    }
  }

  bool execute_with_operand(unsigned char code) {
    switch (code) {
      case 0x80:
        return with_number<std::uint8_t>([this](auto version) {
          return (version >= 2 && version <= 5) ||
                 refuse(fmt::format("uses pickle protocol {}, but torch.save writes protocols 2 to 5", version));
        });
      case 'K':
        return push_integer<std::uint8_t>();
      case 'M':
        return push_integer<std::uint16_t>();
      case 'J':
        return push_integer<std::int32_t>();
      case 0x8a:
        return long_integer<std::uint8_t>();
      case 0x8b:
        return long_integer<std::uint32_t>();
      case 'G':  // the only big-endian operand
        return with_number<std::uint64_t>(
            [this](auto bits) { return push(std::bit_cast<double>(__builtin_bswap64(bits))); });
      case 'X':
        return text<std::uint32_t>();
      case 'c':
        return with_name([this](const std::string& module, const std::string& name) { return global(module, name); });
      case 'i':
        return with_name([this](const std::string& module, const std::string& name) {
          return with_items([&](Items items) { return global(module, name) && make(pop().value(), std::move(items)); });
        });
      case 'h':
        return with_number<std::uint8_t>([this](auto memo) { return get(memo); });
      case 'j':
        return with_number<std::uint32_t>([this](auto memo) { return get(memo); });
      case 'q':
        return with_number<std::uint8_t>([this](auto memo) { return put(memo); });
      case 'r':
        return with_number<std::uint32_t>([this](auto memo) { return put(memo); });
      default:
        return refuse(fmt::format("uses instruction 0x{:02x}, which torch.save does not write for state dicts", code));
    }
  }

  // Operands.

  /// Returns the next `count` bytes, or null if there are fewer.
  const std::byte* take(std::size_t count) {
    if (count > bytes_.size() - at_) {
      refuse("is damaged: it is truncated");
      return nullptr;
    }
    at_ += count;
    return bytes_.data() + at_ - count;
  }

  template <typename Number, typename Action>
  bool with_number(Action action) {
    const std::byte* const operand = take(sizeof(Number));
    return operand != nullptr && action(number_at<Number>({operand, sizeof(Number)}, 0));
  }

  template <typename Number>
  bool push_integer() {
    return with_number<Number>([this](auto number) { return push(static_cast<std::int64_t>(number)); });
  }

  /// Pushes a little-endian two's-complement number; one of more than 64 bits (a generator's state) is unknown.
  template <typename Length>
  bool long_integer() {
    return with_number<Length>([this](std::size_t count) {
      const std::byte* const digits = take(count);
      if (digits == nullptr || count > sizeof(std::int64_t)) {
        return digits != nullptr && unknown("builtins.int");
      }
      const bool negative = count > 0 && (digits[count - 1] & std::byte{0x80}) != std::byte{0};
      std::int64_t number = negative ? -1 : 0;
      std::memcpy(&number, digits, count);
      return push(number);
    });
  }

  template <typename Length>
  bool skip_bytes() {
    return with_number<Length>([this](auto length) { return take(length) != nullptr && unknown("builtins.bytes"); });
  }

  template <typename Length>
  bool text() {
    return with_number<Length>([this](auto length) {
      const std::byte* const characters = take(length);
      return characters != nullptr && push(std::string(reinterpret_cast<const char*>(characters), length));
    });
  }

  std::optional<std::string> line() {
    const auto* const begin = reinterpret_cast<const char*>(bytes_.data()) + at_;
    const auto* const end = static_cast<const char*>(std::memchr(begin, '\n', bytes_.size() - at_));
    if (end == nullptr) {
      take(bytes_.size());  // sets the failure
      return std::nullopt;
    }
    at_ += static_cast<std::size_t>(end - begin) + 1;
    return std::string(begin, end);
  }

  /// Reads two lines: the name of a module, and a name in it.
  template <typename Action>
  bool with_name(Action action) {
    const auto module = line();
    const auto name = module ? line() : std::nullopt;
    return name && action(*module, *name);
  }

  std::span<const std::byte> bytes_;
  std::size_t at_ = 0;
};

}  // namespace

const PickleIndex* PickleTree::find(const PickleDict& dict, std::string_view key) const {
  const PickleIndex* found = nullptr;
  for (const auto& [name, value] : dict.items) {
    const auto* const text = as<std::string>(name);
    found = text != nullptr && *text == key ? &value : found;
  }
  return found;
}

Result<PickleTree> read_pickle(std::span<const std::byte> bytes, const std::string& path) {
  constexpr const char* kAction = "running torch.save(model.state_dict(), FILE) in Python, or saving it as safetensors";
  if (bytes.size() > kMostBytes) {
    return fail("state dict", path, "has a pickle of more than 32 MiB", kAction, ErrorKind::BadData);
  }
  Reader reader(bytes);
  auto tree = reader.run();
  if (!tree) {
    return fail("state dict", path, "its pickle " + reader.failure(), kAction, ErrorKind::BadData);
  }
  return *std::move(tree);
}

}  // namespace rollcall::checkpoint::interop
