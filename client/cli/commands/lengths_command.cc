#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/cli/commands/commands.h"
#include "client/cli/input/input_files.h"
#include "client/cli/input/read_lengths.h"
#include "client/cli/output/outcome.h"

namespace batchplan::cli {
namespace {

constexpr char kCommand[] = "lengths";

constexpr char kFooter[] = R"(
A file is one document, unless --per says otherwise. In a .jsonl file, and on stdin with --field,
every line is a document: of --field, text is measured, a list is counted, a number is taken as the
length. In directories, files are taken in the order of their names; links are not followed.
Binary, empty and unreadable files are skipped, and counted on stderr.

The length of a text is an estimate, its bytes / --bytes_per_token rounded up: about 4 for English
prose, 3 for source code. For exact lengths, count with your tokenizer.

Examples:
  batchplan lengths /usr/share/doc > lengths.txt
  batchplan lengths --per paragraph --limit 10000 corpus.txt
  batchplan lengths --field messages.prompt train.jsonl
  zcat train.jsonl.gz | batchplan lengths --field text - | batchplan plan --lengths - ...

Exit codes:
  0  lengths were printed
  1  an input can't be read, or holds no document
  2  the command line is wrong
)";

// How much of a file is looked at to tell binary from text.
constexpr size_t kProbedBytes = 8 << 10;
// Lengths are written in pieces of about this size.
constexpr size_t kOutputBytes = 1 << 20;

struct LengthsFlags {
  std::vector<std::string> paths;
  Unit unit = Unit::kFile;
  std::string field;
  double bytes_per_token = 4;
  uint64_t max_files = std::numeric_limits<uint64_t>::max();
  uint64_t limit = std::numeric_limits<uint64_t>::max();
};

// One run of the command.
class LengthsRun {
 public:
  explicit LengthsRun(const LengthsFlags& flags) : flags_(flags) {}

  ExitCode Run() {
    const absl::Status read = ReadAll();
    // What was read before the error is as good as what a pipe saw of it.
    const absl::Status written = WriteToStdout(output_);
    if (binary_ + empty_ + unreadable_ > 0) {
      std::fputs(absl::StrCat("batchplan: lengths: skipped ", binary_, " binary, ", empty_,
                              " empty and ", unreadable_, " unreadable files\n")
                     .c_str(),
                 stderr);
    }
    if (!read.ok()) return ReportError(kCommand, read);
    if (!written.ok()) return ReportError(kCommand, written);
    if (documents_ == 0) return ReportError(kCommand, absl::NotFoundError("no document found"));
    return ExitCode::kOk;
  }

 private:
  absl::Status ReadAll() {
    FileWalk walk;
    absl::StatusOr<bool> more = true;
    for (size_t i = 0; i < flags_.paths.size() && more.ok() && *more; ++i) {
      const std::string& path = flags_.paths[i];
      if (path == kStdin) {
        Input input(path);
        more = ReadStream(input.stream(), DisplayName(path), !flags_.field.empty());
      } else {
        more = walk.Run(
            path, [this](const std::string& file, bool named) { return ReadFile(file, named); });
      }
    }
    unreadable_ += walk.unreadable_directories;
    return more.status();
  }

  // Whether to go on with the next file.
  absl::StatusOr<bool> ReadFile(const std::string& path, bool named) {
    if (files_ == flags_.max_files) return false;
    Input input(path);
    if (!input.status().ok()) {
      // A file that was asked for by name is missed; one of thousands in a directory is not.
      if (named) return input.status();
      ++unreadable_;
      return true;
    }
    std::array<char, kProbedBytes> probe;
    input.stream().read(probe.data(), probe.size());
    const auto* end = probe.data() + input.stream().gcount();
    if (input.stream().bad()) {
      ++unreadable_;
      return true;
    }
    if (probe.data() == end) {
      ++empty_;
      return true;
    }
    if (std::find(const_cast<const char*>(probe.data()), end, '\0') != end) {
      ++binary_;
      return true;
    }
    input.stream().clear();
    input.stream().seekg(0);
    ++files_;
    return ReadStream(input.stream(), path, absl::EndsWith(path, ".jsonl"));
  }

  absl::StatusOr<bool> ReadStream(std::istream& stream, const std::string& name, bool json_lines) {
    const LengthFunction emit = [this](uint32_t tokens) {
      if (documents_ == flags_.limit) return false;
      absl::StrAppend(&output_, tokens, "\n");
      ++documents_;
      if (output_.size() >= kOutputBytes) {
        write_status_ = WriteToStdout(output_);
        output_.clear();
      }
      return write_status_.ok() && documents_ < flags_.limit;
    };
    const absl::Status read =
        json_lines ? ForEachJsonLine(stream, name, flags_.field.empty() ? "text" : flags_.field,
                                     flags_.bytes_per_token, emit)
                   : ForEachText(stream, name, flags_.unit, flags_.bytes_per_token, emit);
    if (!read.ok()) return read;
    if (!write_status_.ok()) return write_status_;
    return documents_ < flags_.limit;
  }

  const LengthsFlags& flags_;
  std::string output_;
  absl::Status write_status_;
  uint64_t files_ = 0;
  uint64_t documents_ = 0;
  int64_t binary_ = 0;
  int64_t empty_ = 0;
  int64_t unreadable_ = 0;
};

}  // namespace

void AddLengthsCommand(CLI::App* app, ExitCode* exit_code) {
  const auto flags = std::make_shared<LengthsFlags>();
  CLI::App* command =
      app->add_subcommand(kCommand, "Print the lengths of documents in tokens, one a line");
  command->footer(kFooter);
  command->add_option("PATH", flags->paths, "Files, directories, or - for stdin")
      ->required()
      ->type_name("");
  command
      ->add_option("--per", flags->unit,
                   "What one document of a text is: file, line, or paragraph (up to a blank line) "
                   "[file]")
      ->transform(CLI::Transformer(std::map<std::string, Unit>{{"file", Unit::kFile},
                                                               {"line", Unit::kLine},
                                                               {"paragraph", Unit::kParagraph}})
                      .description(""))
      ->type_name("NAME");
  command
      ->add_option("--field", flags->field,
                   "The field of a JSON line that holds the document, such as text or a.b [text]")
      ->type_name("PATH");
  command
      ->add_option("--bytes_per_token", flags->bytes_per_token,
                   "The estimate for text, bytes a token [4]")
      ->check(CLI::PositiveNumber.description(""))
      ->type_name("X");
  command->add_option("--max_files", flags->max_files, "Read at most so many files [all]")
      ->check(CLI::PositiveNumber.description(""))
      ->type_name("N");
  command->add_option("--limit", flags->limit, "Print at most so many lengths [all]")
      ->check(CLI::PositiveNumber.description(""))
      ->type_name("N");
  command->callback([=] { *exit_code = LengthsRun(*flags).Run(); });
}

}  // namespace batchplan::cli
