#include "runtime/launchers/pmix.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <mutex>
#include <optional>
#include <utility>

#ifdef ROLLCALL_HAVE_PMIX
#include <pmix.h>
#endif

namespace rollcall::launchers {

#ifdef ROLLCALL_HAVE_PMIX

namespace {

/// The functions of libpmix.so.2 that rollcall calls, with the types of <pmix.h>. The library is loaded at the first
/// use and never unloaded, because it starts threads.
struct PmixLibrary {
  decltype(&PMIx_Init) init = nullptr;
  decltype(&PMIx_Finalize) finalize = nullptr;
  decltype(&PMIx_Get) get = nullptr;
  decltype(&PMIx_Put) put = nullptr;
  decltype(&PMIx_Commit) commit = nullptr;
  decltype(&PMIx_Get_nb) get_nb = nullptr;
  decltype(&PMIx_Fence_nb) fence_nb = nullptr;
  decltype(&PMIx_Error_string) error_string = nullptr;
};

template <typename Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

/// Opens the library. Errors (Unavailable): it is not installed, or a function is missing from it. Thread-safe.
Result<PmixLibrary> load_pmix_library() {
  const auto refuse = [] {
    const char* const why = dlerror();
    return fail("PMIx", "libpmix.so.2", why != nullptr ? why : "cannot be opened",
                "installing PMIx (package libpmix2), or --rendezvous=address", ErrorKind::Unavailable);
  };
  // RTLD_GLOBAL: PMIx loads components that need its symbols.
  void* const library = dlopen("libpmix.so.2", RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) {
    return refuse();
  }
  PmixLibrary functions;
  const bool complete =
      find(library, "PMIx_Init", functions.init) && find(library, "PMIx_Finalize", functions.finalize) &&
      find(library, "PMIx_Get", functions.get) && find(library, "PMIx_Put", functions.put) &&
      find(library, "PMIx_Commit", functions.commit) && find(library, "PMIx_Get_nb", functions.get_nb) &&
      find(library, "PMIx_Fence_nb", functions.fence_nb) && find(library, "PMIx_Error_string", functions.error_string);
  if (!complete) {
    return refuse();
  }
  return functions;
}

/// The answer to one non-blocking PMIx call. PMIx's thread sets it, and the caller waits for it with a deadline. Both
/// share the object, so that an answer after the deadline is still valid memory. Create it by make_shared for one call.
class PmixAnswer : public std::enable_shared_from_this<PmixAnswer> {
 public:
  /// Returns the `cbdata` of the call: a reference that the callback releases, or wait() where there is no callback.
  [[nodiscard]] void* for_callback();
  /// Returns PMIX_COLLECT_DATA = true, which lives as long as this object, as PMIx requires.
  [[nodiscard]] const pmix_info_t* collect_data();

  /// Returns the status of the operation, or nothing after `limit`. `begun` is the return value of the call.
  [[nodiscard]] std::optional<pmix_status_t> wait(pmix_status_t begun, std::chrono::duration<double> limit);
  /// Returns the text of PMIx_Get_nb's value; null where it is not a text. Valid after wait() returned a status.
  [[nodiscard]] const char* text() const { return text_ ? text_->c_str() : nullptr; }

  /// Sets the answer; called by the callbacks.
  void arrive(pmix_status_t status, std::optional<std::string> text);

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<pmix_status_t> status_;
  std::optional<std::string> text_;
  pmix_info_t collect_{};
  std::shared_ptr<PmixAnswer>* lent_ = nullptr;  ///< the result of for_callback()
};

/// Callbacks of PMIx_Fence_nb and PMIx_Get_nb; `cbdata` is from for_callback().
void on_pmix_fence(pmix_status_t status, void* cbdata) noexcept;
void on_pmix_value(pmix_status_t status, pmix_value_t* value, void* cbdata) noexcept;

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
    delete lent_;  // there is no callback after an immediate answer
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

/// Frees a value of PMIx_Get, like PMIX_VALUE_RELEASE for the types that are used here.
struct FreeValue {
  void operator()(pmix_value_t* value) const {
    if (value->type == PMIX_STRING) {
      std::free(value->data.string);
    }
    std::free(value);
  }
};
using Value = std::unique_ptr<pmix_value_t, FreeValue>;

/// Converts a PMIx value of any integer type: PMIX_LOCAL_RANK is uint16, PMIX_JOB_SIZE uint32.
std::optional<std::uint32_t> to_number(const pmix_value_t& value) {
  switch (value.type) {
    case PMIX_UINT16:
      return value.data.uint16;
    case PMIX_UINT32:
      return value.data.uint32;
    case PMIX_UINT:
      return value.data.uint;
    case PMIX_PROC_RANK:
      return value.data.rank;
    case PMIX_UINT64:
      return value.data.uint64 <= std::numeric_limits<std::uint32_t>::max()
                 ? std::optional(static_cast<std::uint32_t>(value.data.uint64))
                 : std::nullopt;
    case PMIX_INT:
      return value.data.integer >= 0 ? std::optional(static_cast<std::uint32_t>(value.data.integer)) : std::nullopt;
    default:
      return std::nullopt;
  }
}

struct Attribute {
  const char* key;
  bool of_job;  ///< whether it belongs to the job (PMIX_RANK_WILDCARD) instead of this process
};

Attribute attribute_of(PmixFact which) {
  switch (which) {
    case PmixFact::JobSize:
      return {PMIX_JOB_SIZE, true};
    case PmixFact::LocalRank:
      return {PMIX_LOCAL_RANK, false};
    case PmixFact::LocalSize:
      return {PMIX_LOCAL_SIZE, true};
    case PmixFact::NodeId:
      return {PMIX_NODEID, false};
  }
  return {PMIX_JOB_SIZE, true};
}

class LibraryClient final : public PmixClient {
 public:
  LibraryClient(const PmixLibrary& library, const pmix_proc_t& self) : library_(library), self_(self) {}
  LibraryClient(const LibraryClient&) = delete;
  LibraryClient& operator=(const LibraryClient&) = delete;
  ~LibraryClient() override { library_.finalize(nullptr, 0); }

  std::uint32_t rank() const override { return self_.rank; }
  std::string name_space() const override { return self_.nspace; }

  Result<std::uint32_t> fact(PmixFact which) override {
    const Attribute attribute = attribute_of(which);
    constexpr pmix_rank_t kWholeJob = (PMIX_RANK_WILDCARD);
    ASSIGN_OR_RETURN(const Value value, look_up(attribute.of_job ? kWholeJob : self_.rank, attribute.key));
    if (const auto number = to_number(*value)) {
      return *number;
    }
    return fail("PMIx", attribute.key, "is not a number", "reporting it, with the output of srun --mpi=list",
                ErrorKind::Unavailable);
  }

  Result<std::string> host_of(std::uint32_t of_rank) override {
    ASSIGN_OR_RETURN(const Value value, look_up(of_rank, PMIX_HOSTNAME));
    return value->type == PMIX_STRING ? to_text(value->data.string) : no_text(PMIX_HOSTNAME);
  }

  Result<void> put(const std::string& key, const std::string& text) override {
    pmix_value_t value{};
    value.type = PMIX_STRING;
    value.data.string = const_cast<char*>(text.c_str());  // PMIx_Put copies it
    return check(library_.put(PMIX_GLOBAL, key.c_str(), &value), "PMIx_Put " + key);
  }

  Result<void> fence(std::chrono::duration<double> limit) override {
    RETURN_IF_ERROR(check(library_.commit(), "PMIx_Commit"));
    const auto answer = std::make_shared<PmixAnswer>();
    const pmix_status_t begun =
        library_.fence_nb(nullptr, 0, answer->collect_data(), 1, on_pmix_fence, answer->for_callback());
    const std::optional<pmix_status_t> ended = answer->wait(begun, limit);
    return ended ? check(*ended, "PMIx_Fence") : late("PMIx_Fence", "a rank did not arrive", limit);
  }

  Result<std::string> get(std::uint32_t of_rank, const std::string& key, std::chrono::duration<double> limit) override {
    pmix_proc_t process = self_;
    process.rank = of_rank;
    const auto answer = std::make_shared<PmixAnswer>();
    const pmix_status_t begun =
        library_.get_nb(&process, key.c_str(), nullptr, 0, on_pmix_value, answer->for_callback());
    const std::optional<pmix_status_t> ended = answer->wait(begun, limit);
    if (!ended) {
      return late("PMIx_Get " + key, "got no answer", limit);
    }
    const Result<void> got = check(*ended, "PMIx_Get " + key);
    return got ? to_text(answer->text()) : got.error();
  }

 private:
  static Error no_text(const std::string& key) {
    return fail("PMIx", key, "is not a text", "installing one version of rollcall for all ranks", ErrorKind::Mismatch);
  }

  static Result<std::string> to_text(const char* text) {
    return text != nullptr ? Result<std::string>(std::string(text)) : no_text("value");
  }

  static Error late(const std::string& call, const std::string& what, std::chrono::duration<double> limit) {
    return fail("PMIx", call, fmt::format("{} within {:g} s", what, limit.count()),
                "looking at the ranks that ended early, or raising rendezvous.timeout", ErrorKind::Unavailable);
  }

  Result<void> check(pmix_status_t status, const std::string& call) const {
    if (status == PMIX_SUCCESS) {
      return {};
    }
    return fail("PMIx", call, library_.error_string(status), "srun --mpi=pmix, or --rendezvous=address",
                ErrorKind::Unavailable);
  }

  Result<Value> look_up(pmix_rank_t of_rank, const char* key) {
    pmix_proc_t process = self_;
    process.rank = of_rank;
    pmix_value_t* raw = nullptr;
    RETURN_IF_ERROR(check(library_.get(&process, key, nullptr, 0, &raw), std::string("PMIx_Get ") + key));
    if (raw == nullptr) {
      return fail("PMIx", key, "has no value", "srun --mpi=pmix, or --rendezvous=address", ErrorKind::Unavailable);
    }
    return Value(raw);
  }

  PmixLibrary library_;
  pmix_proc_t self_;
};

}  // namespace

bool has_pmix() { return true; }

Result<std::unique_ptr<PmixClient>> open_pmix() {
  ASSIGN_OR_RETURN(const PmixLibrary library, load_pmix_library());
  pmix_proc_t self{};
  const pmix_status_t status = library.init(&self, nullptr, 0);
  if (status != PMIX_SUCCESS) {
    return fail("PMIx", "PMIx_Init", library.error_string(status), "srun --mpi=pmix", ErrorKind::Unavailable);
  }
  return std::unique_ptr<PmixClient>(std::make_unique<LibraryClient>(library, self));
}

#else

bool has_pmix() { return false; }

Result<std::unique_ptr<PmixClient>> open_pmix() {
  return fail("PMIx", "", "this rollcall was built without PMIx's headers",
              "building it with libpmix-dev, or --rendezvous=address", ErrorKind::Unavailable);
}

#endif  // ROLLCALL_HAVE_PMIX

}  // namespace rollcall::launchers
