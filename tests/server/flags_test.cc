// Where the flags of batchplan-server come from, as --print_config shows it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/server/service/server_process.h"
#include "tests/support/scratch_directory.h"

namespace batchplan {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

struct Ended {
  int status;
  std::string output;
};

Ended RunServer(const std::vector<std::string>& flags,
                const std::vector<std::string>& variables = {}) {
  ServerProcess server(flags, variables);
  std::string output = server.ReadAll();
  return {server.Wait(), output};
}

// The output of --print_config with these flags and variables; "" and a test failure if it fails.
std::string Printed(std::vector<std::string> flags,
                    const std::vector<std::string>& variables = {}) {
  flags.emplace_back("--print_config");
  const Ended ended = RunServer(flags, variables);
  EXPECT_EQ(ended.status, 0) << ended.output;
  return ended.status == 0 ? ended.output : "";
}

class FlagsTest : public testing::Test {
 protected:
  // Writes a file for this test.
  std::string File(const std::string& content, const std::string& name = "batchplan.toml") {
    return directory_.Write(name, content);
  }

  const ScratchDirectory directory_;
};

TEST_F(FlagsTest, AFlagGoesBeforeTheEnvironmentThatBeforeTheFileThatBeforeTheDefault) {
  const std::string config = "--config=" + File("max_queued_plans = 11\n");
  const std::vector<std::string> variable = {"BATCHPLAN_MAX_QUEUED_PLANS=12"};
  const std::string flag = "--max_queued_plans=13";
  const auto holds = [](const std::string& value) {
    return HasSubstr("\nmax_queued_plans = " + value + "\n");
  };
  EXPECT_THAT(Printed({}), holds("64"));
  EXPECT_THAT(Printed({config}), holds("11"));
  EXPECT_THAT(Printed({}, variable), holds("12"));
  EXPECT_THAT(Printed({flag}), holds("13"));
  EXPECT_THAT(Printed({config}, variable), holds("12"));
  EXPECT_THAT(Printed({config, flag}), holds("13"));
  EXPECT_THAT(Printed({flag, config}), holds("13"));
  EXPECT_THAT(Printed({flag}, variable), holds("13"));
  EXPECT_THAT(Printed({config, flag}, variable), holds("13"));
}

TEST_F(FlagsTest, TheSameHoldsForTextTruthAndSeconds) {
  const std::string config =
      "--config=" + File("listen = \"127.0.0.1:1\"\nreflection = false\ndrain_delay = 1.5\n");
  const std::string from_file = Printed({config});
  EXPECT_THAT(from_file,
              AllOf(HasSubstr("\nlisten = \"127.0.0.1:1\"\n"), HasSubstr("\nreflection = false\n"),
                    HasSubstr("\ndrain_delay = 1.5\n")));
  const std::string from_environment = Printed(
      {config},
      {"BATCHPLAN_LISTEN=127.0.0.1:2", "BATCHPLAN_REFLECTION=true", "BATCHPLAN_DRAIN_DELAY=2.5"});
  EXPECT_THAT(from_environment,
              AllOf(HasSubstr("\nlisten = \"127.0.0.1:2\"\n"), HasSubstr("\nreflection = true\n"),
                    HasSubstr("\ndrain_delay = 2.5\n")));
  const std::string from_flags =
      Printed({config, "--listen=127.0.0.1:3", "--noreflection", "--drain_delay=3.5"},
              {"BATCHPLAN_LISTEN=127.0.0.1:2", "BATCHPLAN_REFLECTION=true"});
  EXPECT_THAT(from_flags,
              AllOf(HasSubstr("\nlisten = \"127.0.0.1:3\"\n"), HasSubstr("\nreflection = false\n"),
                    HasSubstr("\ndrain_delay = 3.5\n")));
}

TEST_F(FlagsTest, TheEnvironmentMayNameTheFileAndAnEmptyVariableIsNone) {
  const std::string path = File("max_queued_plans = 11\n");
  EXPECT_THAT(Printed({}, {"BATCHPLAN_CONFIG=" + path}), HasSubstr("\nmax_queued_plans = 11\n"));
  EXPECT_THAT(Printed({}, {"BATCHPLAN_CONFIG=", "BATCHPLAN_MAX_QUEUED_PLANS="}),
              HasSubstr("\nmax_queued_plans = 64\n"));
}

TEST_F(FlagsTest, WhatIsPrintedCanBeReadBack) {
  const std::string defaults = Printed({});
  EXPECT_EQ(Printed({"--config=" + File(defaults)}), defaults);
  const std::string changed = Printed(
      {"--listen=[::1]:7", "--metrics_listen=off", "--noreflection", "--verify_plans",
       "--max_message_bytes=4096", "--drain_delay=0.25", "--log_format=json", "--log_level=warning",
       "--tls_certificate=a file.pem", "--tls_key=b", "--auth_tokens=c"});
  EXPECT_THAT(changed, AllOf(HasSubstr("\nmetrics_listen = \"off\"\n"),
                             HasSubstr("\ntls_certificate = \"a file.pem\"\n")));
  EXPECT_NE(changed, defaults);
  EXPECT_EQ(Printed({"--config=" + File(changed, "changed.toml")}), changed);
}

TEST_F(FlagsTest, EveryFlagOfTheHelpIsPrinted) {
  const std::string help = RunServer({"--help"}).output;
  const std::string printed = Printed({});
  size_t flags = 0;
  for (size_t at = help.find("\n  --"); at != std::string::npos; at = help.find("\n  --", at + 1)) {
    const size_t begin = at + 5;
    const std::string name = help.substr(begin, help.find_first_of(" ,\n", begin) - begin);
    if (name == "version" || name == "config" || name == "print_config") continue;
    ++flags;
    EXPECT_THAT(printed, HasSubstr(name + " = "));
  }
  EXPECT_GT(flags, 10U);
}

TEST_F(FlagsTest, WhatTheFileGetsWrongIsRefusedByNameOfFileAndKey) {
  struct Case {
    const char* content;
    const char* key;
  };
  for (const Case& wrong : {
           Case{"max_queued_plan = 3\n", "max_queued_plan: there is no such flag"},
           Case{"config = \"other.toml\"\n", "config: there is no such flag"},
           Case{"planning_threads = many\n", "planning_threads=many"},
           Case{"planning_threads = 1.5\n", "planning_threads=1.5"},
           Case{"reflection = perhaps\n", "reflection=perhaps"},
           Case{"drain_delay = soon\n", "drain_delay=soon"},
           Case{"log_format = \"xml\"\n", "log_format=xml"},
           Case{"listen = \"\"\n", "listen: is empty"},
           Case{"listen = [\"a:1\", \"b:2\"]\n", "listen: must be given once"},
           Case{"listen = \"a:1\"\nlisten = \"b:2\"\n", "listen: must be given once"},
           Case{"listen = \"a:1\"\nreflection = true\nlisten = \"b:2\"\n",
                "listen: must be given once"},
           Case{"[server]\nlisten = \"a:1\"\n", "server"},
           Case{"tls_certificate = \"a#b\"\n", "tls_certificate: a value holds neither"},
       }) {
    const std::string path = File(wrong.content);
    const Ended ended = RunServer({"--config=" + path});
    EXPECT_EQ(ended.status, 2) << wrong.content;
    EXPECT_THAT(ended.output, AllOf(HasSubstr(path), HasSubstr(wrong.key))) << wrong.content;
  }
}

TEST_F(FlagsTest, AFileThatCantBeReadIsRefusedByName) {
  for (const std::string& path : {directory_.Path("missing.toml"), directory_.Path()}) {
    const Ended ended = RunServer({"--config=" + path});
    EXPECT_EQ(ended.status, 2);
    EXPECT_THAT(ended.output, HasSubstr("--config=" + path + ": can't be read"));
  }
}

TEST_F(FlagsTest, AWrongVariableIsRefusedByName) {
  const Ended ended = RunServer({}, {"BATCHPLAN_PLANNING_THREADS=many"});
  EXPECT_EQ(ended.status, 2);
  EXPECT_THAT(ended.output, HasSubstr("BATCHPLAN_PLANNING_THREADS: planning_threads=many"));
}

TEST_F(FlagsTest, AValueOutOfItsLimitsIsRefusedWithWhereItIsFrom) {
  const std::string path = File("max_queued_plans = -5\n");
  EXPECT_THAT(RunServer({"--config=" + path}).output,
              HasSubstr("--max_queued_plans=-5: must be 0 to 1000000 (from " + path + ")"));
  EXPECT_THAT(RunServer({}, {"BATCHPLAN_MAX_QUEUED_PLANS=-5"}).output,
              HasSubstr("must be 0 to 1000000 (from BATCHPLAN_MAX_QUEUED_PLANS)"));
  const Ended flag = RunServer({"--max_queued_plans=-5", "--config=" + path});
  EXPECT_THAT(flag.output, HasSubstr("must be 0 to 1000000\n"));
  EXPECT_EQ(flag.status, 2);
}

TEST_F(FlagsTest, CommentsBlankLinesAndSpacesDoNotMatter) {
  const std::string path =
      File("# a comment\n\n   max_queued_plans=7   # and another\n\tlisten = \"a:1\"\n");
  EXPECT_THAT(Printed({"--config=" + path}),
              AllOf(HasSubstr("\nmax_queued_plans = 7\n"), HasSubstr("\nlisten = \"a:1\"\n")));
}

TEST_F(FlagsTest, HelpDoesNotNeedARightConfiguration) {
  const Ended ended = RunServer({"--config=/nowhere", "--help"});
  EXPECT_EQ(ended.status, 0);
  EXPECT_THAT(ended.output, AllOf(HasSubstr("Exit status"), HasSubstr("BATCHPLAN_LISTEN"),
                                  Not(HasSubstr("nowhere.toml"))));
}

}  // namespace
}  // namespace batchplan
