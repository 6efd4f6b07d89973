#pragma once

#ifdef ROLLCALL_HAVE_PMIX

#include <pmix.h>

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

namespace rollcall::bootstrap {

/// The answer to one non-blocking PMIx call, which PMIx's own thread gives and the caller waits for with a deadline.
/// Shared between both: an answer that comes after the caller gave up still finds its place. Create by make_shared, use
/// for one call.
class PmixAnswer : public std::enable_shared_from_this<PmixAnswer> {
 public:
  /// The `cbdata` of the call: a reference that the callback gives back, or wait() where no callback will come.
  [[nodiscard]] void* for_callback();
  /// PMIX_COLLECT_DATA = true; lives as long as this object, as PMIx wants it.
  [[nodiscard]] const pmix_info_t* collect_data();

  /// `begun` is what the call returned. The status of the operation, or nothing where it took longer than `limit`.
  [[nodiscard]] std::optional<pmix_status_t> wait(pmix_status_t begun, std::chrono::duration<double> limit);
  /// The text of PMIx_Get_nb's value, null where it was none. Valid after wait() returned a status.
  [[nodiscard]] const char* text() const { return text_ ? text_->c_str() : nullptr; }

  /// For the callbacks.
  void arrive(pmix_status_t status, std::optional<std::string> text);

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<pmix_status_t> status_;
  std::optional<std::string> text_;
  pmix_info_t collect_{};
  std::shared_ptr<PmixAnswer>* lent_ = nullptr;  ///< what for_callback() handed out
};

/// Callbacks of PMIx_Fence_nb and PMIx_Get_nb; `cbdata` is from for_callback().
void on_pmix_fence(pmix_status_t status, void* cbdata) noexcept;
void on_pmix_value(pmix_status_t status, pmix_value_t* value, void* cbdata) noexcept;

}  // namespace rollcall::bootstrap

#endif  // ROLLCALL_HAVE_PMIX
