#include "trainer/checkpoint/memory_checkpoint.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "trainer/storage/crc.h"

namespace rollcall::checkpoint {
namespace {

using Json = nlohmann::json;
using Bytes = std::vector<std::uint8_t>;
using format::ManifestEntry;

Json row_of(const format::TensorView& tensor) {
  return {tensor.path,  tensor.state_dict_key, std::string(format::dtype_name(tensor.dtype)),
          tensor.shape, tensor.first_byte,     tensor.bytes.size()};
}

Json row_of(const std::string& name, const format::Value& value) {
  const format::EncodedValue encoded = format::encode_value(name, value);
  const auto* const bytes = reinterpret_cast<const std::uint8_t*>(encoded.bytes.data());
  return {name, encoded.entry.type, encoded.entry.element_bytes, encoded.entry.shape,
          Json::binary({bytes, bytes + encoded.bytes.size()})};
}

/// Returns whether the table lists a tensor: a tensor without bytes on every rank has none at all.
bool is_told(const format::TensorView& tensor) {
  return !tensor.bytes.empty() || format::element_count(tensor.shape).value_or(0) == 0;
}

}  // namespace

std::span<const std::byte> bytes_of(const at::Tensor& bytes) {
  return {static_cast<const std::byte*>(bytes.const_data_ptr()), bytes.nbytes()};
}

std::span<const std::uint8_t> MemoryPart::table() const { return {memory.const_data_ptr<std::uint8_t>(), table_bytes}; }

at::Tensor MemoryPart::data() const {
  const auto begin = static_cast<std::int64_t>(table_bytes);
  return memory.narrow(0, begin, memory.numel() - begin);
}

bool MemoryPart::is_sound() const {
  return table_bytes <= memory.nbytes() && storage::crc32c(bytes_of(memory)) == crc32c;
}

MemoryPart make_part(const PartName& name, const format::Content& content) {
  MemoryPart part{.name = name, .memory = {}};
  Json tensors = Json::array();
  Json values = Json::array();
  std::size_t total = 0;
  for (const format::TensorView& tensor : content.tensors) {
    total += tensor.bytes.size();
    if (is_told(tensor)) {
      tensors.push_back(row_of(tensor));
    }
  }
  for (const auto& [path, value] : content.values) {
    values.push_back(row_of(path, value));
  }
  const Bytes table = Json::to_cbor({{"tensors", std::move(tensors)}, {"values", std::move(values)}});
  part.table_bytes = table.size();
  part.memory = torch::empty({static_cast<std::int64_t>(table.size() + total)}, at::kByte);
  auto* place = static_cast<std::byte*>(part.memory.mutable_data_ptr());
  const auto add = [&](std::span<const std::byte> bytes) {
    if (!bytes.empty()) {
      std::memcpy(place, bytes.data(), bytes.size());
      part.crc32c = storage::crc32c({place, bytes.size()}, part.crc32c);
      place += bytes.size();
    }
  };
  add(std::as_bytes(std::span(table)));
  for (const format::TensorView& tensor : content.tensors) {
    add(tensor.bytes);
  }
  return part;
}

Result<MemoryCheckpoint> MemoryCheckpoint::of(std::string path, const std::vector<std::vector<std::uint8_t>>& tables) {
  MemoryCheckpoint checkpoint;
  checkpoint.path_ = std::move(path);
  for (const std::vector<std::uint8_t>& table : tables) {
    bool sound = false;
    try {
      sound = checkpoint.add(table);
    } catch (const Json::exception&) {
      sound = false;
    }
    if (!sound) {
      return fail("checkpoint", checkpoint.path_, "a rank sent an invalid table of contents", "reporting this",
                  ErrorKind::Internal);
    }
  }
  if (!checkpoint.is_whole()) {
    return fail("checkpoint", checkpoint.path_, "a byte of a tensor is in no rank's part or in two", "reporting this",
                ErrorKind::Internal);
  }
  checkpoint.requests_.resize(checkpoint.datasets_.size());
  return checkpoint;
}

bool MemoryCheckpoint::is_whole() const {
  std::vector<std::vector<std::pair<std::uint64_t, std::uint64_t>>> extents(datasets_.size());
  for (const Part& part : parts_) {
    for (const Extent& extent : part.extents) {
      extents[extent.dataset].emplace_back(extent.first_byte, extent.bytes);
    }
  }
  for (std::size_t i = 0; i < datasets_.size(); ++i) {
    std::ranges::sort(extents[i]);
    std::uint64_t end = 0;
    for (const auto& [first, bytes] : extents[i]) {
      if (first != end) {
        return false;
      }
      end += bytes;
    }
    if (end != datasets_[i].bytes) {
      return false;
    }
  }
  return true;
}

/// Adds the table of the next owner's part.
bool MemoryCheckpoint::add(const std::vector<std::uint8_t>& table) {
  const Json contents = Json::from_cbor(table);
  Part& part = parts_.emplace_back();
  for (const Json& row : contents.at("tensors")) {
    const auto name = row.at(0).get<std::string>();
    const auto dtype = format::dtype_from_name(row.at(2).get<std::string>());
    const auto shape = row.at(3).get<std::vector<std::int64_t>>();
    const auto elements = format::element_count(shape);
    if (!dtype || !elements) {
      return false;
    }
    const auto [number, is_new] = number_of_.emplace(name, datasets_.size());
    if (is_new) {
      ManifestEntry& entry = datasets_.emplace_back();
      entry.name = name;
      entry.kind = format::Kind::Tensor;
      entry.state_dict_key = row.at(1).get<std::string>();
      entry.type = format::dtype_name(*dtype);
      entry.element_bytes = format::dtype_size(*dtype);
      entry.shape = shape;
      entry.bytes = *elements * entry.element_bytes;
    }
    const ManifestEntry& entry = datasets_[number->second];
    const Extent extent{part.bytes, number->second, row.at(4).get<std::uint64_t>(), row.at(5).get<std::uint64_t>()};
    if (entry.shape != shape || entry.type != format::dtype_name(*dtype) || extent.first_byte > entry.bytes ||
        extent.bytes > entry.bytes - extent.first_byte) {
      return false;
    }
    part.extents.push_back(extent);
    part.bytes += extent.bytes;
  }
  for (const Json& row : contents.at("values")) {
    ManifestEntry entry;
    entry.name = row.at(0).get<std::string>();
    entry.type = row.at(1).get<std::string>();
    entry.element_bytes = row.at(2).get<std::uint64_t>();
    entry.shape = row.at(3).get<std::vector<std::int64_t>>();
    const auto& bytes = row.at(4).get_binary();
    entry.bytes = bytes.size();
    if (auto value = format::decode_value(entry, std::as_bytes(std::span(bytes)))) {
      values_.try_emplace(entry.name, *std::move(value));
    }
  }
  return true;
}

const ManifestEntry* MemoryCheckpoint::find(std::string_view name) const {
  const auto found = number_of_.find(name);
  return found == number_of_.end() ? nullptr : &datasets_[found->second];
}

Result<void> MemoryCheckpoint::read(std::span<const format::ReadRequest> requests, format::VerifyLevel /*level*/,
                                    std::size_t /*threads*/) const {
  for (const format::ReadRequest& request : requests) {
    const auto number = static_cast<std::size_t>(request.entry - datasets_.data());
    TORCH_INTERNAL_ASSERT(number < datasets_.size() &&
                          request.first_byte + request.into.size() <= request.entry->bytes);
    requests_[number].push_back(request);
    missing_ += request.into.size();
  }
  return {};
}

void MemoryCheckpoint::take(std::uint32_t owner, std::uint64_t first_byte, std::span<const std::byte> piece) {
  const std::vector<Extent>& extents = parts_[owner].extents;
  auto extent = std::ranges::upper_bound(extents, first_byte, {}, &Extent::offset);
  extent -= extent == extents.begin() ? 0 : 1;
  for (; extent != extents.end() && extent->offset < first_byte + piece.size(); ++extent) {
    const std::uint64_t begin = std::max(extent->offset, first_byte);
    const std::uint64_t end = std::min(extent->offset + extent->bytes, first_byte + piece.size());
    if (begin < end) {
      give(*extent, extent->first_byte + (begin - extent->offset), piece.subspan(begin - first_byte, end - begin));
    }
  }
}

/// Copies `bytes`, which begin at `first_byte` of the stretch's data set, to the requests.
void MemoryCheckpoint::give(const Extent& extent, std::uint64_t first_byte, std::span<const std::byte> bytes) {
  for (const format::ReadRequest& request : requests_[extent.dataset]) {
    const std::uint64_t begin = std::max(first_byte, request.first_byte);
    const std::uint64_t end = std::min(first_byte + bytes.size(), request.first_byte + request.into.size());
    if (begin < end) {
      std::memcpy(request.into.data() + (begin - request.first_byte), bytes.data() + (begin - first_byte), end - begin);
      missing_ -= end - begin;
    }
  }
}

}  // namespace rollcall::checkpoint
