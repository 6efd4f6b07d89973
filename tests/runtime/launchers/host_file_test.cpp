#include "runtime/launchers/slurm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "tests/runtime/launched_task.h"

namespace rollcall::launchers {
namespace {

using testing::IsEmpty;

/// Rank 3 of five on jwb0009; the host of rank 0 is unknown: jwb0007 has two tasks, jwb0009 two, jwb0010 one.
class HostFile : public testing::Test {
 protected:
  ~HostFile() override { ::unlink(path_.c_str()); }

  /// The facts after a host file with this content was read.
  job::JobFacts after(const std::string& content) const {
    std::ofstream(path_) << content;
    const Environment task =
        with(slurm_task(), {{"SLURM_DISTRIBUTION", "arbitrary"}, {"SLURM_HOSTFILE", path_.c_str()}});
    job::JobFacts facts = *facts_from_slurm(task);
    find_head_in_host_file(task, facts);
    return facts;
  }

 private:
  std::string path_ = testing::TempDir() + "rollcall-hosts-" + std::to_string(::getpid());
};

TEST_F(HostFile, GivesTheHostOfRank0InEverySlurmNotation) {
  for (const char* content : {"jwb0010\njwb0007\njwb0009\njwb0009\njwb0007\n", "jwb0010\njwb0007\njwb0009*2\njwb0007",
                              "# ours\n\n jwb0010 # first\njwb[0007,0009]\njwb[0009,0007]\n"}) {
    const job::JobFacts facts = after(content);
    EXPECT_EQ(facts.head_host, "jwb0010") << content;
    EXPECT_TRUE(facts.head_known_to_all) << content;
    EXPECT_THAT(facts.warnings, IsEmpty()) << content;
  }
}

TEST_F(HostFile, IsIgnoredWhenItDoesNotMatchTheStep) {
  for (const char* content : {
           "",                                                      // nothing
           "jwb0010\njwb0007\njwb0009\njwb0009\n",                  // too few tasks
           "jwb0010\njwb0007\njwb0009\njwb0009\njwb0007\njwb0007",  // too many
           "jwb0010\njwb0009\njwb0009\njwb0007\njwb0007\n",         // rank 3 is elsewhere
           "jwb0010\njwb0007\njwb0007\njwb0009\njwb0007\n",         // other numbers of tasks
           "jwb0011\njwb0007\njwb0009\njwb0009\njwb0007\n",         // a node that the step does not have
           "jwb0010\njwb0007\njwb[\njwb0009\njwb0007\n",            // damaged
           "jwb0010*0\njwb0007\njwb0009\njwb0009\njwb0007\n",
       }) {
    const job::JobFacts facts = after(content);
    EXPECT_EQ(facts.head_host, "") << content;
    EXPECT_FALSE(facts.head_known_to_all) << content;
    EXPECT_THAT(facts.warnings, testing::SizeIs(1)) << content;
  }
}

TEST_F(HostFile, IsNotReadWhenTheHostOfRank0IsKnown) {
  const Environment task = with(slurm_task(), {{"SLURM_HOSTFILE", "/nonexistent"}});
  job::JobFacts facts = *facts_from_slurm(task);
  find_head_in_host_file(task, facts);
  EXPECT_EQ(facts.head_host, "jwb0007");
}

}  // namespace
}  // namespace rollcall::launchers
