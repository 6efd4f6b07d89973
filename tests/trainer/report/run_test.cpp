#include "trainer/report/run.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "trainer/report/page.h"
#include "trainer/report/record_file.h"
#include "trainer/report/summary.h"

namespace rollcall::report {
namespace {

using RunOfTest = Run;  // testing::Test has a function of that name
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class RunTest : public testing::Test {
 protected:
  RunTest() {
    std::string pattern = testing::TempDir() + "rollcall-report-XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
  }
  ~RunTest() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] RunOfTest read(const std::string& text) const {
    std::ofstream(folder_ + "/metrics.jsonl") << text;
    Result<RunOfTest> run = read_run(folder_);
    EXPECT_TRUE(run) << run.error().message();
    return *std::move(run);
  }

  static std::string begin(double time, int step = 0, int schema = 1) {
    return R"({"event":"begin","schema":)" + std::to_string(schema) + R"(,"step":)" + std::to_string(step) +
           R"(,"rollcall":"0.1.0","job":"7","restart_count":0,"ranks":4,"nodes":2,"hosts":["a","b"],)"
           R"("ranks_of_hosts":[2,2],"cpus_of_rank":3,"backend":"gloo","model":"resnet18","data":"fake",)"
           R"("training_images":40,"images_of_step":8,"steps_of_epoch":5,"epochs":2,"max_steps":0,)"
           R"("settings":{"lr":{"value":"0.1","origin":"--lr"}},"environment":[],"time":)" +
           std::to_string(time) + "}\n";
  }
  static std::string step(int number, double time, double seconds = 1) {
    return R"({"event":"step","step":)" + std::to_string(number) +
           R"(,"epoch":0,"loss":2,"top1":0.25,"top5":0.5,"samples":8,"learning_rate":0.1,"images_per_second":8,)"
           R"("data_wait_seconds":0.25,"data_wait_fraction":0.25,"loader_utilisation_of_rank_0":0.9,"steps":1,)"
           R"("seconds":)" +
           std::to_string(seconds) +
           R"(,"forward_seconds":0.25,"backward_seconds":0.25,"wait_seconds":0,"optimizer_seconds":0.125,"time":)" +
           std::to_string(time) + "}\n";
  }
  static std::string resume(int at) { return R"({"event":"resume","global_step":)" + std::to_string(at) + "}\n"; }
  static std::string end(double time) {
    return R"({"event":"end","ending":"finished","step":4,"time":)" + std::to_string(time) + "}\n";
  }

  std::string folder_;
};

TEST_F(RunTest, EnergyIsTheSumOfAllNodesAndStarts) {
  const std::string of_node =
      R"({"event":"begin","schema":1,"step":0,"ranks":4,"nodes":2,"energy_of":"node","time":100})";
  const auto ranks = [](const char* joules, int time) {
    return fmt::format(R"({{"event":"ranks","step":1,"data_seconds":[1,1,1,1],"energy_joules":{},"time":{}}})", joules,
                       time) +
           "\n";
  };
  const RunOfTest run = read(of_node + "\n" + ranks("[1e6,null,5e5,null]", 110) + ranks("[5e5,null,null,null]", 120) +
                             of_node + "\n" + ranks("[1.6e6,null,0,null]", 230) + end(240));
  EXPECT_EQ(run.joules(), 3.6e6);
  EXPECT_EQ(run.starts[0].joules, 2e6);
  EXPECT_EQ(read(of_node + "\n" + ranks("[-1e300,1e308,null,7]", 110)).joules(), 7);
  EXPECT_THAT(summary_text(run), HasSubstr("core-hours, 1 kWh (node); "));
  EXPECT_THAT(summary_text(read(begin(100) + step(1, 111) + end(120))), testing::Not(HasSubstr("kWh")));
}

TEST_F(RunTest, ReportsGpuReadingsIfRecorded) {
  const auto on_gpus = [](int number, double time, double watts) {
    std::string text = step(number, time);
    return text.replace(text.find(R"("time")"), 0,
                        fmt::format(R"("gpu_load":0.5,"gpu_memory_mib":2048,"gpu_memory_total_mib":4096,)"
                                    R"("gpu_watts":{},"images_per_joule":{},)",
                                    watts, 8 / watts));
  };
  const RunOfTest run =
      read(begin(100) + on_gpus(1, 111, 100) + on_gpus(2, 112, 300) + on_gpus(3, 113, 200) + end(120));
  EXPECT_THAT(summary_text(run), HasSubstr("images/s, 1 s a step, GPUs busy 50 %, 200 W, 0.04889 images/J\n"));
  EXPECT_THAT(summary_json(run), HasSubstr(R"("gpu_load":0.5,"gpu_watts":200.0,"images_per_joule":0.04)"));
  EXPECT_THAT(curves_csv({run}), HasSubstr("gpu-memory in use,3,3,2048,2048,2048\n"));
  EXPECT_THAT(page_html({run}), HasSubstr("Power of all GPUs"));
  EXPECT_EQ(read(begin(100) + on_gpus(1, 111, 100) + on_gpus(2, 112, 300) + resume(1)).gpu_watts.mean(), 100);
  const RunOfTest on_cpus = read(begin(100) + step(1, 111) + end(120));
  EXPECT_THAT(summary_text(on_cpus), testing::Not(HasSubstr("GPU")));
  EXPECT_THAT(summary_json(on_cpus), HasSubstr(R"("gpu_load":null,"gpu_watts":null,"images_per_joule":null)"));
  EXPECT_THAT(page_html({on_cpus}), testing::Not(HasSubstr("GPU")));
}

TEST_F(RunTest, LinksAndSummarisesATrace) {
  const auto trace = [](const std::string& file, const char* exposed) {
    return fmt::format(
               R"({{"event":"trace","file":"{}","first_step":2,"last_step":3,"seconds":[2,2],"compute_seconds":[1,1],)"
               R"("communication_seconds":[1,0.5],"exposed_communication_seconds":{},"time":115}})",
               file, exposed) +
           "\n";
  };
  const RunOfTest run = read(begin(100) + step(3, 111) + trace("trace-2-3.json", "[0.5,0.25]") + end(120));
  EXPECT_THAT(summary_text(run), HasSubstr("traced steps 2 to 3: communication 38 %, 19 % not hidden by computation"));
  EXPECT_THAT(page_html({run}), HasSubstr(R"(<a href="trace-2-3.json" download>trace-2-3.json</a>)"));
  EXPECT_THAT(summary_json(run), HasSubstr(R"("exposed_communication_seconds":[0.5,0.25])"));
  const RunOfTest strange =
      read(begin(100) + trace("javascript:alert(1)//trace-1-1.json", "[0.5,0.25]") + trace("trace-2-3.json", "[1]"));
  EXPECT_EQ(strange.traces.size(), 0U);
  const std::string numbers(130, '1');
  for (const std::string& steps :
       {std::string("1"), std::string("1-2-3"), std::string("-1"), std::string("..-1"), "1-" + numbers}) {
    const std::string file = "trace-" + steps + ".json";
    EXPECT_EQ(read(begin(100) + trace(file, "[0.5,0.25]")).traces.size(), 0U) << file;
  }
  for (const char* exposed : {"[1e308,0]", "[-1,0]", "\"a\"", "[[1],[2]]", "{}"}) {
    EXPECT_EQ(read(begin(100) + trace("trace-2-3.json", exposed)).traces.size(), 0U) << exposed;
  }
  const RunOfTest on_gpus = read(begin(100) + trace("trace-2-3.json", "[null,null]"));
  EXPECT_EQ(on_gpus.traces.size(), 1U);
  EXPECT_THAT(page_html({on_gpus}), HasSubstr("<td>-</td>"));
  EXPECT_THAT(page_html({strange}), testing::Not(HasSubstr("<a href")));
  EXPECT_THAT(strange.notes, testing::Contains("some records of traces are invalid"));
}

TEST_F(RunTest, CountsRepeatedStepsOfARestartedRunOnce) {
  const RunOfTest run = read(begin(100) + step(1, 111) + step(2, 112) + step(3, 113) + begin(200, 1) + resume(1) +
                             step(2, 211) + step(3, 212) + step(4, 213) + end(220));
  EXPECT_EQ(run.step, 4);
  EXPECT_EQ(run.lost_steps, 2);
  EXPECT_EQ(run.lost_seconds, 2);
  EXPECT_EQ(run.seconds.sum(), 4);
  EXPECT_EQ(run.samples.sum(), 32);
  ASSERT_EQ(run.starts.size(), 2U);
  EXPECT_EQ(run.starts[0].seconds(), 13);
  EXPECT_EQ(run.starts[0].startup_seconds(), 10);
  EXPECT_EQ(run.starts[0].ending, "");
  EXPECT_EQ(run.starts[1].from_step, 1);
  EXPECT_EQ(run.starts[1].ending, "finished");
  EXPECT_EQ(run.wall_seconds(), 33);
  EXPECT_NEAR(run.goodput(), 4.0 / 33, 1e-12);
  EXPECT_NEAR(run.node_hours(), 2 * 33 / 3600.0, 1e-12);
  EXPECT_NEAR(run.core_hours(), 12 * 33 / 3600.0, 1e-12);
  EXPECT_EQ(run.all_steps(), 10);
  EXPECT_EQ(run.host_of(1), "a");
  EXPECT_EQ(run.host_of(2), "b");
  EXPECT_EQ(run.host_of(4), "");
  EXPECT_THAT(run.notes, IsEmpty());
}

TEST_F(RunTest, IgnoresVoidValidationsForTheBest) {
  const auto valid = [](int step, double top1, double time) {
    return fmt::format(
        R"({{"event":"validation","epoch":1,"step":{},"loss":2,"top1":{},"top5":1,"samples":5,"seconds":1,)"
        R"("time":{}}})"
        "\n",
        step, top1, time);
  };
  const std::string first = begin(100) + step(1, 111) + valid(1, 0.25, 112) + step(2, 113) + valid(2, 0.5, 114);
  EXPECT_EQ(read(first).best_step, 2);
  const RunOfTest back = read(first + begin(200, 1) + resume(1) + step(2, 211) + valid(2, 0.125, 212));
  EXPECT_EQ(back.best_quality, 0.25);
  EXPECT_EQ(back.best_step, 1);
  const RunOfTest anew = read(first + begin(200, 0) + step(1, 211) + valid(1, 0, 212));
  EXPECT_EQ(anew.best_quality, 0);
  EXPECT_EQ(anew.loss.points().size(), 1U);
  EXPECT_EQ(read(first + begin(200, 0)).best_quality, -1);
}

TEST_F(RunTest, TheAverageOfTheWeightsDecidesWhichValidationIsTheBest) {
  const auto valid = [](int step, double top1, double ema_top1) {
    return fmt::format(R"({{"event":"validation","epoch":1,"step":{},"loss":2,"top1":{},"top5":1,"samples":5,)"
                       R"("seconds":1,"ema_loss":1,"ema_top1":{},"ema_top5":1,"time":113}})"
                       "\n",
                       step, top1, ema_top1);
  };
  const RunOfTest run = read(begin(100) + step(1, 111) + valid(1, 0.5, 0.75) + step(2, 112) + valid(2, 0.625, 0.5));
  EXPECT_EQ(run.best_quality, 0.75);
  EXPECT_EQ(run.best_step, 1);
}

TEST_F(RunTest, CountsSkippedImagesOnce) {
  const auto with_bad = [](std::string record, int bad) {
    return record.insert(record.find(R"("learning_rate")"), fmt::format(R"("bad_samples":{},)", bad));
  };
  const RunOfTest run = read(begin(100) + with_bad(step(1, 111), 1) + with_bad(step(2, 112), 2) + begin(200, 1) +
                             resume(1) + with_bad(step(2, 211), 2) + end(220));
  EXPECT_EQ(run.bad_samples.sum(), 3);
  EXPECT_THAT(summary_text(run), HasSubstr("3 images skipped"));
}

TEST_F(RunTest, ReportsReplicasAndRegroups) {
  const auto replica = [](int step, bool complete) {
    return fmt::format(
        R"({{"event":"replica","step":{},"complete":{},"bytes":2097152,"stall_seconds":0.25,"seconds":0.5,"time":113}})"
        "\n",
        step, complete);
  };
  const auto change = [](int step, double seconds) {
    return fmt::format(
        R"({{"event":"regrouped","step":{},"ranks":3,"released_seconds":0,"hold_seconds":0,"joined_seconds":0,)"
        R"("restored_seconds":0,"first_step_seconds":{},"cause":"a rank was lost","time":114}})"
        "\n",
        step, seconds);
  };
  const RunOfTest run = read(begin(100) + step(1, 111) + replica(1, true) + replica(2, true) + replica(3, false) +
                             change(2, 0.25) + change(3, 0.75) + end(120));
  EXPECT_EQ(run.stall_seconds, 0);
  EXPECT_EQ(run.replica_stall_seconds, 0.75);
  EXPECT_THAT(run.notes, IsEmpty());
  EXPECT_THAT(
      summary_text(run),
      HasSubstr("2 in the memory of peers, 2.0 MiB per rank, for which training waited 0.75 s in all; 1 FAILED"));
  EXPECT_THAT(summary_text(run),
              HasSubstr("ranks were lost or joined 2 times; 0.5 s each until the next step, at most 0.75 s"));
  EXPECT_THAT(summary_text(read(begin(100) + step(1, 111))), Not(HasSubstr("memory of peers")));
}

TEST_F(RunTest, TimeBudgetAddsUpToTheWallTime) {
  const RunOfTest run = read(
      begin(100) + step(1, 111) + step(2, 112) +
      R"({"event":"checkpoint","step":2,"written":true,"tries":1,"stall_seconds":0.5,"durable_seconds":3,"time":113})"
      "\n"
      R"({"event":"validation","epoch":1,"step":2,"loss":2,"top1":0.5,"top5":1,"samples":5,"seconds":4,"time":118})"
      "\n" +
      end(120));
  double sum = 0;
  for (const auto& [name, seconds] : time_budget(run)) {
    sum += seconds;
  }
  EXPECT_NEAR(sum, run.wall_seconds(), 1e-9);
  EXPECT_EQ(time_budget(run).front().second, 10);
  EXPECT_EQ(run.part_seconds[0], 0.5);       // data
  EXPECT_EQ(run.part_seconds.back(), 0.25);  // what is in no part
  EXPECT_EQ(run.best_quality, 0.5);
  EXPECT_THAT(advice(run).front(), HasSubstr("of the time went into 1 start: "));
}

TEST_F(RunTest, NotesUnfinishedAndUnreadableLines) {
  const RunOfTest run = read(begin(1) + "not json\n" + step(1, 12) + "[1,2]\n" + R"({"event":"step","st)");
  EXPECT_EQ(run.step, 1);
  EXPECT_FALSE(run.ended());
  EXPECT_THAT(run.notes,
              ElementsAre(HasSubstr("2 unreadable lines were skipped"), HasSubstr("the last line has no end")));
  EXPECT_THAT(run.notes.front(), HasSubstr("the first is line 2"));
  EXPECT_THAT(state_of(run), HasSubstr("no end is recorded"));
}

TEST_F(RunTest, NotesNewerSchemaUnknownEventsAndClockJumps) {
  const RunOfTest run = read(begin(1000, 0, 2) + step(1, 1002) + R"({"event":"dance","time":500})" + "\n" + end(1003));
  EXPECT_THAT(run.notes, ElementsAre(HasSubstr("schema 2"), HasSubstr("unknown event, dance"),
                                     HasSubstr("the clock went backwards 1 time:")));
  EXPECT_EQ(run.wall_seconds(), 3);
}

TEST_F(RunTest, ReportsEmptyAndForeignFiles) {
  EXPECT_THAT(read("").notes, ElementsAre(HasSubstr("the file is empty")));
  const RunOfTest foreign = read("a,b\n1,2\n");
  EXPECT_THAT(foreign.notes, testing::Contains(HasSubstr("no line of the file is a record")));
  EXPECT_THAT(page_html({foreign}), HasSubstr("</html>"));
  EXPECT_THAT(summary_text(foreign), HasSubstr("nothing recorded yet"));
}

TEST_F(RunTest, ToleratesExtremeAndInvalidNumbers) {
  const RunOfTest run =
      read(begin(1) +
           R"({"event":"step","step":1,"loss":null,"top1":1e308,"samples":-1,"seconds":1e300,"steps":1,"time":1e300})"
           "\n"
           R"({"event":"step","step":1e30,"loss":1})"
           "\n"
           R"({"event":"step","step":-5,"loss":1})"
           "\n"
           R"({"event":"ranks","step":2,"data_seconds":[null,1e308,2],"forward_seconds":[1]})"
           "\n"
           R"({"event":"step","step":"three","loss":[1]})"
           "\n"
           R"({"event":7})"
           "\n");
  EXPECT_THAT(page_html({run}), HasSubstr("</html>"));
  EXPECT_THAT(summary_json(run), HasSubstr("\"step\":2"));
  EXPECT_THAT(curves_csv({run}), HasSubstr("first_step"));
}

TEST_F(RunTest, EscapesTextsOfARun) {
  const std::string evil = R"(<script>alert(1)</script><img src=x onerror=\"a\">)";
  const RunOfTest run = read(R"({"event":"begin","schema":1,"step":0,"model":")" + evil + R"(","hosts":[")" + evil +
                             R"("],"settings":{")" + evil + R"(":{"value":")" + evil + R"(","origin":"x"}},"time":1})" +
                             "\n" + R"({"event":"failed","step":1,"error":")" + evil + R"(\u001b[2J","time":3})" +
                             "\n" + R"({"event":")" + evil + "\"}\n");
  const std::string page = page_html({run, run});
  EXPECT_THAT(page, testing::Not(HasSubstr("<script>alert")));
  EXPECT_THAT(page_html({run}), testing::Not(HasSubstr("<img")));
  EXPECT_THAT(page, testing::Not(HasSubstr("\x1b")));
  EXPECT_THAT(summary_text(run), testing::Not(HasSubstr("\x1b")));
}

TEST_F(RunTest, SkipsTheSettingsOfARecordThatWouldFillTheMemory) {
  const std::string nested = std::string(50'000, '[') + std::string(50'000, ']');
  const RunOfTest run = read(R"({"event":"begin","schema":1,"step":0,"model":"resnet50","hosts":)" + nested +
                             R"(,"settings":{"lr":{"value":"0.1","origin":"--lr"}},"time":1})" + "\n");
  EXPECT_EQ(run.model, "resnet50");
  EXPECT_TRUE(run.settings.empty());
}

TEST_F(RunTest, KeepsAsManyNamesOfARecordAsItsMemoryAllows) {
  for (const std::string value : {"1", R"("text")", "[1]"}) {
    std::string line = R"({"event":"step")";
    for (int i = 0; i < 1000; ++i) {
      line += fmt::format(R"(,"n{}":{})", i, value);
    }
    ReadRecord record;
    ASSERT_TRUE(record.parse(line + "}"));
    const auto knows = [&](const char* name) {
      return record.has(name) || !record.text(name).empty() || !record.numbers(name).empty();
    };
    EXPECT_TRUE(knows("n9")) << value;
    EXPECT_FALSE(knows("n999")) << value;
    ASSERT_TRUE(record.parse(R"({"event":"step","n999":)" + value + "}"));
    EXPECT_TRUE(knows("n999")) << "the next record has room again";
  }
}

TEST_F(RunTest, UnreadableFilesAreErrors) {
  EXPECT_EQ(read_run(folder_ + "/none").error().kind, ErrorKind::NoInput);
  EXPECT_EQ(read_run(folder_).error().kind, ErrorKind::NoInput);
  ::mkfifo((folder_ + "/fifo").c_str(), 0600);
  EXPECT_EQ(read_run(folder_ + "/fifo").error().kind, ErrorKind::NoInput);
}

TEST_F(RunTest, ReadingStopsOnRequest) {
  std::ofstream file(folder_ + "/metrics.jsonl");
  for (int i = 1; i <= 20'000; ++i) {
    file << step(i, i);
  }
  file.close();
  const Result<RunOfTest> run = read_run(folder_, [] { return false; });
  ASSERT_TRUE(run);
  EXPECT_LT(run->step, 20'000);
  EXPECT_THAT(run->notes, testing::Contains(HasSubstr("too long to read all of it here")));
}

/// In a folder that others may write to, links with these names may exist.
TEST_F(RunTest, DoesNotWriteTheReportThroughALink) {
  const std::string path = folder_ + "/report.html";
  std::ofstream(folder_ + "/victim") << "mine";
  std::filesystem::create_symlink(folder_ + "/victim", path + ".tmp-" + std::to_string(::getpid()));
  std::filesystem::create_symlink(folder_ + "/victim", path);
  ASSERT_TRUE(write_whole(path, "page"));
  std::string text;
  std::ifstream(folder_ + "/victim") >> text;
  EXPECT_EQ(text, "mine");
  std::ifstream(path) >> text;
  EXPECT_EQ(text, "page");
}

TEST_F(RunTest, WritesAPageAndASummaryOfTenLines) {
  static_cast<void>(read(begin(100) + step(1, 111) + end(120)));
  const std::string text = report_of_run(folder_, 10);
  EXPECT_EQ(std::ranges::count(text, '\n'), 10) << text;  // with where the page is
  EXPECT_THAT(text, HasSubstr(folder_ + "/report.html\n"));
  EXPECT_TRUE(std::filesystem::exists(folder_ + "/report.html"));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 2);
  EXPECT_THAT(report_of_run(folder_ + "/none", 10), HasSubstr("no report: "));
  std::filesystem::create_directory(folder_ + "/taken");
  std::ofstream(folder_ + "/taken/metrics.jsonl") << begin(1);
  std::filesystem::create_directories(folder_ + "/taken/report.html/in the way");
  EXPECT_THAT(report_of_run(folder_ + "/taken", 10), HasSubstr("no report: "));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_ + "/taken"), {}), 2) << "no draft stays";
}

}  // namespace
}  // namespace rollcall::report
