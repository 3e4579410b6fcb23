// The scripts by which shells complete the command line; bash runs its script here.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "tests/client/cli/run_cli.h"
#include "tests/support/scratch_directory.h"

namespace batchplan {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::Not;

std::string Script(const std::string& shell) {
  const CliResult result = RunCli({"completion", shell});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  return result.out;
}

// The output of `command`.
std::string OutputOf(const std::string& command) {
  std::FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) std::abort();
  std::string output;
  std::array<char, 4096> buffer;
  while (const size_t size = std::fread(buffer.data(), 1, buffer.size(), pipe)) {
    output.append(buffer.data(), size);
  }
  EXPECT_EQ(pclose(pipe), 0) << output;
  return output;
}

// What bash suggests in `directory` for the last of `words`, which are split as bash splits them.
std::vector<std::string> Complete(const ScratchDirectory& directory,
                                  const std::vector<std::string>& words) {
  directory.Write("batchplan.bash", Script("bash"));
  directory.Write("run.bash",
                  absl::StrCat("cd ", directory.Path(), "/files\n",
                               "source ../batchplan.bash\nCOMP_WORDS=(batchplan '",
                               absl::StrJoin(words, "' '"), "')\nCOMP_CWORD=", words.size(),
                               "\n_batchplan\n", "printf '%s\\n' \"${COMPREPLY[@]}\"\n"));
  return absl::StrSplit(OutputOf(absl::StrCat("bash -c 'source ", directory.Path("run.bash"), "'")),
                        '\n', absl::SkipEmpty());
}

TEST(Completion, BashCompletesCommandsFlagsWordsAndFiles) {
  const ScratchDirectory directory;
  directory.Write("files/lengths one.txt", "1\n");
  directory.Write("files/other", "1\n");
  const auto complete = [&](const std::vector<std::string>& words) {
    return Complete(directory, words);
  };
  EXPECT_THAT(complete({""}),
              IsSupersetOf({"plan", "compare", "completion", "sweep", "lengths", "--help"}));
  EXPECT_THAT(complete({"comp"}), ElementsAre("compare", "completion"));
  EXPECT_THAT(complete({"--v"}), ElementsAre("--version"));
  EXPECT_THAT(complete({"plan", "--max_s"}), ElementsAre("--max_sequences"));
  EXPECT_THAT(complete({"plan", "--max-s"}), ElementsAre("--max_sequences"));
  EXPECT_THAT(complete({"sweep", "--max_f"}), IsEmpty());
  EXPECT_THAT(complete({"lengths", "--max_f"}), ElementsAre("--max_files"));
  EXPECT_THAT(complete({"plan", "--effort", ""}), IsSupersetOf({"fast", "thorough"}));
  EXPECT_THAT(complete({"plan", "--effort", "f"}), ElementsAre("fast"));
  EXPECT_THAT(complete({"plan", "--effort", "=", "f"}), ElementsAre("fast"));
  EXPECT_THAT(complete({"plan", "--effort", "="}), Contains("fast"));
  EXPECT_THAT(complete({"plan", "--format", "seq"}), ElementsAre("sequences_csv"));
  EXPECT_THAT(complete({"plan", "--mini-batch-order", "sh"}), ElementsAre("shuffled"));
  EXPECT_THAT(complete({"plan", "--lengths", "l"}), ElementsAre("lengths one.txt"));
  EXPECT_THAT(complete({"plan", "--budget", ""}), IsEmpty());
  EXPECT_THAT(complete({"lengths", "o"}), ElementsAre("other"));
  EXPECT_THAT(complete({"completion", ""}), IsSupersetOf({"bash", "zsh", "fish"}));
}

TEST(Completion, ZshAndFishHaveTheSameFlagsAndWords) {
  EXPECT_THAT(Script("zsh"),
              AllOf(HasSubstr("#compdef batchplan\n"), HasSubstr("'--budget=["),
                    HasSubstr(":NAME:(fast "), HasSubstr(":FILE:_files'"),
                    HasSubstr("'--server=[Plan there]:HOST\\:PORT: '"), HasSubstr("'--verify[")));
  EXPECT_THAT(
      Script("fish"),
      AllOf(HasSubstr("__fish_seen_subcommand_from plan' -l budget -d '"), HasSubstr("-xa 'fast "),
            HasSubstr("-l lengths -d 'One length a line"), HasSubstr("-a sweep -d '")));
  for (const char* shell : {"bash", "zsh", "fish"}) {
    // Only the help has this.
    EXPECT_THAT(Script(shell), Not(HasSubstr("{fast")));
  }
}

}  // namespace
}  // namespace batchplan
