#include "runtime/job/srun_arguments.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "runtime/base/text.h"

namespace rollcall::job {
namespace {

std::string ddp(const std::string& line) {
  const std::vector<std::string> words = split(line, ' ');
  return srun_option(words, "--ddp").value_or("none");
}

TEST(SrunArguments, AnOptionIsFoundBeforeTheProgram) {
  EXPECT_EQ(ddp("srun --ddp python train.py"), "");
  EXPECT_EQ(ddp("srun --ddp=debug=on python train.py"), "debug=on");
  EXPECT_EQ(ddp("srun -N2 -n 4 --gpus-per-task 1 -lu -K --exclusive --mem=4G --ddp=off python"), "off");
  EXPECT_EQ(ddp("srun --ddp=a=1 --ddp=b=2 python"), "b=2");
  EXPECT_EQ(ddp("srun --new-option --ddp python"), "");
  EXPECT_EQ(ddp("srun --ddp --new-option value python"), "");
  EXPECT_EQ(ddp("srun --new-option=value --ddp python"), "");
}

TEST(SrunArguments, IgnoresOptionsOfTheProgram) {
  for (const char* const line :
       {"srun", "srun python train.py --ddp", "srun -N2 -n 4 python --ddp", "srun -lN 2 --label train --ddp=1",
        "srun --kill-on-bad-exit train --ddp", "srun --mpi=pmix train --ddp", "srun -- --ddp",
        "srun --job-name x train --ddp", "srun --container-writable train --ddp",
        "srun --new-option value --ddp python", "srun -N2 train --ddp : -N1 other --ddp"}) {
    EXPECT_EQ(ddp(line), "none") << line;
  }
}

TEST(SrunArguments, FindsAnOptionInAnyComponentOfAHetStep) {
  EXPECT_EQ(ddp("srun -n1 a x : --ddp -n1 b y"), "");
  EXPECT_EQ(ddp("srun --ddp=debug=on a : -n1 b --ddp"), "debug=on");
}

TEST(SrunArguments, ReadsTheValueFromTheNextArgument) {
  const std::vector<std::string> words{"srun", "--ddp", "--task-prolog", "/x", "program", "--task-prolog=/y"};
  EXPECT_EQ(srun_option(words, "--task-prolog"), "/x");
}

}  // namespace
}  // namespace rollcall::job
