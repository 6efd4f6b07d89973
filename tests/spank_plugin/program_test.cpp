#include "spank_plugin/program.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

namespace rollcall::spank {
namespace {

pid_t g_self = 0;
volatile sig_atomic_t g_in_child = 0;

void note_where(int /*signal*/) {
  if (getpid() != g_self) {
    g_in_child = g_in_child + 1;
  }
}

/// Sends SIGUSR1 all the time to `group`, which it does not belong to.
pid_t start_sender(pid_t group) {
  const pid_t sender = fork();
  if (sender == 0) {
    setpgid(0, 0);
    while (kill(-group, SIGUSR1) == 0) {
    }
    _exit(0);
  }
  setpgid(sender, sender);
  return sender;
}

// Handlers of srun and slurmstepd take locks and write to their memory, which the child of vfork(2) has as well.
TEST(StartProgram, HandlersOfTheCallerNeverRunInTheChild) {
  ASSERT_TRUE(setpgid(0, 0) == 0 || getpgrp() == getpid());
  g_self = getpid();
  struct sigaction action {};
  action.sa_handler = note_where;
  action.sa_flags = SA_RESTART;
  struct sigaction before {};
  sigaction(SIGUSR1, &action, &before);
  const pid_t sender = start_sender(getpgrp());
  for (int i = 0; i < 200; ++i) {
    Program program;
    EXPECT_FALSE(start_program("/bin/true", -1, false, program));
    (void)status_of_end(program);  // the program itself may end by the signal
  }
  kill(sender, SIGKILL);
  waitpid(sender, nullptr, 0);
  sigaction(SIGUSR1, &before, nullptr);
  EXPECT_EQ(g_in_child, 0);
}

}  // namespace
}  // namespace rollcall::spank
