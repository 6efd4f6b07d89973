#include "trainer/train/lease.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <algorithm>

#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <set>
#include <span>
#include <system_error>
#include <thread>
#include <utility>

#include "runtime/base/child_process.h"
#include "runtime/base/small_file.h"
#include "runtime/base/text.h"
#include "runtime/base/this_process.h"
#include "runtime/contract/env_vars.h"
#include "runtime/job/job_facts.h"
#include "trainer/storage/file.h"

namespace rollcall::train {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFileName = "lease.json";
constexpr std::size_t kMostBytes = 4096;
constexpr std::chrono::milliseconds kLook{500};        ///< between two looks at another's lease
constexpr std::chrono::seconds kPatienceWithSlurm{5};  ///< with a controller that does not answer
constexpr std::chrono::seconds kPatienceAtEnd{2};      ///< with a file system that stands still

/// Who has a lease.
struct Holder {
  std::string nonce;  ///< no other holder's
  std::string host;
  std::string boot;       ///< of the kernel: a host's name may be that of many containers
  std::string processes;  ///< the namespace that `pid` counts in
  std::int64_t pid = 0;
  std::string started;  ///< of the process, in the kernel's ticks: numbers of processes are used again
  std::string cluster;  ///< Slurm's name of it: another one counts its jobs by itself
  std::string job;      ///< Slurm's; empty: none
  std::string restarts;
};

std::string content_of(const std::string& path) {
  std::string content;
  return read_small_file(path, kMostBytes, content).reason.empty() ? content : std::string();
}

/// The fields of /proc/PID/stat behind the name, which may hold anything: the state comes first (proc(5)).
std::vector<std::string> process_fields(std::int64_t pid) {
  const std::string text = content_of(fmt::format("/proc/{}/stat", pid));
  const std::size_t name_end = text.rfind(") ");
  return name_end == std::string::npos ? std::vector<std::string>() : split(text.substr(name_end + 2), ' ');
}

/// Field 22 of /proc/PID/stat; empty where no such process runs any more.
std::string start_of(std::int64_t pid) {
  constexpr std::size_t kState = 0;
  constexpr std::size_t kStart = 22 - 3;
  const std::vector<std::string> fields = process_fields(pid);
  const bool runs = fields.size() > kStart && fields[kState] != "Z" && fields[kState] != "X";
  return runs ? fields[kStart] : "";
}

std::string target_of(const char* link) {
  std::error_code ignored;
  return fs::read_symlink(link, ignored).string();
}

Holder this_run(const Environment& environment) {
  std::random_device random;
  return {.nonce = fmt::format("{:08x}{:08x}", random(), random()),
          .host = this_host_name(),
          .boot = std::string(trim(content_of("/proc/sys/kernel/random/boot_id"))),
          .processes = target_of("/proc/self/ns/pid"),
          .pid = ::getpid(),
          .started = start_of(::getpid()),
          .cluster = environment.get_non_empty(env::kSlurmClusterName).value_or(""),
          .job = job::job_name_for_slurm(environment),
          .restarts = environment.get_non_empty(env::kSlurmRestartCount).value_or("0")};
}

std::string to_json(const Holder& holder) {
  const nlohmann::ordered_json json{
      {"nonce", holder.nonce},         {"host", holder.host}, {"boot", holder.boot},
      {"processes", holder.processes}, {"pid", holder.pid},   {"started", holder.started},
      {"cluster", holder.cluster},     {"job", holder.job},   {"restarts", holder.restarts}};
  return json.dump(2) + "\n";
}

/// Of a file that is none of ours, or half written by one who died: a holder of whom nothing is known.
Holder from_json(const std::string& text) {
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
  Holder holder;
  if (!json.is_object()) {
    return holder;
  }
  const auto take = [&](const char* name, std::string& into) {
    if (const auto value = json.find(name); value != json.end() && value->is_string()) {
      into = printable(value->get<std::string>());
    }
  };
  take("nonce", holder.nonce);
  take("host", holder.host);
  take("boot", holder.boot);
  take("processes", holder.processes);
  take("started", holder.started);
  take("cluster", holder.cluster);
  take("job", holder.job);
  take("restarts", holder.restarts);
  if (const auto pid = json.find("pid"); pid != json.end() && pid->is_number_integer()) {
    holder.pid = pid->get<std::int64_t>();
  }
  return holder;
}

std::string text_of(const Holder& holder) {
  const std::string process = fmt::format("process {} on {}", holder.pid, holder.host.empty() ? "?" : holder.host);
  return holder.job.empty() ? process : fmt::format("job {}, {}", holder.job, process);
}

enum class Standing { Dead, Alive, Unknown };

/// What the kernel says, where it is the same one.
Standing by_kernel(const Holder& holder, const Holder& self) {
  if (holder.boot.empty() || holder.boot != self.boot || holder.processes != self.processes) {
    return Standing::Unknown;
  }
  const std::string started = start_of(holder.pid);
  if (started.empty()) {  // it is gone, or another user's, whom /proc with hidepid does not show
    return ::kill(static_cast<pid_t>(holder.pid), 0) != 0 && errno == ESRCH ? Standing::Dead : Standing::Unknown;
  }
  return started == holder.started ? Standing::Alive : Standing::Dead;
}

/// A job that Slurm has started again has ended before. A process that outlived its start does not take the folder from
/// a later one.
bool is_earlier_start(const Holder& holder, const Holder& self) {
  const auto theirs = parse_integer<std::uint64_t>(holder.restarts);
  const auto ours = parse_integer<std::uint64_t>(self.restarts);
  return !holder.job.empty() && holder.job == self.job && holder.cluster == self.cluster && theirs && ours &&
         *theirs < *ours;
}

/// "12", or "12_3" of an element of an array. Anybody may have written it.
bool is_job_name(const std::string& text) {
  const std::size_t line = text.find('_');
  return parse_integer<std::uint64_t>(text.substr(0, line)) &&
         (line == std::string::npos || parse_integer<std::uint64_t>(text.substr(line + 1)));
}

/// What Slurm says: squeue(1) lists jobs that have not ended, and refuses a number that it does not know any more.
Standing by_slurm(const Holder& holder, const Holder& self, const Environment& environment) {
  if (!is_job_name(holder.job) || holder.cluster != self.cluster || holder.job == self.job) {
    return Standing::Unknown;
  }
  const Result<ChildOutput> asked = run_and_capture({"squeue", "--noheader", "--format=%T", "--jobs=" + holder.job},
                                                    environment, {.patience = kPatienceWithSlurm, .alone = true});
  if (!asked || asked->killed) {
    return Standing::Unknown;
  }
  if (asked->exit_code != 0) {
    return asked->text.find("Invalid job id") != std::string::npos ? Standing::Dead : Standing::Unknown;
  }
  const std::string_view state = trim(asked->text);
  if (state.empty() || state == "PENDING") {  // it has ended, or is to begin once more
    return Standing::Dead;
  }
  return state == "SUSPENDED" || state == "STOPPED" ? Standing::Alive : Standing::Unknown;
}

/// When it was renewed; nothing where it is gone. Opened, since a network file system looks at its server then.
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
              "making its folder writable, or another " + folder.setting, ExitCode::CannotCreate);
}

Error held(const Lease::Folder& folder, const Holder& holder) {
  return fail(folder.setting, folder.path, text_of(holder) + " writes there",
              "waiting until that has ended, or another --run-name or " + folder.setting, ExitCode::CannotCreate);
}

/// Whether the file was made: it is there already where not. One who dies before it is written leaves an empty one.
Result<bool> create(const Lease::Folder& folder, const Holder& self) {
  const std::string path = file_in(folder);
  const storage::File file(path, O_WRONLY | O_CREAT | O_EXCL);
  if (!file) {
    return errno == EEXIST ? Result<bool>(false) : cannot_create(folder, errno);
  }
  const std::string text = to_json(self);
  if (!file.write_at(std::as_bytes(std::span(text)), 0)) {
    const int code = errno;
    ::unlink(path.c_str());
    return cannot_create(folder, code);
  }
  return true;
}

/// Takes a dead holder's file away; of several runs that try, one does. What turns out to be a new holder's comes back.
void remove_dead(const std::string& path, const Holder& holder, const Holder& self) {
  const std::string away = path + ".dead-" + self.nonce;
  if (std::rename(path.c_str(), away.c_str()) != 0) {
    return;
  }
  if (from_json(content_of(away)).nonce == holder.nonce || std::rename(away.c_str(), path.c_str()) != 0) {
    ::unlink(away.c_str());
  }
}

/// A look at another one's lease, and what has been seen of it so far.
class Watch {
 public:
  Watch(std::string path, const Holder& self, const Environment& environment)
      : path_(std::move(path)), self_(self), environment_(environment) {}

  /// How the holder stands, as far as is known by now. Where the waiting is `over`, Unknown means that renewals
  /// have come and one is overdue: one more, or three that do not come, decide. Slurm may not know a job that lives
  /// (PrivateData hides it), so its word counts only where nothing is renewed.
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
    Holder holder = from_json(content_of(path_));
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
  std::chrono::steady_clock::time_point last_sign_;  ///< a renewal, or that it was first seen
  std::optional<timespec> time_;
  bool renewals_ = false;                ///< seen
  std::optional<Standing> slurms_word_;  ///< asked for where no renewal came, once
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

  /// The thread's: it keeps the state alive by itself, as a file system that stands still may hold it for ever.
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

  [[nodiscard]] bool is_own(const std::string& path) const { return from_json(content_of(path)).nonce == nonce; }

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

  /// Whether the file, of folder `number`, says that it is this run's; notes where it is another's, or was and is gone.
  bool look(const std::string& path, std::size_t number) {
    std::string content;
    FileReading reading = read_small_file(path, kMostBytes, content);
    if (reading.error_number == ENOENT) {  // or is put back this moment: see remove_dead()
      std::this_thread::sleep_for(kLook);
      content.clear();
      reading = read_small_file(path, kMostBytes, content);
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
  return fail(folder.setting, folder.path, "another run writes there, which took this one for dead",
              "looking why this one stood still for so long, or a longer --lease-timeout of the other",
              ExitCode::CannotCreate);
}

bool Lease::lost() const { return state_->lost; }

bool Lease::lost_by_now() const {
  state_->look();
  return state_->lost;
}

Error Lease::taken_over() const { return train::taken_over(state_->held_folders()[state_->lost_folder]); }

namespace {

/// Waits at most `patience` for one folder. `dead`: holders of whom that is known; one that is found out is added.
Result<void> take_folder(const Lease::Folder& folder, const Holder& self, const Environment& environment,
                         std::chrono::duration<double> patience, const std::function<void(const std::string&)>& say,
                         std::set<std::string>& dead) {
  const std::string path = file_in(folder);
  const auto begin = std::chrono::steady_clock::now();
  Watch watch(path, self, environment);
  bool told = false;
  while (true) {
    const Result<bool> created = create(folder, self);
    if (!created) {
      return created.error();
    }
    if (*created) {
      return {};
    }
    const bool over = std::chrono::steady_clock::now() - begin >= patience;
    const Standing standing = watch.look(over);
    if (standing == Standing::Dead || dead.contains(watch.holder().nonce)) {
      dead.insert(watch.holder().nonce);
      remove_dead(path, watch.holder(), self);
      continue;
    }
    if (over && standing == Standing::Alive) {
      return held(folder, watch.holder());
    }
    if (!std::exchange(told, true)) {
      say(fmt::format("{}: {} writes there; waiting up to {:.0f} s for its end, or for it to give no sign of life",
                      folder.path, text_of(watch.holder()), patience.count()));
    }
    std::this_thread::sleep_for(kLook);
  }
}

}  // namespace

Result<Lease> Lease::take(const std::vector<Folder>& folders, const Environment& environment,
                          std::chrono::duration<double> patience, const std::function<void(const std::string&)>& say) {
  const Holder self = this_run(environment);
  auto state = std::make_shared<State>();
  state->nonce = self.nonce;
  Lease lease(state);  // renews what is held while the next one is waited for
  const auto begin = std::chrono::steady_clock::now();
  std::set<std::string> dead;
  for (const Folder& folder : folders) {
    const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - begin;
    if (Result<void> taken =
            take_folder(folder, self, environment, std::max(patience - waited, 0 * patience), say, dead);
        !taken) {
      return taken.error();
    }
    state->add(folder);
  }
  return lease;
}

}  // namespace rollcall::train
