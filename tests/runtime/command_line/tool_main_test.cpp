#include "runtime/command_line/tool_main.h"

#include <gtest/gtest.h>

#include <new>
#include <sstream>
#include <stdexcept>

namespace rollcall::command_line {
namespace {

struct Outcome {
  int code = 0;
  std::string out;
  std::string err;
};

Outcome run_tool(const std::function<Result<int>(std::ostream&)>& work, std::ios::iostate state = std::ios::goodbit) {
  std::ostringstream out;
  std::ostringstream err;
  out.setstate(state);
  const int code = tool_main("rollcall-tool", "fewer files", out, err, [&] { return work(out); });
  return {code, out.str(), err.str()};
}

TEST(ToolMain, ReturnsTheCodeAndOutputOfTheWork) {
  const Outcome end = run_tool([](std::ostream& out) -> Result<int> {
    out << "seen";
    return 1;
  });
  EXPECT_EQ(end.code, 1);
  EXPECT_EQ(end.out, "seen");
  EXPECT_EQ(end.err, "");
}

TEST(ToolMain, PrintsAnErrorInOneLineAndReturnsItsExitCode) {
  const Outcome end = run_tool([](std::ostream&) -> Result<int> {
    return fail("--data", "x", "does not exist", "another", ErrorKind::NoInput);
  });
  EXPECT_EQ(end.code, 66);
  EXPECT_EQ(end.err, "rollcall: --data: x: does not exist; try another\n");
}

TEST(ToolMain, OutputThatCannotBeWrittenIsAnError) {
  const auto print = [](std::ostream& out) -> Result<int> {
    out << "lost";
    return 0;
  };
  const Outcome end = run_tool(print, std::ios::badbit);
  EXPECT_EQ(end.code, 74);
  EXPECT_EQ(end.err, "rollcall: standard output: cannot be written; try redirecting it to another file\n");
}

TEST(ToolMain, ReportsExceptionsWithAnExitCode) {
  const Outcome memory = run_tool([](std::ostream&) -> Result<int> { throw std::bad_alloc(); });
  EXPECT_EQ(memory.code, 69);
  EXPECT_EQ(memory.err, "rollcall: rollcall-tool: there is not enough memory; try fewer files\n");
  const Outcome bug = run_tool([](std::ostream&) -> Result<int> { throw std::runtime_error("odd"); });
  EXPECT_EQ(bug.code, 70);
  EXPECT_EQ(bug.err, "rollcall: rollcall-tool: odd; try reporting this: it is a bug\n");
}

}  // namespace
}  // namespace rollcall::command_line
