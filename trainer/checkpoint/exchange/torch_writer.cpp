#include <array>
#include <utility>

#include "trainer/checkpoint/exchange/little_endian.h"
#include "trainer/checkpoint/exchange/torch_file.h"
#include "trainer/checkpoint/exchange/zip_writer.h"

namespace rollcall::checkpoint::exchange {
namespace {

using format::DType;

std::string storage_type(DType dtype) {
  switch (dtype) {
    case DType::Float16:
      return "HalfStorage";
    case DType::BFloat16:
      return "BFloat16Storage";
    case DType::Float32:
      return "FloatStorage";
    case DType::Float64:
      return "DoubleStorage";
    case DType::Bool:
      return "BoolStorage";
    case DType::UInt8:
      return "ByteStorage";
    case DType::Int8:
      return "CharStorage";
    case DType::Int16:
      return "ShortStorage";
    case DType::Int32:
      return "IntStorage";
    case DType::Int64:
      return "LongStorage";
  }
  return "";
}

/// Instructions of Lib/pickletools.py, protocol 2, without the memo: nothing is referred to twice.
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

/// torch._utils._rebuild_tensor_v2(storage, 0, shape, strides, False, OrderedDict()), the storage being told by its
/// key.
void add_tensor(Pickle& pickle, const StateTensor& tensor, const std::string& storage_key) {
  const auto elements = static_cast<std::int64_t>(tensor.bytes.size() / format::dtype_size(tensor.dtype));
  pickle.text(tensor.key).global("torch._utils", "_rebuild_tensor_v2").code("((");
  pickle.text("storage").global("torch", storage_type(tensor.dtype)).text(storage_key).text("cpu").integer(elements);
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
    if (auto added = add_text(name, text); !added) {
      return added;
    }
  }
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (auto added = zip.add("archive/data/" + std::to_string(i), tensors[i].bytes); !added) {
      return added;
    }
  }
  return zip.finish();
}

}  // namespace rollcall::checkpoint::exchange
