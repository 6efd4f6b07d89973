#include "trainer/checkpoint/interop/state_dict.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <utility>

#include "trainer/checkpoint/format/strided_copy.h"
#include "trainer/checkpoint/interop/files.h"
#include "trainer/checkpoint/interop/find_state_dict.h"
#include "trainer/checkpoint/interop/pickle.h"
#include "trainer/checkpoint/interop/zip_archive.h"

namespace rollcall::checkpoint::interop {
namespace {

constexpr std::string_view kPickle = "/data.pkl";

/// Reads the bytes of tensors from the archive.
class TensorReader {
 public:
  TensorReader(const ZipArchive& archive, std::string prefix, const PickleTree& tree)
      : archive_(archive), prefix_(std::move(prefix)), tree_(tree) {}

  Result<void> add(const std::string& key, const PickleTensor& tensor) {
    const PickleStorage& storage = *tree_.as<PickleStorage>(tensor.storage);  // the pickle machine has checked it
    ASSIGN_OR_RETURN(const auto bytes, bytes_of(key, storage));
    const auto count = byte_count(storage.dtype, tensor.shape);
    if (!count || !format::lies_within(tensor.offset, tensor.shape, tensor.strides, storage.elements)) {
      return archive_.file().unusable(fmt::format("is damaged: tensor {} exceeds its storage", key),
                                      "saving it again, with .contiguous() for expanded tensors");
    }
    const std::size_t size = format::dtype_size(storage.dtype);
    const std::size_t offset = *count == 0 ? 0 : static_cast<std::size_t>(tensor.offset) * size;
    // Readers write these bytes: without a limit many names of one storage would let a small file fill a disk.
    given_out_ += *count;
    if (given_out_ > 4 * archive_.file().size()) {
      return archive_.file().unusable("holds too many tensors that share one storage",
                                      "saving copies made with .clone()");
    }
    if (format::is_contiguous(tensor.shape, tensor.strides)) {
      state_.tensors.push_back({key, storage.dtype, tensor.shape, bytes.subspan(offset, *count)});
      return {};
    }
    add_copy(key, storage.dtype, {bytes.data() + offset, size, tensor.shape, tensor.strides});
    return {};
  }

  /// Call it after the last add().
  [[nodiscard]] StateDict finish() && { return std::move(state_); }

 private:
  /// Returns the elements of a storage, read once for all tensors that share it.
  Result<std::span<const std::byte>> bytes_of(const std::string& tensor, const PickleStorage& storage) {
    const ZipEntry* const entry = archive_.find(prefix_ + "/data/" + storage.key);
    const auto elements = byte_count(storage.dtype, std::array{storage.elements});
    if (entry == nullptr || !elements || *elements > entry->bytes) {
      return archive_.file().unusable(fmt::format("is damaged: the storage of tensor {} is missing", tensor));
    }
    const auto known = read_.find(storage.key);
    if (known != read_.end()) {
      return known->second;
    }
    ASSIGN_OR_RETURN(auto bytes, archive_.read(*entry));
    const std::span<const std::byte> view(bytes.get(), entry->bytes);
    state_.storage.push_back(std::move(bytes));
    read_.emplace(storage.key, view);
    return view;
  }

  void add_copy(const std::string& key, format::DType dtype, const format::StridedBytes& elements) {
    const std::size_t count = format::total_bytes(elements);
    state_.storage.push_back(std::make_unique_for_overwrite<std::byte[]>(count));
    const std::span<std::byte> copy(state_.storage.back().get(), count);
    format::copy_row_major(elements, copy);
    state_.tensors.push_back({key, dtype, elements.sizes, copy});
  }

  const ZipArchive& archive_;
  std::string prefix_;
  const PickleTree& tree_;
  StateDict state_;
  std::map<std::string, std::span<const std::byte>> read_;  ///< by the storage's key; each key is one member
  std::uint64_t given_out_ = 0;
};

/// Returns "archive" for a file whose pickle is the member "archive/data.pkl". PyTorch sometimes uses the file's name.
Result<std::string> find_prefix(const ZipArchive& archive) {
  for (const ZipEntry& entry : archive.entries()) {
    const bool in_one_folder = entry.name.find('/') == entry.name.size() - std::min(kPickle.size(), entry.name.size());
    if (entry.name.ends_with(kPickle) && in_one_folder) {
      return entry.name.substr(0, entry.name.size() - kPickle.size());
    }
  }
  return archive.file().unusable("is a zip archive, but torch.save did not write it: data.pkl is missing",
                                 "running torch.save(model.state_dict(), FILE) in Python");
}

Result<void> check_byte_order(const ZipArchive& archive, const std::string& prefix) {
  const ZipEntry* const entry = archive.find(prefix + "/byteorder");
  if (entry == nullptr) {
    return {};  // written before PyTorch 2.1, and little-endian on all relevant machines
  }
  ASSIGN_OR_RETURN(const auto order, archive.read(*entry));
  const std::string_view text(reinterpret_cast<const char*>(order.get()), entry->bytes);
  return text == "little" ? Result<void>()
                          : archive.file().unusable("was written on a big-endian machine", "saving it as safetensors");
}

Result<StateDict> read_tensors(const ZipArchive& archive, const std::string& prefix, const PickleTree& tree,
                               const PickleDict& dict) {
  TensorReader reader(archive, prefix, tree);
  std::map<std::string_view, PickleIndex> last;  // for equal keys Python keeps the last value at the first position
  for (const auto& [key_index, value] : dict.items) {
    const auto* const key = tree.as<std::string>(key_index);
    if (key == nullptr || tree.as<PickleTensor>(value) == nullptr) {
      return archive.file().unusable(
          fmt::format("holds {}, which is {}", key ? *key : "a key that is not a string", describe(tree, value)),
          advice_for(tree, value));
    }
    last[*key] = value;
  }
  for (const auto& item : dict.items) {
    const std::string& key = *tree.as<std::string>(item.first);
    const auto found = last.find(key);
    if (found == last.end()) {
      continue;
    }
    RETURN_IF_ERROR(reader.add(key, *tree.as<PickleTensor>(found->second)));
    last.erase(found);
  }
  return std::move(reader).finish();
}

/// Writes instructions of Lib/pickletools.py, protocol 2, without the memo, because nothing is referenced twice.
class Pickle {
 public:
  Pickle& code(std::string_view instructions) {
    text_ += instructions;
    return *this;
  }
  Pickle& global(std::string_view module, std::string_view name) {
    text_.append("c").append(module).append("\n").append(name).append("\n");
    return *this;
  }
  Pickle& text(std::string_view value) {
    text_ += 'X';
    append_number(text_, static_cast<std::uint32_t>(value.size()));
    text_ += value;
    return *this;
  }
  Pickle& integer(std::int64_t value) {
    if (std::in_range<std::int32_t>(value)) {
      text_ += 'J';
      append_number(text_, static_cast<std::int32_t>(value));
    } else {
      text_ += "\x8a\x08";
      append_number(text_, value);
    }
    return *this;
  }
  Pickle& integers(std::span<const std::int64_t> values) {
    code("(");
    for (const std::int64_t value : values) {
      integer(value);
    }
    return code("t");
  }
  [[nodiscard]] const std::string& bytes() const { return text_; }

 private:
  std::string text_;
};

std::vector<std::int64_t> contiguous_strides(std::span<const std::int64_t> shape) {
  std::vector<std::int64_t> strides(shape.size(), 1);
  for (std::size_t i = shape.size(); i-- > 1;) {
    strides[i - 1] = strides[i] * std::max<std::int64_t>(shape[i], 1);
  }
  return strides;
}

/// Writes torch._utils._rebuild_tensor_v2(storage, 0, shape, strides, False, OrderedDict()) with the key of its
/// storage.
void add_tensor(Pickle& pickle, const StateTensor& tensor, const std::string& storage_key) {
  const auto elements = static_cast<std::int64_t>(tensor.bytes.size() / format::dtype_size(tensor.dtype));
  pickle.text(tensor.key).global("torch._utils", "_rebuild_tensor_v2").code("((");
  pickle.text("storage")
      .global("torch", format::dtype_row(tensor.dtype).storage)
      .text(storage_key)
      .text("cpu")
      .integer(elements);
  pickle.code("tQ").integer(0).integers(tensor.shape).integers(contiguous_strides(tensor.shape)).code("\x89");
  pickle.global("collections", "OrderedDict").code(")RtR");
}

std::string pickle_of(std::span<const StateTensor> tensors) {
  Pickle pickle;
  pickle.code("\x80\x02").global("collections", "OrderedDict").code(")R(");
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    add_tensor(pickle, tensors[i], std::to_string(i));
  }
  pickle.code("u.");
  return pickle.bytes();
}

}  // namespace

Result<StateDict> read_torch_file(InputFile file, const std::string& key) {
  ASSIGN_OR_RETURN(auto archive, ZipArchive::open(std::move(file)));
  ASSIGN_OR_RETURN(const auto prefix, find_prefix(archive));
  if (archive.find(prefix + "/constants.pkl") != nullptr) {
    return archive.file().unusable("is a TorchScript model",
                                   "running torch.save(torch.jit.load(FILE).state_dict(), NEW_FILE) in Python");
  }
  RETURN_IF_ERROR(check_byte_order(archive, prefix));
  const ZipEntry& entry = *archive.find(prefix + std::string(kPickle));
  ASSIGN_OR_RETURN(const auto pickle, archive.read(entry));
  ASSIGN_OR_RETURN(const auto tree, read_pickle({pickle.get(), entry.bytes}, archive.file().path()));
  ASSIGN_OR_RETURN(const auto found, find_state_dict(tree, key, archive.file()));
  auto state = read_tensors(archive, prefix, tree, *found.dict);
  if (state) {
    state->key = found.key;
    state->other_keys = found.others;
  }
  return state;
}

Result<void> write_torch_file(OutputFile& out, std::span<const StateTensor> tensors) {
  ZipWriter zip(out);
  const auto add_text = [&](const std::string& name, std::string_view text) {
    return zip.add("archive/" + name, std::as_bytes(std::span(text)));
  };
  const std::array<std::pair<std::string, std::string>, 5> texts{{{"data.pkl", pickle_of(tensors)},
                                                                  {".format_version", "1"},
                                                                  {".storage_alignment", "64"},
                                                                  {"byteorder", "little"},
                                                                  {"version", "3\n"}}};
  for (const auto& [name, text] : texts) {
    RETURN_IF_ERROR(add_text(name, text));
  }
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    RETURN_IF_ERROR(zip.add("archive/data/" + std::to_string(i), tensors[i].bytes));
  }
  return zip.finish();
}

}  // namespace rollcall::checkpoint::interop
