#include "runtime/bootstrap/pmix_answer.h"

#ifdef ROLLCALL_HAVE_PMIX

#include <cstring>
#include <utility>

namespace rollcall::bootstrap {

void* PmixAnswer::for_callback() {
  lent_ = new std::shared_ptr<PmixAnswer>(shared_from_this());
  return lent_;
}

const pmix_info_t* PmixAnswer::collect_data() {
  std::strncpy(collect_.key, PMIX_COLLECT_DATA, sizeof collect_.key - 1);
  collect_.value.type = PMIX_BOOL;
  collect_.value.data.flag = true;
  return &collect_;
}

std::optional<pmix_status_t> PmixAnswer::wait(pmix_status_t begun, std::chrono::duration<double> limit) {
  if (begun != PMIX_SUCCESS) {
    delete lent_;  // no callback comes after an immediate answer
    return begun == PMIX_OPERATION_SUCCEEDED ? PMIX_SUCCESS : begun;
  }
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, limit, [&] { return status_.has_value(); });
  return status_;
}

void PmixAnswer::arrive(pmix_status_t status, std::optional<std::string> text) {
  const std::lock_guard lock(mutex_);
  status_ = status;
  text_ = std::move(text);
  changed_.notify_all();
}

void on_pmix_fence(pmix_status_t status, void* cbdata) noexcept {
  const std::unique_ptr<std::shared_ptr<PmixAnswer>> answer(static_cast<std::shared_ptr<PmixAnswer>*>(cbdata));
  (*answer)->arrive(status, std::nullopt);
}

void on_pmix_value(pmix_status_t status, pmix_value_t* value, void* cbdata) noexcept {
  const std::unique_ptr<std::shared_ptr<PmixAnswer>> answer(static_cast<std::shared_ptr<PmixAnswer>*>(cbdata));
  const bool has_text = value != nullptr && value->type == PMIX_STRING && value->data.string != nullptr;
  (*answer)->arrive(status, has_text ? std::optional<std::string>(value->data.string) : std::nullopt);
}

}  // namespace rollcall::bootstrap

#endif  // ROLLCALL_HAVE_PMIX
