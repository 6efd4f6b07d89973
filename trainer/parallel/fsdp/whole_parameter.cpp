#include "trainer/parallel/fsdp/whole_parameter.h"

#include <ATen/native/Resize.h>

namespace rollcall::parallel::fsdp {

void release(const at::Tensor& parameter, const std::string& name) {
  c10::StorageImpl* const storage = parameter.storage().unsafeGetStorageImpl();
  storage->clear_data_ptr_access_error_msg_();
  at::native::resize_bytes_cpu(storage, 0);
  storage->release_data_and_set_meta_custom_data_ptr_error_msg_(
      "parameter " + name +
      " is sharded, and this rank holds only its shard of it: use the replica's named_parameters() (shards) or "
      "gather() (whole) instead of the module's");
}

char* allocate(const at::Tensor& parameter) {
  c10::StorageImpl* const storage = parameter.storage().unsafeGetStorageImpl();
  storage->clear_data_ptr_access_error_msg_();
  at::native::resize_bytes_cpu(storage, static_cast<std::size_t>(parameter.numel()) * parameter.element_size());
  return static_cast<char*>(storage->mutable_data());
}

}  // namespace rollcall::parallel::fsdp
