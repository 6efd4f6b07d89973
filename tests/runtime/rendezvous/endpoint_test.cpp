#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "runtime/rendezvous/endpoint.h"

namespace rollcall::rendezvous {
namespace {

using testing::StartsWith;

/// A folder of this test's own, removed at its end.
class EndpointFolder {
 public:
  EndpointFolder() {
    std::string name = testing::TempDir() + "rollcall-XXXXXX";
    path_ = mkdtemp(name.data());
  }
  EndpointFolder(const EndpointFolder&) = delete;
  EndpointFolder& operator=(const EndpointFolder&) = delete;
  ~EndpointFolder() { std::filesystem::remove_all(path_); }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

job::JobFacts rank_of(std::uint32_t rank, std::uint32_t world_size) {
  job::JobFacts facts;
  facts.job_id = 4711;
  facts.step_id = 0;
  facts.rank = rank;
  facts.world_size = world_size;
  facts.local_rank = rank;
  facts.local_world_size = world_size;
  facts.this_host = "localhost";
  return facts;
}

TEST(Endpoint, SurvivesARoundTripThroughText) {
  for (const Endpoint& endpoint : {Endpoint{"jwb0001i", 29500}, Endpoint{"10.78.0.1", 1}, Endpoint{"fd00::1", 65535}}) {
    const auto parsed = parse_endpoint(to_text(endpoint));
    ASSERT_TRUE(parsed) << to_text(endpoint);
    EXPECT_EQ(parsed->host, endpoint.host);
    EXPECT_EQ(parsed->port, endpoint.port);
  }
  for (const char* text :
       {"", "host", "host:", ":1", "host:0", "host:65536", "fd00::1:1", "a b:1", "[]:1", "host:1x"}) {
    EXPECT_FALSE(parse_endpoint(text)) << text;
  }
}

const std::string kWorld = "4711-0-0";
const std::string kDrawn = "0123456789abcdef";

std::string refusal_of(const std::filesystem::path& path) {
  const EndpointReading reading = read_endpoint_file(path, kWorld);
  EXPECT_FALSE(reading.endpoint);
  return reading.refusal;
}

void write_complete_file(const std::filesystem::path& path, const std::string& name = kWorld) {
  std::ofstream(path) << "rollcall endpoint 3\njwb0001:20000\n" << name << " " << kDrawn << "\n";
  chmod(path.c_str(), 0600);
}

TEST(EndpointFile, RefusesAFileThatOtherUsersCouldHaveWritten) {
  const EndpointFolder folder;
  const auto path = endpoint_file_path(folder.path(), rank_of(0, 2));
  EXPECT_EQ(refusal_of(path), "") << "there is none";
  write_complete_file(path);
  ASSERT_TRUE(read_endpoint_file(path, kWorld).endpoint);
  for (const mode_t mode : {0620U, 0606U, 0640U, 0604U}) {
    chmod(path.c_str(), mode);
    EXPECT_THAT(refusal_of(path), StartsWith("may be read or written by others (mode 06"));
  }
  chmod(path.c_str(), 0600);
  if (geteuid() == 0) {
    ASSERT_EQ(chown(path.c_str(), 1234, 1234), 0);
    EXPECT_EQ(refusal_of(path), "belongs to user 1234, not to you");
  }
  if (geteuid() != 0) {
    EXPECT_EQ(refusal_of("/etc/hostname"), "belongs to user 0, not to you");
  }
  unlink(path.c_str());
  ASSERT_EQ(symlink("/etc/hostname", path.c_str()), 0);
  EXPECT_EQ(refusal_of(path), "is not a regular file");
  unlink(path.c_str());
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_EQ(refusal_of(path), "is not a regular file");
}

TEST(EndpointFile, RefusesAFileOfAnotherWorldAndNamesBoth) {
  const EndpointFolder folder;
  write_complete_file(folder.path() / "x", "4712-0-0");
  EXPECT_EQ(refusal_of(folder.path() / "x"), "belongs to 4712-0-0, not to 4711-0-0");
}

TEST(EndpointFile, DestructorKeepsTheFileOfALaterRun) {
  const EndpointFolder folder;
  const auto path = endpoint_file_path(folder.path(), rank_of(0, 2));
  std::optional<Result<EndpointFile>> first = EndpointFile::publish(path, {"jwb0001", 1}, kWorld, kDrawn);
  const auto second = EndpointFile::publish(path, {"jwb0001", 2}, kWorld, "fedcba9876543210");
  first.reset();
  EXPECT_EQ(read_endpoint_file(path, kWorld).secret, "fedcba9876543210");
}

TEST(EndpointFile, IsCompletePrivateAndRemovedAtTheEnd) {
  const EndpointFolder folder;
  const auto path = endpoint_file_path(folder.path(), rank_of(0, 2));
  EXPECT_EQ(path.filename(), "rollcall-4711-0-0.endpoint");
  std::ofstream(path) << "half a li";
  EXPECT_FALSE(read_endpoint_file(path, kWorld).endpoint);
  {
    const mode_t before = umask(0);
    const auto file = EndpointFile::publish(path, {"jwb0001", 20000}, kWorld, kDrawn);
    umask(before);
    ASSERT_TRUE(file) << file.error().message();
    const EndpointReading reading = read_endpoint_file(path, kWorld);
    ASSERT_TRUE(reading.endpoint) << reading.refusal;
    EXPECT_EQ(to_text(*reading.endpoint), "jwb0001:20000");
    EXPECT_EQ(reading.secret, kDrawn);
    EXPECT_EQ(std::filesystem::status(path).permissions(), std::filesystem::perms(0600));
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(EndpointFile, UnwritableFolderIsAnErrorThatNamesIt) {
  const auto file = EndpointFile::publish("/proc/rollcall/x.endpoint", {"a", 1}, kWorld, kDrawn);
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().kind, ErrorKind::CannotCreate);
  EXPECT_THAT(file.error().message(), StartsWith("rollcall: rendezvous.folder: /proc/rollcall: cannot be written"));
}

TEST(EndpointFile, RequeuedJobUsesAnotherFile) {
  job::JobFacts requeued = rank_of(0, 2);
  requeued.restart_count = 1;
  EXPECT_NE(endpoint_file_path("/x", requeued), endpoint_file_path("/x", rank_of(0, 2)));
}

TEST(EndpointFile, OutsideSlurmStepsItsNameUsesOnlyValuesOfAllRanks) {
  job::JobFacts of_mpirun = rank_of(0, 2);
  of_mpirun.job_id = of_mpirun.step_id = std::nullopt;
  of_mpirun.port_salt = 0x0badcafe;
  const auto path = endpoint_file_path("/x", of_mpirun);
  EXPECT_EQ(path, "/x/rollcall-user" + std::to_string(getuid()) + "-0badcafe.endpoint");
  of_mpirun.restart_count = 1;  // known on the hosts where srun started mpirun's daemon, not where mpirun runs
  EXPECT_EQ(endpoint_file_path("/x", of_mpirun), path);
  of_mpirun.job_id = 4711;  // a rank that happens to look like a rank_of of the step
  of_mpirun.is_slurms_step = false;
  EXPECT_EQ(endpoint_file_path("/x", of_mpirun), path);
}

TEST(EndpointFile, EachWorldOfAStepHasItsOwnFile) {
  job::JobFacts zero = rank_of(0, 2);
  zero.first_rank = 2;
  job::JobFacts one = rank_of(1, 2);
  one.first_rank = 2;
  EXPECT_EQ(endpoint_file_path("/x", zero), endpoint_file_path("/x", one));
  EXPECT_NE(endpoint_file_path("/x", zero), endpoint_file_path("/x", rank_of(0, 2)));
}

}  // namespace
}  // namespace rollcall::rendezvous
