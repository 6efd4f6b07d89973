#include "runtime/cli/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "runtime/cli/command.h"
#include "runtime/job/marker.h"
#include "runtime/settings/launch_settings.h"
#include "tests/support/ended_by_launcher.h"

namespace rollcall::cli {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

struct Outcome {
  int code = 0;
  std::string out;
  std::string err;
};

Environment environment_of(std::map<std::string, std::string, std::less<>> variables) {
  return Environment(std::move(variables));
}

/// Runs the program inside this process: for commands that do not call exec.
Outcome run(const std::vector<std::string>& arguments, const Environment& environment = {}) {
  std::ostringstream out;
  std::ostringstream err;
  const EndedByLauncher another_task_reports;
  const int code = run_program(arguments, environment, out, err);
  return {code, out.str(), err.str()};
}

std::string content_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::stringstream content;
  content << file.rdbuf();
  return content.str();
}

class ProgramInChild : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "/cliXXXXXX";
    folder_ = mkdtemp(pattern.data());
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void write_program(const std::string& name, const std::string& script, bool executable = true) const {
    const std::filesystem::path path = folder_ / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << script;
    const auto permissions = executable ? std::filesystem::perms::owner_all : std::filesystem::perms::owner_read;
    std::filesystem::permissions(path, permissions);
  }

  /// Runs the program in a child with a clean environment: single task on this machine, PATH with our folder in front.
  Outcome run_in_child(const std::vector<std::string>& arguments,
                       const std::vector<std::pair<std::string, std::string>>& extra = {}) const {
    const pid_t child = fork();
    if (child == 0) {
      clearenv();
      setenv("PATH", (folder_.string() + ":/usr/bin:/bin").c_str(), 1);
      for (const auto& [name, value] : extra) {
        setenv(name.c_str(), value.c_str(), 1);
      }
      if (freopen((folder_ / "out").c_str(), "w", stdout) == nullptr ||
          freopen((folder_ / "err").c_str(), "w", stderr) == nullptr) {
        _exit(99);
      }
      const int code = run_program(arguments, Environment::of_this_process(), std::cout, std::cerr);
      std::cout.flush();
      _exit(code);
    }
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status));
    return {WEXITSTATUS(status), content_of(folder_ / "out"), content_of(folder_ / "err")};
  }

  std::filesystem::path folder_;
};

TEST(Program, HelpListsCommandsAndOptions) {
  for (const std::vector<std::string>& arguments : {std::vector<std::string>{"--help"}, {"-h"}, {"help"}}) {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.code, 0);
    EXPECT_THAT(outcome.err, IsEmpty());
    for (const char* text :
         {"usage: rollcall COMMAND", "  env ", "  exec ", "--print-config", "rollcall help settings"}) {
      EXPECT_THAT(outcome.out, HasSubstr(text));
    }
    for (const Program& program : all_programs()) {
      EXPECT_THAT(outcome.out, HasSubstr("\n  " + std::string(program.name) + " "));
    }
  }
}

TEST(Program, HelpOfEveryCommandShowsAnExampleInBothForms) {
  for (const Command& command : all_commands()) {
    const Outcome help = run({"help", std::string(command.name)});
    EXPECT_EQ(help.code, 0);
    EXPECT_THAT(help.out, StartsWith("usage: rollcall " + std::string(command.name)));
    EXPECT_THAT(help.out, HasSubstr("Example"));
    EXPECT_EQ(run({std::string(command.name), "--help"}).out, help.out);
    EXPECT_EQ(run({"help", std::string(command.name), "all"}).out, run({std::string(command.name), "--help=all"}).out);
    std::istringstream lines(help.out);
    for (std::string line; std::getline(lines, line);) {
      EXPECT_LE(line.size(), 116u) << line;
    }
  }
}

TEST(Program, OnlyHelpSettingsListsLaunchSettings) {
  const std::string text = run({"help", "settings"}).out;
  EXPECT_THAT(text, HasSubstr("\n  --port-range=FIRST-LAST"));
  EXPECT_THAT(run({"help", "settings", "network"}).out,
              StartsWith("Network (default in brackets):\n  --host-template="));
  for (const Command& command : all_commands()) {
    EXPECT_THAT(run({"help", std::string(command.name), "all"}).out,
                testing::Not(HasSubstr("--port-range=FIRST-LAST")));
  }
}

TEST(Program, VersionIsOneLine) { EXPECT_THAT(run({"--version"}).out, testing::MatchesRegex("rollcall [0-9.]+\n")); }

TEST(Program, VersionAsJsonSaysWhatWasBuilt) {
  const auto facts = nlohmann::json::parse(run({"--version", "--json"}).out);
  EXPECT_EQ(run({"--version"}).out, "rollcall " + facts["version"].get<std::string>() + "\n");
  EXPECT_EQ(facts["program"], "rollcall");
  EXPECT_NE(facts.contains("commit"), facts.contains("released"));
  for (const char* const name : {"compiler", "build_type", "architecture"}) {
    EXPECT_THAT(facts[name].get<std::string>(), testing::Not(IsEmpty())) << name;
  }
  EXPECT_TRUE(facts["slurm"].is_array() && facts["features"]["pmix"].is_boolean());
}

TEST(Program, PrintConfigShowsWhereEachValueComesFrom) {
  const Environment environment = environment_of({{"ROLLCALL_PORT_RANGE", "20-30"}});
  const Outcome outcome = run({"--print-config", "--threads=2"}, environment);
  EXPECT_THAT(outcome.out, HasSubstr("20-30       ROLLCALL_PORT_RANGE\n"));
  EXPECT_THAT(outcome.out, HasSubstr("--threads\n"));
  const auto json = nlohmann::json::parse(run({"--print-config", "--json"}, environment).out);
  EXPECT_EQ(json["port.range"]["value"], "20-30");
}

TEST(Program, UsageErrorPrintsOneLineAndExitsWith64) {
  const std::pair<std::vector<std::string>, const char*> cases[] = {
      {{}, "rollcall: command line: no command is given; try rollcall --help\n"},
      {{"--verson"}, "rollcall: --verson: unknown option; try --version\n"},
      {{"env", "--jsn"}, "rollcall: --jsn: unknown option; try --json\n"},
      {{"env", "--port-range=9"},
       "rollcall: --port-range: 9: is not a range of ports; try giving FIRST-LAST with ports from 1 to 65535\n"},
      {{"env", "python"},
       "rollcall: env: python: is one argument too many; try rollcall exec -- PROGRAM to run a program\n"},
      {{"exec"}, "rollcall: exec: no program is given; try rollcall exec -- PROGRAM ARGUMENTS\n"},
      {{"completion", "tcsh"},
       "rollcall: completion: tcsh: is for bash, zsh and fish only; try rollcall completion bash\n"},
      {{"help", "evn"}, "rollcall: evn: unknown command; try rollcall env\n"},
      {{"help", "tarin"}, "rollcall: tarin: unknown command; try rollcall train\n"},
      {{"help", "setings"}, "rollcall: setings: unknown command; try rollcall help settings\n"},
      {{"help", "run", "log"},
       "rollcall: --help: log: is not a group of options; try --help=all or --help=GROUP (groups: "
       "nodes-and-workers, rendezvous, program, logs, failures-and-signals, not-in-torchrun)\n"},
      {{"help", "env", "all", "x"}, "rollcall: help: x: is one argument too many; try rollcall help NAME GROUP\n"},
  };
  for (const auto& [arguments, message] : cases) {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.code, 64) << message;
    EXPECT_EQ(outcome.err, message);
    EXPECT_THAT(outcome.out, IsEmpty());
  }
}

TEST(Program, UsageErrorIsPrintedByRank0Only) {
  for (const char* variable : {"SLURM_PROCID", "PMIX_RANK", "RANK"}) {
    EXPECT_THAT(run({"env", "--jsn"}, environment_of({{variable, "0"}})).err, HasSubstr("--jsn"));
    const Outcome other = run({"env", "--jsn"}, environment_of({{variable, "1"}}));
    EXPECT_THAT(other.err, IsEmpty()) << variable;
    EXPECT_EQ(other.code, 64);
  }
  EXPECT_THAT(run({"env", "--jsn"}, environment_of({{"SLURM_PROCID", "0"}, {"RANK", "5"}})).err, IsEmpty());
}

Environment task_of_srun(const char* rank, const char* users_rank) {
  return environment_of({{"SLURM_JOB_ID", "1"},
                         {"SLURM_STEP_ID", "0"},
                         {"SLURM_PROCID", rank},
                         {"SLURM_LOCALID", rank},
                         {"SLURM_NODEID", "0"},
                         {"SLURM_STEP_NUM_TASKS", "3"},
                         {"SLURM_STEP_NUM_NODES", "1"},
                         {"SLURM_STEP_NODELIST", "a"},
                         {"SLURM_STEP_TASKS_PER_NODE", "3"},
                         {"RANK", users_rank}});
}

TEST(Program, PrintConfigOfAStepIsPrintedByRank0) {
  EXPECT_THAT(run({"--print-config"}, task_of_srun("0", "0")).out, HasSubstr("port.range"));
  EXPECT_EQ(run({"--print-config"}, task_of_srun("1", "1")).out, "");
  EXPECT_THAT(run({"--print-config"}, environment_of({{"RANK", "1"}})).out, HasSubstr("port.range"));
}

TEST(Program, RankWithoutALauncherIsAnError) {
  for (const char* const name : {"RANK", "WORLD_SIZE"}) {
    const Outcome outcome = run({"exec", "true"}, environment_of({{name, "3"}}));
    EXPECT_EQ(outcome.code, 76);
    EXPECT_THAT(outcome.err, StartsWith(std::string("rollcall: ") + name +
                                        ": 3: no launcher detected; assuming a single rank; try unsetting " + name));
  }
}

TEST(Program, HelpOfHelpIsTheProgramsHelp) {
  for (const char* const word : {"--help", "-h"}) {
    EXPECT_EQ(run({"help", word}).out, run({"--help"}).out);
  }
}

TEST(Program, StaleRankVariableDoesNotHideErrorsOfSrunTasks) {
  EXPECT_THAT(run({"env", "--jsn"}, task_of_srun("0", "1")).err, HasSubstr("--jsn"));
  EXPECT_THAT(run({"env", "--jsn"}, task_of_srun("1", "0")).err, IsEmpty());
  Environment worker = task_of_srun("0", "1");  // torchrun starts its own from one task
  worker.set("TORCHELASTIC_RUN_ID", "x");
  EXPECT_THAT(run({"env", "--jsn"}, worker).err, IsEmpty());
}

TEST(Program, MismatchIsPrintedByRank0OrByRank1WhenRank0Agrees) {
  const Error error = fail("RANK", "0", "disagrees", "unsetting it", ErrorKind::Mismatch);
  const auto prints = [&](const char* rank, const char* users_rank) {
    std::string text;
    const EndedByLauncher launcher;
    EXPECT_EQ(report_error(error, task_of_srun(rank, users_rank), [&](const std::string& line) { text += line; }), 76);
    EXPECT_EQ(launcher.sent(), text.empty());
    return !text.empty();
  };
  for (const auto& [rank, printed] : {std::pair("0", true), {"1", true}, {"2", false}}) {
    EXPECT_EQ(prints(rank, "0"), printed) << rank;
  }
  for (const auto& [rank, printed] : {std::pair("0", true), {"1", false}, {"2", false}}) {
    EXPECT_EQ(prints(rank, "7"), printed) << rank;
  }
}

TEST(Program, UnavailableAndNoInputErrorsArePrintedByRank0Only) {
  for (const ErrorKind kind : {ErrorKind::Unavailable, ErrorKind::NoInput}) {
    const Error error = fail("host.template", "x", "does not resolve", "another", kind);
    for (const auto& [rank, printed] : {std::pair("0", true), {"1", false}}) {
      std::string text;
      const EndedByLauncher launcher;
      EXPECT_EQ(report_error(error, task_of_srun(rank, "0"), [&](const std::string& line) { text += line; }),
                to_int(error.exit_code()));
      EXPECT_EQ(!text.empty(), printed) << rank;
      EXPECT_EQ(launcher.sent(), !printed) << rank;
    }
  }
}

/// Task `rank` of four on node "b", which has ranks 2 to 5.
Environment task_of_node_b(const char* rank, const std::string& job) {
  return environment_of({{"SLURM_JOB_ID", job},
                         {"SLURM_STEP_ID", "0"},
                         {"SLURM_PROCID", rank},
                         {"SLURM_LOCALID", std::to_string(std::stoi(rank) - 2)},
                         {"SLURM_NODEID", "1"},
                         {"SLURM_STEP_NUM_TASKS", "6"},
                         {"SLURM_STEP_NUM_NODES", "2"},
                         {"SLURM_STEP_NODELIST", "a,b"},
                         {"SLURM_STEP_TASKS_PER_NODE", "2,4"},
                         {"SLURMD_NODENAME", "b"},
                         {"ROLLCALL_SITE_CONFIG", "/dev/null/site.toml"}});
}

TEST_F(ProgramInChild, ErrorOfANodeIsPrintedByItsFirstFailingTask) {
  const std::string job = std::to_string(::getpid());
  for (const char* const rank : {"3", "2", "5"}) {
    const Outcome outcome = run({"env"}, task_of_node_b(rank, job));
    EXPECT_EQ(outcome.code, 66);
    EXPECT_EQ(outcome.err.empty(), std::string_view(rank) != "3") << rank;
  }
  EXPECT_THAT(run({"env"}, task_of_node_b("4", job + "1")).err, HasSubstr("/dev/null/site.toml"));
}

TEST(Program, HelpWorksWithABrokenConfiguration) {
  const Environment environment = environment_of({{"ROLLCALL_PORT_RANGE", "broken"}});
  EXPECT_EQ(run({"env", "--help"}, environment).code, 0);
  EXPECT_EQ(run({"--version"}, environment).code, 0);
  EXPECT_EQ(run({"--print-config"}, environment).code, 64);
}

TEST(Program, BrokenProfileDoesNotBlockInstallAndUninstall) {
  const Environment environment = environment_of({{"ROLLCALL_SITE_CONFIG", "/dev/null/site.toml"}});
  const Outcome status = run({"install", "--status"}, environment);
  EXPECT_EQ(status.code, 0);
  EXPECT_THAT(status.out, HasSubstr("problem: /dev/null/site.toml"));
  EXPECT_THAT(run({"uninstall", "--user"}, environment).err, HasSubstr("HOME"));  // got as far as its own subject
  EXPECT_EQ(run({"env"}, environment).code, 66);
}

TEST(Program, UninstallHasTheOptionsThatItUses) {
  const std::string help = run({"help", "uninstall"}).out;
  EXPECT_THAT(help,
              testing::AllOf(HasSubstr("--slurm-conf"), HasSubstr("--root"), testing::Not(HasSubstr("--plugin"))));
  const Outcome refused = run({"uninstall", "--site", "--profile=site.toml"});
  EXPECT_EQ(refused.code, 64);
  EXPECT_THAT(refused.err, HasSubstr("--profile"));
}

TEST_F(ProgramInChild, ExecGivesTheProgramTheEnvironmentAndItsArguments) {
  write_program("show", "#!/bin/sh\necho \"$RANK/$WORLD_SIZE $OMP_NUM_THREADS\" \"$@\"\n");
  const Outcome outcome = run_in_child({"exec", "--threads=3", "show", "--lr=1", "--", "a b"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "0/1 3 --lr=1 -- a b\n");
}

TEST_F(ProgramInChild, ExecReplacesAndRemovesVariablesOfAnotherStep) {
  write_program("show", "#!/bin/sh\necho \"${NCCL_DEBUG-unset} $OMP_NUM_THREADS $TORCH_LOGS\"\n");
  const job::Marker marker{{"NCCL_DEBUG", job::fnv1a("INFO")}, {"OMP_NUM_THREADS", job::fnv1a("9")}};
  const Outcome outcome = run_in_child({"exec", "--threads=3", "show"}, {{"NCCL_DEBUG", "INFO"},
                                                                         {"OMP_NUM_THREADS", "9"},
                                                                         {"TORCH_LOGS", "users"},
                                                                         {"ROLLCALL_STEP", "1.1"},
                                                                         {"ROLLCALL_SET", job::to_text(marker)}});
  EXPECT_EQ(outcome.out, "unset 3 users\n") << outcome.err;
}

TEST_F(ProgramInChild, ExecReturnsTheProgramsExitCode) {
  write_program("seven", "#!/bin/sh\nexit 7\n");
  EXPECT_EQ(run_in_child({"exec", "--", "seven"}).code, 7);
}

TEST_F(ProgramInChild, ExecFailsLikeAShell) {
  const Outcome absent = run_in_child({"exec", "--", "no-such-program"});
  EXPECT_EQ(absent.code, 127);
  EXPECT_EQ(absent.err,
            "rollcall: exec: no-such-program: No such file or directory; try giving the full path of the program\n");
  const Outcome folder = run_in_child({"exec", "--", folder_.string()});
  EXPECT_EQ(folder.code, 126);
  EXPECT_THAT(folder.err, HasSubstr("Permission denied; try checking that the file can be executed"));
}

TEST_F(ProgramInChild, ExecFindsTheProgramInTheVirtualEnvironment) {
  write_program("venv/bin/python", "#!/bin/sh\necho \"$VIRTUAL_ENV\"\n");
  write_program("venv/pyvenv.cfg", "home = /usr/bin\n");
  const std::string venv = folder_ / "venv";
  const Outcome outcome = run_in_child({"exec", "--venv=" + venv, "--", "python"});
  EXPECT_EQ(outcome.out, venv + "\n") << outcome.err;
}

TEST_F(ProgramInChild, UnknownCommandRunsTheProgramOfThatName) {
  write_program("rollcall-greet", "#!/bin/sh\necho hello \"$@\"\nexit 3\n");
  const Outcome outcome = run_in_child({"greet", "--port-range=untouched", "x"});
  EXPECT_EQ(outcome.code, 3);
  EXPECT_EQ(outcome.out, "hello --port-range=untouched x\n");
}

TEST_F(ProgramInChild, HelpOfAnotherProgramCallsItsHelpOption) {
  write_program("rollcall-greet", "#!/bin/sh\necho \"$@\"\n");
  EXPECT_EQ(run_in_child({"help", "greet"}).out, "--help\n");
  EXPECT_EQ(run_in_child({"help", "rollcall-greet", "data"}).out, "--help=data\n");
}

TEST_F(ProgramInChild, ReportsAProgramThatIsNotInstalled) {
  const Outcome outcome = run_in_child({"train"});
  EXPECT_EQ(outcome.code, 64);
  EXPECT_EQ(outcome.err,
            "rollcall: train: rollcall-train is neither beside rollcall nor in PATH; try adding its folder to PATH\n");
}

TEST_F(ProgramInChild, RefusesAnUnknownCommand) {
  const Outcome outcome = run_in_child({"exce", "--", "true"});
  EXPECT_EQ(outcome.code, 64);
  EXPECT_EQ(outcome.err, "rollcall: exce: unknown command; try rollcall exec\n");
  EXPECT_EQ(run_in_child({"../greet"}).code, 64);
}

TEST_F(ProgramInChild, EnvPrintsTheSameVariablesInAllThreeForms) {
  const Outcome table = run_in_child({"env", "--threads=3", "--verbose"});
  EXPECT_EQ(table.code, 0) << table.err;
  EXPECT_THAT(table.out, HasSubstr("OMP_NUM_THREADS"));
  EXPECT_THAT(table.out, HasSubstr("rank 0 of 1"));
  const auto json = nlohmann::json::parse(run_in_child({"env", "--threads=3", "--json"}).out);
  const std::string exports = run_in_child({"env", "--threads=3", "--export"}).out;
  EXPECT_THAT(exports, HasSubstr("export OMP_NUM_THREADS='3'\n"));
  for (const auto& variable : json["variables"]) {
    const std::string name = variable["name"];
    EXPECT_THAT(table.out, HasSubstr(name));
    if (variable["action"] == "set") {
      EXPECT_THAT(exports, HasSubstr("export " + name + "="));
    }
  }
}

TEST_F(ProgramInChild, EnvKeepsWhatTheUserSet) {
  const Outcome outcome = run_in_child({"env", "--threads=3", "--export"}, {{"OMP_NUM_THREADS", "5"}});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, testing::Not(HasSubstr("OMP_NUM_THREADS=")));
}

}  // namespace
}  // namespace rollcall::cli
