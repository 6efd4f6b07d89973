#include "trainer/distributed/fsdp/whole_parameter.h"

#include <memory>
#include <utility>

namespace rollcall::parallel::fsdp {

void release(const at::Tensor& parameter, const std::string& name) {
  c10::StorageImpl* const storage = parameter.storage().unsafeGetStorageImpl();
  storage->clear_data_ptr_access_error_msg_();
  storage->set_data_ptr_noswap(at::DataPtr(nullptr, parameter.device()));
  storage->set_nbytes(0);
  storage->release_data_and_set_meta_custom_data_ptr_error_msg_(
      "parameter " + name +
      " is sharded, and this rank holds only its shard of it: use the replica's named_parameters() (shards) or "
      "gather() (whole) instead of the module's");
}

void lend(const at::Tensor& parameter, const at::Tensor& memory, std::int64_t begin) {
  auto reference = std::make_unique<at::Tensor>(memory);
  char* const address = static_cast<char*>(memory.mutable_data_ptr()) + begin;
  at::DataPtr data(
      address, reference.release(), [](void* held) { delete static_cast<at::Tensor*>(held); }, parameter.device());
  c10::StorageImpl* const storage = parameter.storage().unsafeGetStorageImpl();
  storage->clear_data_ptr_access_error_msg_();
  storage->set_data_ptr_noswap(std::move(data));
  storage->set_nbytes(static_cast<std::size_t>(parameter.numel()) * parameter.element_size());
}

}  // namespace rollcall::parallel::fsdp
