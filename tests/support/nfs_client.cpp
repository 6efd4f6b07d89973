// For LD_PRELOAD: what the Linux NFS client of one host does with the pages of a file that other hosts write to as
// well, each process being a host. A partial write reads the page where it is not there yet; the page is written back
// whole, with fsync(2) or close(2), whatever the server has meanwhile; opening a file forgets what is unchanged
// (nfs(5), close-to-open). What is opened with O_DIRECT is read and written past the pages, at any offset. Files below
// $NFS_FOLDER only.
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdarg>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <string>

#define EXPORTED extern "C" __attribute__((visibility("default")))

namespace {

constexpr off_t kPage = 4096;

struct Page {
  std::array<char, kPage> bytes{};
  bool changed = false;
};

using Pages = std::map<off_t, Page>;

struct Client {
  std::recursive_mutex mutex;
  std::map<ino_t, Pages> pages;
  std::set<int> direct;  ///< descriptors
};

Client& client() {
  static Client& one = *new Client;  // there to the very end
  return one;
}

template <typename Function>
Function next(const char* name) {
  return reinterpret_cast<Function>(::dlsym(RTLD_NEXT, name));
}

ssize_t server_write(int descriptor, const void* bytes, std::size_t count, off_t offset) {
  static const auto call = next<ssize_t (*)(int, const void*, std::size_t, off_t)>("pwrite64");
  return call(descriptor, bytes, count, offset);
}

ssize_t server_read(int descriptor, void* bytes, std::size_t count, off_t offset) {
  static const auto call = next<ssize_t (*)(int, void*, std::size_t, off_t)>("pread64");
  return call(descriptor, bytes, count, offset);
}

/// 0: not a file on the server.
ino_t number_of(int descriptor) {
  static const char* const folder = std::getenv("NFS_FOLDER");
  std::array<char, 4096> path{};
  const std::string link = "/proc/self/fd/" + std::to_string(descriptor);
  struct stat facts {};
  const bool there = folder != nullptr && ::readlink(link.c_str(), path.data(), path.size() - 1) > 0 &&
                     std::strncmp(path.data(), folder, std::strlen(folder)) == 0 && ::fstat(descriptor, &facts) == 0 &&
                     S_ISREG(facts.st_mode);
  return there ? facts.st_ino : 0;
}

void write_back(int descriptor, Pages& pages) {
  struct stat facts {};
  ::fstat(descriptor, &facts);
  for (auto& [begin, page] : pages) {
    if (page.changed && begin < facts.st_size) {
      server_write(descriptor, page.bytes.data(), static_cast<std::size_t>(std::min(kPage, facts.st_size - begin)),
                   begin);
    }
    page.changed = false;
  }
}

Page& page_at(int descriptor, Pages& pages, off_t begin) {
  const auto found = pages.find(begin);
  if (found != pages.end()) {
    return found->second;
  }
  Page& page = pages[begin];
  server_read(descriptor, page.bytes.data(), kPage, begin);
  return page;
}

ssize_t write_pages(int descriptor, Pages& pages, const char* bytes, std::size_t count, off_t offset) {
  const off_t end = offset + static_cast<off_t>(count);
  struct stat facts {};
  ::fstat(descriptor, &facts);
  if (end > facts.st_size && ::ftruncate(descriptor, end) != 0) {
    return -1;
  }
  for (off_t at = offset; at < end;) {
    const off_t begin = at / kPage * kPage;
    const off_t stop = std::min(begin + kPage, end);
    Page& page = page_at(descriptor, pages, begin);
    std::memcpy(page.bytes.data() + (at - begin), bytes + (at - offset), static_cast<std::size_t>(stop - at));
    page.changed = true;
    at = stop;
  }
  return static_cast<ssize_t>(count);
}

ssize_t read_pages(int descriptor, const Pages& pages, char* bytes, std::size_t count, off_t offset) {
  const ssize_t got = server_read(descriptor, bytes, count, offset);
  for (const auto& [begin, page] : pages) {
    const off_t from = std::max(begin, offset);
    const off_t to = std::min(begin + kPage, offset + std::max<ssize_t>(got, 0));
    if (from < to) {
      std::memcpy(bytes + (from - offset), page.bytes.data() + (from - begin), static_cast<std::size_t>(to - from));
    }
  }
  return got;
}

int open_file(const char* path, int flags, mode_t mode) {
  static const auto call = next<int (*)(const char*, int, ...)>("open64");
  const int descriptor = call(path, flags & ~O_DIRECT, mode);
  const ino_t number = descriptor >= 0 ? number_of(descriptor) : 0;
  const std::lock_guard lock(client().mutex);
  if (number == 0 && (flags & O_DIRECT) != 0 && descriptor >= 0) {
    static const auto close_it = next<int (*)(int)>("close");
    close_it(descriptor);
    return call(path, flags, mode);
  }
  if (number != 0) {
    if ((flags & O_DIRECT) != 0 && std::getenv("NFS_REFUSES_DIRECT") != nullptr) {
      ::close(descriptor);
      errno = EINVAL;
      return -1;
    }
    if ((flags & O_DIRECT) != 0) {
      client().direct.insert(descriptor);
    }
    std::erase_if(client().pages[number], [](const auto& entry) { return !entry.second.changed; });
  }
  return descriptor;
}

bool past_pages(int descriptor, ino_t number) { return number == 0 || client().direct.contains(descriptor); }

}  // namespace

EXPORTED int open64(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const auto mode = static_cast<mode_t>(va_arg(arguments, int));
  va_end(arguments);
  return open_file(path, flags, mode);
}

EXPORTED int open(const char* path, int flags, ...) __attribute__((alias("open64")));

EXPORTED ssize_t pwrite64(int descriptor, const void* bytes, std::size_t count, off_t offset) {
  const ino_t number = number_of(descriptor);
  const std::lock_guard lock(client().mutex);
  return past_pages(descriptor, number)
             ? server_write(descriptor, bytes, count, offset)
             : write_pages(descriptor, client().pages[number], static_cast<const char*>(bytes), count, offset);
}

EXPORTED ssize_t pwrite(int descriptor, const void* bytes, std::size_t count, off_t offset)
    __attribute__((alias("pwrite64")));

EXPORTED ssize_t pread64(int descriptor, void* bytes, std::size_t count, off_t offset) {
  const ino_t number = number_of(descriptor);
  const std::lock_guard lock(client().mutex);
  return past_pages(descriptor, number)
             ? server_read(descriptor, bytes, count, offset)
             : read_pages(descriptor, client().pages[number], static_cast<char*>(bytes), count, offset);
}

EXPORTED ssize_t pread(int descriptor, void* bytes, std::size_t count, off_t offset) __attribute__((alias("pread64")));

EXPORTED int fsync(int descriptor) {
  static const auto call = next<int (*)(int)>("fsync");
  if (const ino_t number = number_of(descriptor); number != 0) {
    const std::lock_guard lock(client().mutex);
    write_back(descriptor, client().pages[number]);
  }
  return call(descriptor);
}

EXPORTED int close(int descriptor) {
  static const auto call = next<int (*)(int)>("close");
  if (const ino_t number = number_of(descriptor); number != 0) {
    const std::lock_guard lock(client().mutex);
    if ((::fcntl(descriptor, F_GETFL) & O_ACCMODE) != O_RDONLY) {
      write_back(descriptor, client().pages[number]);
    }
    client().direct.erase(descriptor);
  }
  return call(descriptor);
}

EXPORTED int fstatfs(int descriptor, struct statfs* system) noexcept {
  static const auto call = next<int (*)(int, struct statfs*)>("fstatfs");
  const int failed = call(descriptor, system);
  if (failed == 0 && number_of(descriptor) != 0) {
    system->f_type = NFS_SUPER_MAGIC;
  }
  return failed;
}
