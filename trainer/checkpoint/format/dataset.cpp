#include "trainer/checkpoint/format/dataset.h"

#include <algorithm>
#include <cstring>

#include "trainer/checkpoint/format/hdf5_objects.h"
#include "trainer/storage/crc32c.h"
#include "trainer/storage/hdf5_objects.h"

namespace rollcall::checkpoint::format {
namespace {

template <typename Number>
void set_number(Dataset& dataset, hid_t type, Number number) {
  dataset.type = storage::Handle(H5Tcopy(type), H5Tclose);
  dataset.owned.resize(sizeof(number));
  std::memcpy(dataset.owned.data(), &number, sizeof(number));
}

/// `texts` one after the other, each padded with NUL to the longest.
void set_texts(Dataset& dataset, std::span<const std::string> texts) {
  std::size_t longest = 1;
  for (const std::string& text : texts) {
    longest = std::max(longest, text.size());
  }
  dataset.type = storage::hdf5_text_type(longest);
  dataset.owned.resize(longest * texts.size());
  for (std::size_t i = 0; i < texts.size(); ++i) {
    std::memcpy(dataset.owned.data() + i * longest, texts[i].data(), texts[i].size());
  }
}

struct SetValue {
  Dataset& dataset;

  void operator()(std::int64_t number) const { set_number(dataset, H5T_STD_I64LE, number); }
  void operator()(std::uint64_t number) const { set_number(dataset, H5T_STD_U64LE, number); }
  void operator()(double number) const { set_number(dataset, H5T_IEEE_F64LE, number); }
  void operator()(const std::string& text) const { set_texts(dataset, std::span(&text, 1)); }
  void operator()(const std::vector<std::string>& texts) const {
    dataset.shape = {texts.size()};
    set_texts(dataset, texts);
  }
};

}  // namespace

Dataset dataset_of(const TensorView& tensor) {
  Dataset dataset;
  dataset.path = tensor.path;
  dataset.type = hdf5_type(tensor.dtype);
  dataset.shape.assign(tensor.shape.begin(), tensor.shape.end());
  dataset.bytes = tensor.bytes;
  dataset.crc32c = storage::crc32c(tensor.bytes);
  dataset.tensor = &tensor;
  return dataset;
}

Dataset dataset_of(const std::string& path, const Value& value) {
  Dataset dataset;
  dataset.path = path;
  std::visit(SetValue{dataset}, value);
  dataset.bytes = dataset.owned;  // a vector's memory stays where it is when the Dataset is moved
  dataset.crc32c = storage::crc32c(dataset.bytes);
  return dataset;
}

}  // namespace rollcall::checkpoint::format
