#include "trainer/checkpoint/format/hdf5_objects.h"

#include <bit>

#include "trainer/checkpoint/format/schema.h"
#include "trainer/storage/hdf5_objects.h"

namespace rollcall::checkpoint::format {
namespace {

static_assert(std::endian::native == std::endian::little, "tensors are written as they lie in memory");

storage::Handle half_precision() {
  storage::Handle type(H5Tcopy(H5T_IEEE_F32LE), H5Tclose);
  H5Tset_fields(type.get(), 15, 10, 5, 0, 10);
  H5Tset_size(type.get(), 2);
  H5Tset_ebias(type.get(), 15);
  return type;
}

hid_t standard_type(DType dtype) {
  switch (dtype) {
    case DType::BFloat16:
      return H5T_STD_U16LE;
    case DType::Float64:
      return H5T_IEEE_F64LE;
    case DType::Bool:
    case DType::UInt8:
      return H5T_STD_U8LE;
    case DType::Int8:
      return H5T_STD_I8LE;
    case DType::Int16:
      return H5T_STD_I16LE;
    case DType::Int32:
      return H5T_STD_I32LE;
    case DType::Int64:
      return H5T_STD_I64LE;
    case DType::Float16:
    case DType::Float32:
      break;
  }
  return H5T_IEEE_F32LE;
}

}  // namespace

storage::Handle hdf5_type(DType dtype) {
  return dtype == DType::Float16 ? half_precision() : storage::Handle(H5Tcopy(standard_type(dtype)), H5Tclose);
}

storage::Handle hdf5_type(const ManifestEntry& entry) {
  if (entry.kind == Kind::Tensor) {
    const auto dtype = dtype_from_name(entry.type);
    return dtype ? hdf5_type(*dtype) : storage::Handle();
  }
  if (entry.type == schema::kText) {
    return storage::hdf5_text_type(entry.element_bytes);
  }
  if (entry.type == schema::kUInt64) {
    return {H5Tcopy(H5T_STD_U64LE), H5Tclose};
  }
  return {H5Tcopy(entry.type == schema::kInt64 ? H5T_STD_I64LE : H5T_IEEE_F64LE), H5Tclose};
}

}  // namespace rollcall::checkpoint::format
