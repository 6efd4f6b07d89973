#include "trainer/checkpoint/format/manifest.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstring>
#include <tuple>

#include "trainer/checkpoint/format/commit_header.h"
#include "trainer/checkpoint/format/schema.h"
#include "trainer/checkpoint/format/text_limits.h"
#include "trainer/storage/crc.h"

namespace rollcall::checkpoint::format {
namespace {

using nlohmann::json;

constexpr const char* kTensorKind = "tensor";
constexpr const char* kValueKind = "value";

nlohmann::ordered_json to_json(const ManifestEntry& entry) {
  const bool tensor = entry.kind == Kind::Tensor;
  nlohmann::ordered_json row{{"name", entry.name},   {"kind", tensor ? kTensorKind : kValueKind},
                             {"dtype", entry.type},  {"element_bytes", entry.element_bytes},
                             {"shape", entry.shape}, {"offset", entry.offset},
                             {"bytes", entry.bytes}, {"crc32c", entry.crc32c}};
  if (tensor) {
    row["state_dict_key"] = entry.state_dict_key;
  }
  if (!entry.pieces.empty()) {
    row["pieces"] = entry.pieces;
  }
  return row;
}

template <typename T>
bool fits(const json& value) {
  if constexpr (std::is_same_v<T, std::string>) {
    return value.is_string();
  } else if constexpr (std::is_same_v<T, std::uint32_t>) {
    return value.is_number_unsigned() && value.get<std::uint64_t>() <= UINT32_MAX;
  } else if constexpr (std::is_same_v<T, std::uint64_t>) {
    return value.is_number_unsigned();
  } else if constexpr (std::is_same_v<T, std::int64_t>) {  // counts: never negative
    return value.is_number_unsigned() && value.get<std::uint64_t>() <= INT64_MAX;
  } else {
    return value.is_array() && std::all_of(value.begin(), value.end(), fits<typename T::value_type>);
  }
}

/// Returns false if the field is absent or of another type.
template <typename T>
bool take(const json& row, const char* name, T& into) {
  const auto found = row.find(name);
  if (found == row.end() || !fits<T>(*found)) {
    return false;
  }
  into = found->get<T>();
  return true;
}

Kind kind_named(const std::string& name) {
  if (name == kTensorKind) {
    return Kind::Tensor;
  }
  return name == kValueKind ? Kind::Value : Kind::Unknown;
}

bool take_entry(const json& row, ManifestEntry& entry) {
  std::string kind;
  const bool sound = row.is_object() && take(row, "name", entry.name) && take(row, "kind", kind) &&
                     take(row, "dtype", entry.type) && take(row, "element_bytes", entry.element_bytes) &&
                     take(row, "shape", entry.shape) && take(row, "offset", entry.offset) &&
                     take(row, "bytes", entry.bytes) && take(row, "crc32c", entry.crc32c);
  if (!sound || (row.contains("pieces") && !take(row, "pieces", entry.pieces))) {
    return false;
  }
  entry.kind = kind_named(kind);
  return entry.kind != Kind::Tensor || take(row, "state_dict_key", entry.state_dict_key);
}

std::string entry_problem(const ManifestEntry& entry, std::uint64_t piece_bytes, std::uint64_t file_bytes) {
  const auto elements = element_count(entry.shape);
  std::uint64_t bytes = 0;
  if (!elements || __builtin_mul_overflow(*elements, entry.element_bytes, &bytes) || bytes != entry.bytes) {
    return entry.name + " has a size that does not match its shape";
  }
  if (bytes > file_bytes || entry.offset > file_bytes - bytes || (bytes > 0 && entry.offset < kCommitHeaderBytes)) {
    return entry.name + " is outside of the file";
  }
  const std::uint64_t pieces = bytes / piece_bytes + (bytes % piece_bytes != 0 ? 1 : 0);
  if (entry.pieces.size() != (pieces > 1 ? pieces : 0)) {
    return entry.name + " has a wrong number of checksums";
  }
  return "";
}

std::uint64_t piece_of(const Fragment& fragment) { return fragment.first_byte / kPieceBytes; }

bool continues(const Fragment& before, const Fragment& next) {
  return before.dataset == next.dataset && before.first_byte + before.bytes == next.first_byte &&
         piece_of(before) == piece_of(next);
}

/// Sets the checksums of a data set from its fragments, which are joined and sorted.
std::string set_checksums_of(ManifestEntry& entry, std::span<const Fragment> fragments) {
  std::uint64_t written = 0;
  entry.crc32c = 0;
  for (const Fragment& fragment : fragments) {
    if (fragment.first_byte != written || fragment.bytes > entry.bytes - written) {
      break;
    }
    entry.crc32c = storage::crc32c_combine(entry.crc32c, fragment.crc32c, fragment.bytes);
    entry.pieces.push_back(fragment.crc32c);
    written += fragment.bytes;
  }
  const std::uint64_t pieces = (entry.bytes + kPieceBytes - 1) / kPieceBytes;
  if (written != entry.bytes || fragments.size() != pieces) {
    return fmt::format("{}: byte {} was written by no rank or by two ranks", entry.name, written);
  }
  if (pieces <= 1) {
    entry.pieces.clear();
  }
  return "";
}

}  // namespace

std::string manifest_to_json(const Manifest& manifest) {
  nlohmann::ordered_json datasets = nlohmann::ordered_json::array();
  for (const ManifestEntry& entry : manifest.datasets) {
    datasets.push_back(to_json(entry));
  }
  const nlohmann::ordered_json whole{{schema::kFormatAttribute, schema::kFormat},
                                     {schema::kVersionAttribute, manifest.info.format_version},
                                     {schema::kWriterAttribute, manifest.info.writer},
                                     {schema::kTorchVersionAttribute, manifest.info.torch_version},
                                     {schema::kCreatedAttribute, manifest.info.created},
                                     {"piece_bytes", manifest.piece_bytes},
                                     {"datasets", std::move(datasets)}};
  return whole.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::optional<Manifest> manifest_from_json(std::string_view text) {
  const json whole = parse_untrusted(text, limits_of(text)).value_or(json());
  Manifest manifest;
  std::string format;
  const bool sound = whole.is_object() && take(whole, schema::kFormatAttribute, format) && format == schema::kFormat &&
                     take(whole, schema::kVersionAttribute, manifest.info.format_version) &&
                     take(whole, schema::kWriterAttribute, manifest.info.writer) &&
                     take(whole, schema::kTorchVersionAttribute, manifest.info.torch_version) &&
                     take(whole, schema::kCreatedAttribute, manifest.info.created) &&
                     take(whole, "piece_bytes", manifest.piece_bytes) && manifest.piece_bytes > 0 &&
                     whole.contains("datasets") && whole["datasets"].is_array();
  if (!sound) {
    return std::nullopt;
  }
  for (const auto& row : whole["datasets"]) {
    if (!take_entry(row, manifest.datasets.emplace_back())) {
      return std::nullopt;
    }
  }
  return manifest;
}

std::optional<std::uint64_t> element_count(const std::vector<std::int64_t>& shape) {
  std::uint64_t count = 1;
  for (const std::int64_t dimension : shape) {
    if (dimension < 0 || __builtin_mul_overflow(count, static_cast<std::uint64_t>(dimension), &count)) {
      return std::nullopt;
    }
  }
  return count;
}

std::string layout_problem(const Manifest& manifest, std::uint64_t file_bytes) {
  std::vector<const ManifestEntry*> placed;
  for (const ManifestEntry& entry : manifest.datasets) {
    if (std::string problem = entry_problem(entry, manifest.piece_bytes, file_bytes); !problem.empty()) {
      return problem;
    }
    if (entry.bytes > 0) {
      placed.push_back(&entry);
    }
  }
  std::sort(placed.begin(), placed.end(), [](const auto* a, const auto* b) { return a->offset < b->offset; });
  for (std::size_t i = 1; i < placed.size(); ++i) {
    if (placed[i - 1]->offset + placed[i - 1]->bytes > placed[i]->offset) {
      return placed[i]->name + " and " + placed[i - 1]->name + " overlap";
    }
  }
  return "";
}

void sum_up(std::vector<Fragment>& fragments, std::uint64_t dataset, std::uint64_t first_byte,
            std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const std::uint64_t rest_of_piece = kPieceBytes - first_byte % kPieceBytes;
    const auto part = bytes.first(std::min<std::size_t>(bytes.size(), rest_of_piece));
    fragments.push_back({dataset, first_byte, part.size(), storage::crc32c(part)});
    bytes = bytes.subspan(part.size());
    first_byte += part.size();
  }
}

void join(std::vector<Fragment>& fragments) {
  std::sort(fragments.begin(), fragments.end(), [](const Fragment& a, const Fragment& b) {
    return std::tie(a.dataset, a.first_byte) < std::tie(b.dataset, b.first_byte);
  });
  std::vector<Fragment> joined;
  for (const Fragment& fragment : fragments) {
    if (!joined.empty() && continues(joined.back(), fragment)) {
      Fragment& before = joined.back();
      before.crc32c = storage::crc32c_combine(before.crc32c, fragment.crc32c, fragment.bytes);
      before.bytes += fragment.bytes;
    } else {
      joined.push_back(fragment);
    }
  }
  fragments = std::move(joined);
}

std::vector<std::byte> to_bytes(const std::vector<Fragment>& fragments) {
  const auto bytes = std::as_bytes(std::span(fragments));
  return {bytes.begin(), bytes.end()};
}

std::optional<std::vector<Fragment>> fragments_from_bytes(std::span<const std::byte> bytes) {
  if (bytes.size() % sizeof(Fragment) != 0) {
    return std::nullopt;
  }
  std::vector<Fragment> fragments(bytes.size() / sizeof(Fragment));
  if (!bytes.empty()) {
    std::memcpy(fragments.data(), bytes.data(), bytes.size());
  }
  return fragments;
}

std::string set_checksums(std::vector<ManifestEntry>& datasets, std::vector<Fragment> fragments) {
  join(fragments);
  auto next = fragments.begin();
  for (std::size_t i = 0; i < datasets.size(); ++i) {
    const auto end = std::find_if(next, fragments.end(), [i](const Fragment& f) { return f.dataset != i; });
    if (std::string problem = set_checksums_of(datasets[i], std::span(next, end)); !problem.empty()) {
      return problem;
    }
    next = end;
  }
  return next == fragments.end() ? "" : "a rank wrote a data set that does not exist";
}

}  // namespace rollcall::checkpoint::format
