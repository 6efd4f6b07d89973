#include "trainer/train/run_folder/lease.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <algorithm>

#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstdio>
#include <filesystem>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <system_error>
#include <thread>
#include <utility>

#include "runtime/base/owned_file.h"
#include "runtime/base/small_file.h"
#include "runtime/base/text.h"
#include "trainer/storage/file.h"
#include "trainer/train/run_folder/lease_holder.h"

namespace rollcall::train {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFileName = "lease.json";
constexpr std::size_t kMostLeaseBytes = 4096;
constexpr std::chrono::milliseconds kPollInterval{500};  ///< interval between two looks at another run's lease
constexpr std::chrono::seconds kPatienceAtEnd{2};        ///< limit for a file system that does not respond

/// Returns the time of its last renewal; nothing if it does not exist. Opens the file, because a network file system
/// then asks its server.
std::optional<timespec> renewed(const std::string& path) {
  const storage::File file(path, O_RDONLY | O_NONBLOCK);
  struct stat status {};
  return file && ::fstat(file.descriptor(), &status) == 0 ? std::optional(status.st_mtim) : std::nullopt;
}

bool same_time(const std::optional<timespec>& a, const std::optional<timespec>& b) {
  return a && b && a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

std::string file_in(const Lease::Folder& folder) { return (fs::path(folder.path) / kFileName).string(); }

Error cannot_create(const Lease::Folder& folder, int code) {
  return fail(folder.setting, file_in(folder), "cannot be created: " + errno_text(code),
              what_to_try(code, "setting " + folder.setting + " to another folder"), ErrorKind::CannotCreate);
}

Error held(const Lease::Folder& folder, const Holder& holder) {
  return fail(folder.setting, folder.path, text_of(holder) + " writes there",
              "waiting until it has ended, or changing --run-name or " + folder.setting, ErrorKind::CannotCreate);
}

/// Creates the file; returns false if it exists. A process that dies before the file is written leaves an empty one.
Result<bool> create(const Lease::Folder& folder, const Holder& self) {
  const std::string path = file_in(folder);
  const storage::File file(path, O_WRONLY | O_CREAT | O_EXCL);
  if (!file) {
    return errno == EEXIST ? Result<bool>(false) : cannot_create(folder, errno);
  }
  const std::string text = to_json(self);
  // NFS reports a full disk only here. An empty file has no holder, and a second run would consider it dead.
  if (!file.write_at(std::as_bytes(std::span(text)), 0) || !file.sync(storage::Cached::Keep)) {
    const int code = errno;
    struct stat own {};
    struct stat there {};
    // Another run may have considered it dead while the server did not respond.
    if (fstat(file.descriptor(), &own) == 0 && stat(path.c_str(), &there) == 0 && own.st_ino == there.st_ino) {
      ::unlink(path.c_str());
    }
    return cannot_create(folder, code);
  }
  return true;
}

/// Removes a dead holder's file; of several runs that try, one succeeds. A file that turns out to be a new holder's is
/// restored. Errors (CannotCreate): it cannot be renamed, for instance as another user's in a sticky folder.
Result<void> remove_dead(const Lease::Folder& folder, const Holder& holder, const Holder& self) {
  const std::string path = file_in(folder);
  const std::string away = path + ".dead-" + self.nonce;
  if (std::rename(path.c_str(), away.c_str()) != 0) {
    const int code = errno;
    return code == ENOENT ? Result<void>()
                          : fail(folder.setting, path,
                                 "is of a run that has ended, but cannot be removed: " + why_refused(path, code),
                                 "having its owner remove it, or setting " + folder.setting + " to another folder",
                                 ErrorKind::CannotCreate);
  }
  if (from_json(content_of(away, kMostLeaseBytes)).nonce == holder.nonce ||
      std::rename(away.c_str(), path.c_str()) != 0) {
    ::unlink(away.c_str());
  }
  return {};
}

/// Watches another run's lease and keeps what has been seen of it.
class Watch {
 public:
  Watch(std::string path, const Holder& self, const Environment& environment)
      : path_(std::move(path)), self_(self), environment_(environment) {}

  /// Returns the state of the holder as far as it is known by now. After the waiting is `over`, Unknown means that
  /// renewals were seen and one is overdue: one more, or three that do not come, decide. Slurm may not show a running
  /// job (PrivateData hides it), so its answer counts only if nothing is renewed.
  [[nodiscard]] Standing look(bool over) {
    take_in();
    const Standing known = is_earlier_start(*holder_, self_) ? Standing::Dead : by_kernel(*holder_, self_);
    if (known != Standing::Unknown) {
      return known;
    }
    const auto quiet = std::chrono::steady_clock::now() - last_sign_;
    if (quiet <= Lease::kRenewal + std::chrono::seconds(1)) {
      return over ? Standing::Alive : Standing::Unknown;
    }
    if (!slurms_word_) {
      slurms_word_ = by_slurm(*holder_, self_, environment_);
    }
    if (slurms_word_ == Standing::Dead && !renewals_) {
      return Standing::Dead;
    }
    if (!over) {
      return Standing::Unknown;
    }
    if (slurms_word_ == Standing::Alive) {
      return Standing::Alive;
    }
    if (quiet >= 3 * Lease::kRenewal) {
      return Standing::Dead;
    }
    return renewals_ ? Standing::Unknown : Standing::Alive;
  }

  [[nodiscard]] const Holder& holder() const { return *holder_; }

 private:
  void take_in() {
    Holder holder = from_json(content_of(path_, kMostLeaseBytes));
    const auto time = renewed(path_);
    if (!holder_ || holder.nonce != holder_->nonce) {
      holder_ = std::move(holder);
      note_sign(false);
    } else if (!same_time(time, time_)) {
      note_sign(true);
    }
    time_ = time;
  }

  void note_sign(bool renewal) {
    last_sign_ = std::chrono::steady_clock::now();
    renewals_ = renewal;
    slurms_word_.reset();
  }

  std::string path_;
  const Holder& self_;
  const Environment& environment_;
  std::optional<Holder> holder_;
  std::chrono::steady_clock::time_point last_sign_;  ///< time of the last renewal, or when it was first seen
  std::optional<timespec> time_;
  bool renewals_ = false;                ///< renewals were seen
  std::optional<Standing> slurms_word_;  ///< Slurm's answer, asked once if no renewal comes
};

}  // namespace

struct Lease::State {
  std::string nonce;
  std::vector<Folder> folders;  ///< with `mutex`
  std::atomic<std::size_t> lost_folder = 0;
  std::atomic<bool> lost = false;
  std::mutex mutex;
  std::condition_variable changed;
  bool ending = false;
  bool ended = false;

  /// Runs in the thread. The thread keeps the state alive, because a file system that does not respond may block it for
  /// ever.
  void renew_until_ending() {
    std::unique_lock lock(mutex);
    while (!changed.wait_for(lock, kRenewal, [this] { return ending; })) {
      lock.unlock();
      renew();
      lock.lock();
    }
    lock.unlock();
    for (const Folder& folder : held_folders()) {
      if (is_own(file_in(folder))) {
        ::unlink(file_in(folder).c_str());
      }
    }
    lock.lock();
    ended = true;
    changed.notify_all();
  }

  [[nodiscard]] std::vector<Folder> held_folders() {
    const std::scoped_lock lock(mutex);
    return folders;
  }

  void add(const Folder& folder) {
    const std::scoped_lock lock(mutex);
    folders.push_back(folder);
  }

  [[nodiscard]] bool is_own(const std::string& path) const {
    return from_json(content_of(path, kMostLeaseBytes)).nonce == nonce;
  }

  void renew() {
    const std::vector<Folder> held = held_folders();
    for (std::size_t i = 0; i < held.size(); ++i) {
      if (look(file_in(held[i]), i)) {
        (void)::utimensat(AT_FDCWD, file_in(held[i]).c_str(), nullptr, AT_SYMLINK_NOFOLLOW);
      }
    }
  }

  void look() {
    const std::vector<Folder> held = held_folders();
    for (std::size_t i = 0; i < held.size(); ++i) {
      (void)look(file_in(held[i]), i);
    }
  }

  /// Returns whether the file of folder `number` names this run; records the loss if it names another run, or existed
  /// and is gone.
  bool look(const std::string& path, std::size_t number) {
    std::string content;
    FileReading reading = read_small_file(path, kMostLeaseBytes, content);
    if (reading.error_number == ENOENT) {  // or another run is restoring it: see remove_dead()
      std::this_thread::sleep_for(kPollInterval);
      content.clear();
      reading = read_small_file(path, kMostLeaseBytes, content);
    }
    const bool own = reading.reason.empty() && from_json(content).nonce == nonce;
    if (reading.error_number == ENOENT || (!content.empty() && !own)) {
      lost_folder = number;
      lost = true;
    }
    return own;
  }
};

Lease::Lease(std::shared_ptr<State> state) : state_(std::move(state)) {
  std::thread([state = state_] { state->renew_until_ending(); }).detach();
}

Lease::Lease(Lease&&) noexcept = default;
Lease& Lease::operator=(Lease&&) noexcept = default;

Lease::~Lease() {
  if (state_ == nullptr) {
    return;
  }
  std::unique_lock lock(state_->mutex);
  state_->ending = true;
  state_->changed.notify_all();
  (void)state_->changed.wait_for(lock, kPatienceAtEnd, [this] { return state_->ended; });
}

Error taken_over(const Lease::Folder& folder) {
  return fail(folder.setting, folder.path, "another run, which considered this one dead, writes there now",
              "finding out why this run did not respond for so long, or raising the other run's --lease-timeout",
              ErrorKind::CannotCreate);
}

bool Lease::lost() const { return state_->lost; }

bool Lease::lost_by_now() const {
  state_->look();
  return state_->lost;
}

Error Lease::taken_over() const { return train::taken_over(state_->held_folders()[state_->lost_folder]); }

namespace {

/// Waits at most `patience` for one folder. `dead`: holders that are known to be dead; newly found ones are added.
Result<void> take_folder(const Lease::Folder& folder, const Holder& self, const Environment& environment,
                         std::chrono::duration<double> patience, const std::function<void(const std::string&)>& say,
                         std::set<std::string>& dead) {
  const std::string path = file_in(folder);
  const auto begin = std::chrono::steady_clock::now();
  Watch watch(path, self, environment);
  bool reported = false;
  while (true) {
    ASSIGN_OR_RETURN(const bool created, create(folder, self));
    if (created) {
      return {};
    }
    const bool over = std::chrono::steady_clock::now() - begin >= patience;
    const Standing standing = watch.look(over);
    if (standing == Standing::Dead || dead.contains(to_json(watch.holder()))) {
      if (!watch.holder().nonce.empty()) {  // a lease that is being written has no nonce yet
        dead.insert(to_json(watch.holder()));
      }
      RETURN_IF_ERROR(remove_dead(folder, watch.holder(), self));
      continue;
    }
    if (over && standing == Standing::Alive) {
      return held(folder, watch.holder());
    }
    if (!std::exchange(reported, true)) {
      say(fmt::format("{}: {} writes there; waiting up to {:.0f} s until it ends or is found dead", folder.path,
                      text_of(watch.holder()), patience.count()));
    }
    std::this_thread::sleep_for(kPollInterval);
  }
}

}  // namespace

Result<Lease> Lease::take(const std::vector<Folder>& folders, const Environment& environment,
                          std::chrono::duration<double> patience, const std::function<void(const std::string&)>& say) {
  const Holder self = this_run(environment);
  auto state = std::make_shared<State>();
  state->nonce = self.nonce;
  Lease lease(state);  // renews the leases held while it waits for the next one
  const auto begin = std::chrono::steady_clock::now();
  std::set<std::string> dead;
  for (const Folder& folder : folders) {
    const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - begin;
    RETURN_IF_ERROR(take_folder(folder, self, environment, std::max(patience - waited, 0 * patience), say, dead));
    state->add(folder);
  }
  return lease;
}

}  // namespace rollcall::train
