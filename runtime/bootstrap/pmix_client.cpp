#include "runtime/bootstrap/pmix_client.h"

#include <fmt/format.h>

#include <cstdlib>
#include <limits>
#include <optional>

#include "runtime/bootstrap/pmix_answer.h"
#include "runtime/bootstrap/pmix_shim.h"

namespace rollcall::bootstrap {

#ifdef ROLLCALL_HAVE_PMIX

namespace {

/// A value from PMIx_Get, freed as PMIX_VALUE_RELEASE does for the types that are asked for here.
struct FreeValue {
  void operator()(pmix_value_t* value) const {
    if (value->type == PMIX_STRING) {
      std::free(value->data.string);
    }
    std::free(value);
  }
};
using Value = std::unique_ptr<pmix_value_t, FreeValue>;

/// PMIx's attributes differ in width between servers (PMIX_LOCAL_RANK is uint16, PMIX_JOB_SIZE uint32).
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
  bool of_job;  ///< asked of the whole job (PMIX_RANK_WILDCARD), not of this process
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
    const Result<Value> value = look_up(attribute.of_job ? kWholeJob : self_.rank, attribute.key);
    if (!value) {
      return value.error();
    }
    if (const auto number = to_number(**value)) {
      return *number;
    }
    return fail("PMIx", attribute.key, "is no number", "reporting it, with srun --mpi=list", ExitCode::Unavailable);
  }

  Result<std::string> host_of(std::uint32_t of_rank) override {
    const Result<Value> value = look_up(of_rank, PMIX_HOSTNAME);
    if (!value) {
      return value.error();
    }
    return (*value)->type == PMIX_STRING ? to_text((*value)->data.string) : no_text(PMIX_HOSTNAME);
  }

  Result<void> put(const std::string& key, const std::string& text) override {
    pmix_value_t value{};
    value.type = PMIX_STRING;
    value.data.string = const_cast<char*>(text.c_str());  // PMIx_Put copies it
    return check(library_.put(PMIX_GLOBAL, key.c_str(), &value), "PMIx_Put " + key);
  }

  Result<void> fence(std::chrono::duration<double> limit) override {
    if (Result<void> committed = check(library_.commit(), "PMIx_Commit"); !committed) {
      return committed;
    }
    const auto answer = std::make_shared<PmixAnswer>();
    const pmix_status_t begun =
        library_.fence_nb(nullptr, 0, answer->collect_data(), 1, on_pmix_fence, answer->for_callback());
    const std::optional<pmix_status_t> ended = answer->wait(begun, limit);
    return ended ? check(*ended, "PMIx_Fence") : late("PMIx_Fence", "a rank did not come", limit);
  }

  Result<std::string> get(std::uint32_t of_rank, const std::string& key, std::chrono::duration<double> limit) override {
    pmix_proc_t process = self_;
    process.rank = of_rank;
    const auto answer = std::make_shared<PmixAnswer>();
    const pmix_status_t begun =
        library_.get_nb(&process, key.c_str(), nullptr, 0, on_pmix_value, answer->for_callback());
    const std::optional<pmix_status_t> ended = answer->wait(begun, limit);
    if (!ended) {
      return late("PMIx_Get " + key, "no answer came", limit);
    }
    const Result<void> got = check(*ended, "PMIx_Get " + key);
    return got ? to_text(answer->text()) : got.error();
  }

 private:
  static Error no_text(const std::string& key) {
    return fail("PMIx", key, "is no text", "the same rollcall on all ranks", ExitCode::Mismatch);
  }

  static Result<std::string> to_text(const char* text) {
    return text != nullptr ? Result<std::string>(std::string(text)) : no_text("value");
  }

  static Error late(const std::string& call, const std::string& what, std::chrono::duration<double> limit) {
    return fail("PMIx", call, fmt::format("{} within {:g} s", what, limit.count()),
                "looking at the ranks that ended early, or a longer rendezvous.timeout", ExitCode::Unavailable);
  }

  Result<void> check(pmix_status_t status, const std::string& call) const {
    if (status == PMIX_SUCCESS) {
      return {};
    }
    return fail("PMIx", call, library_.error_string(status), "srun --mpi=pmix, or rendezvous=address",
                ExitCode::Unavailable);
  }

  Result<Value> look_up(pmix_rank_t of_rank, const char* key) {
    pmix_proc_t process = self_;
    process.rank = of_rank;
    pmix_value_t* raw = nullptr;
    const Result<void> got = check(library_.get(&process, key, nullptr, 0, &raw), std::string("PMIx_Get ") + key);
    if (!got) {
      return got.error();
    }
    if (raw == nullptr) {
      return fail("PMIx", key, "has no value", "srun --mpi=pmix, or rendezvous=address", ExitCode::Unavailable);
    }
    return Value(raw);
  }

  PmixLibrary library_;
  pmix_proc_t self_;
};

}  // namespace

Result<std::unique_ptr<PmixClient>> open_pmix() {
  const Result<PmixLibrary> library = load_pmix_library();
  if (!library) {
    return library.error();
  }
  pmix_proc_t self{};
  const pmix_status_t status = library->init(&self, nullptr, 0);
  if (status != PMIX_SUCCESS) {
    return fail("PMIx", "PMIx_Init", library->error_string(status), "srun --mpi=pmix", ExitCode::Unavailable);
  }
  return std::unique_ptr<PmixClient>(std::make_unique<LibraryClient>(*library, self));
}

#else

Result<std::unique_ptr<PmixClient>> open_pmix() {
  return fail("PMIx", "", "this rollcall was built without PMIx's headers",
              "a build with libpmix-dev, or rendezvous=address", ExitCode::Unavailable);
}

#endif  // ROLLCALL_HAVE_PMIX

}  // namespace rollcall::bootstrap
