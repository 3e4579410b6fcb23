#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "client/cli/commands/commands.h"
#include "client/cli/input/choice.h"
#include "client/cli/input/count.h"
#include "client/cli/input/document_lengths.h"
#include "client/cli/input/input_files.h"
#include "client/cli/input/read_documents.h"
#include "client/cli/input/read_parquet.h"
#include "client/cli/input/tokenizer.h"
#include "client/cli/output/outcome.h"

namespace batchplan::cli {
namespace {

constexpr char kCommand[] = "lengths";

constexpr char kFooter[] = R"(
A file is one document, unless --per says otherwise. Of a .jsonl, .ndjson, .json or Parquet file,
and of stdin with --field, every record is one: a JSON object a line, one array of objects, which
is read as a stream, or a row. Each record gives one length, in the order of the file; one of
length 0 is an error. In directories, files are taken in the order of their names, links are not
followed, and a .json file that holds no records is one document. Binary, empty and unreadable
files are skipped, and counted on stderr.

A record is measured by --field, or else by the first of these that it has: input_ids; text;
messages; conversations (and system); prompt and completion; instruction and output (and input,
system, history). Several fields are added up. One with chosen and rejected is two sequences: name
the fields of one. Of a field, text is measured, a list of numbers or strings is counted as tokens,
a number is the length itself. Of messages, content, value or text is measured, also where it is in
parts, and nothing else: add what your chat template puts around them, and tool calls.

The length of a text is an estimate, its bytes / --bytes_per_token rounded up: about 4 for English
prose, 3 for source code. With --tokenizer it is its number of tokens, without special ones.

Parquet files and tokenizers are read by python3, or the Python that BATCHPLAN_PYTHON names, with
its packages pyarrow and tokenizers (pip install pyarrow tokenizers).

Examples:
  batchplan lengths /usr/share/doc > lengths.txt
  batchplan lengths --per paragraph --limit 10000 corpus.txt
  batchplan lengths --tokenizer Qwen3-8B/tokenizer.json chats.jsonl alpaca.json
  batchplan lengths --field prompt.text,answer train.parquet
  zcat train.jsonl.gz | batchplan lengths --per record - | batchplan plan --lengths - ...

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
  // Unset: by the name of the file.
  std::optional<Unit> unit;
  std::vector<std::string> fields;
  std::string tokenizer;
  DocumentLengths::Options measure;
  uint64_t max_files = std::numeric_limits<uint64_t>::max();
  uint64_t limit = std::numeric_limits<uint64_t>::max();
};

// One run of the command.
class LengthsRun {
 public:
  // `tokenizer` may be null.
  LengthsRun(const LengthsFlags& flags, Tokenizer* tokenizer)
      : flags_(flags),
        documents_(flags.measure, tokenizer, [this](uint32_t tokens) { return Print(tokens); }) {}

  ExitCode Run() {
    absl::Status read = ReadAll();
    // Documents read before an error still count. If counting them fails too, that error is
    // reported.
    const absl::StatusOr<bool> counted = documents_.Flush();
    if (!counted.ok()) read = counted.status();
    const absl::Status written = WriteToStdout(output_);
    if (binary_ + empty_ + unreadable_ > 0) {
      std::fputs(absl::StrCat("batchplan: lengths: skipped ", binary_, " binary, ", empty_,
                              " empty and ", unreadable_, " unreadable files\n")
                     .c_str(),
                 stderr);
    }
    if (documents_.skipped_records() > 0) {
      std::fputs(absl::StrCat("batchplan: lengths: skipped ", documents_.skipped_records(),
                              " records of length 0\n")
                     .c_str(),
                 stderr);
    }
    if (!read.ok()) return ReportError(kCommand, read);
    if (!written.ok()) return ReportError(kCommand, written);
    if (printed_ == 0) return ReportError(kCommand, absl::NotFoundError("no document found"));
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
        const Unit unit = flags_.unit.value_or(flags_.fields.empty() ? Unit::kFile : Unit::kRecord);
        more = unit == Unit::kRecord
                   ? ReadRecords(input.stream(), DisplayName(path), RecordLayout::kLines,
                                 flags_.fields, &documents_)
                   : ReadText(input.stream(), DisplayName(path), unit, &documents_);
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
      // An unreadable file is an error if it was named, and skipped if a directory listed it.
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
    if (flags_.unit.value_or(Unit::kRecord) == Unit::kRecord) {
      const size_t probed = end - probe.data();
      if (absl::StartsWith(absl::string_view(probe.data(), probed), kParquetMagic)) {
        ++files_;
        return ReadParquet(path, flags_.fields, &documents_);
      }
      // For instance a pointer file of Git LFS.
      if (absl::EndsWith(path, ".parquet")) {
        return absl::InvalidArgumentError(absl::StrCat(path, ": is not a Parquet file"));
      }
    }
    if (std::find(const_cast<const char*>(probe.data()), end, '\0') != end) {
      ++binary_;
      return true;
    }
    Rewind(&input);
    ++files_;
    return Measure(&input, path, named);
  }

  static void Rewind(Input* input) {
    input->stream().clear();
    input->stream().seekg(0);
  }

  absl::StatusOr<bool> Measure(Input* input, const std::string& path, bool named) {
    const bool is_json = absl::EndsWith(path, ".json");
    const bool is_lines = absl::EndsWith(path, ".jsonl") || absl::EndsWith(path, ".ndjson");
    const Unit unit = flags_.unit.value_or(is_json || is_lines ? Unit::kRecord : Unit::kFile);
    if (unit != Unit::kRecord) return ReadText(input->stream(), path, unit, &documents_);

    int64_t records = 0;
    absl::StatusOr<bool> more =
        ReadRecords(input->stream(), path, is_json ? RecordLayout::kObjects : RecordLayout::kLines,
                    flags_.fields, &documents_, &records);
    // A directory may hold JSON that is not records. Unless the caller said that this file has
    // records, it is read as text.
    const bool may_be_text = is_json && !named && !flags_.unit.has_value() && flags_.fields.empty();
    if (!absl::IsInvalidArgument(more.status()) || records > 0 || !may_be_text) return more;
    Rewind(input);
    return ReadText(input->stream(), path, Unit::kFile, &documents_);
  }

  absl::StatusOr<bool> Print(uint32_t tokens) {
    absl::StrAppend(&output_, tokens, "\n");
    ++printed_;
    if (output_.size() >= kOutputBytes) {
      absl::Status written = WriteToStdout(output_);
      output_.clear();
      if (!written.ok()) return written;
    }
    return printed_ < flags_.limit;
  }

  const LengthsFlags& flags_;
  DocumentLengths documents_;
  std::string output_;
  uint64_t files_ = 0;
  uint64_t printed_ = 0;
  int64_t binary_ = 0;
  int64_t empty_ = 0;
  int64_t unreadable_ = 0;
};

// The unit that --per names.
Unit UnitOf(const std::string& word) {
  if (word == "file") return Unit::kFile;
  if (word == "line") return Unit::kLine;
  return word == "paragraph" ? Unit::kParagraph : Unit::kRecord;
}

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
      ->add_option_function<std::string>(
          "--per", [=](const std::string& word) { flags->unit = UnitOf(word); },
          "What one document is: file, line, paragraph (up to a blank line), or record, "
          "of JSON [by the file's name]")
      ->check(OneOf({"file", "line", "paragraph", "record"}))
      ->type_name("NAME");
  command
      ->add_option("--field", flags->fields,
                   "The fields of a record that are measured, such as text or a.b,c [by format]")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("PATH,...");
  command
      ->add_option("--tokenizer", flags->tokenizer,
                   "Count texts in tokens of this tokenizer.json, or of the one in this directory")
      ->type_name("FILE");
  command
      ->add_option("--bytes_per_token", flags->measure.bytes_per_token,
                   "The estimate for text, bytes a token [4]")
      ->check(CLI::PositiveNumber.description(""))
      ->type_name("X");
  command->add_flag("--skip_empty", flags->measure.skips_empty_records,
                    "Pass over records of length 0, and count them on stderr");
  command->add_option("--max_files", flags->max_files, "Read at most so many files [all]")
      ->transform(AsCount())
      ->check(CLI::PositiveNumber.description(""))
      ->type_name("N");
  command->add_option("--limit", flags->limit, "Print at most so many lengths [all]")
      ->transform(AsCount())
      ->check(CLI::PositiveNumber.description(""))
      ->type_name("N");
  command->callback([=] {
    if (!flags->fields.empty() && flags->unit.value_or(Unit::kRecord) != Unit::kRecord) {
      throw CLI::ValidationError("--field", "is of records, which --per is to read as text");
    }
    for (const std::string& field : flags->fields) {
      if (std::count(flags->fields.begin(), flags->fields.end(), field) > 1) {
        throw CLI::ValidationError("--field", absl::StrCat(field, " is named twice"));
      }
    }
    std::unique_ptr<Tokenizer> tokenizer;
    if (!flags->tokenizer.empty()) {
      absl::StatusOr<std::unique_ptr<Tokenizer>> started = Tokenizer::Start(flags->tokenizer);
      if (!started.ok()) {
        *exit_code = ReportError(kCommand, started.status());
        return;
      }
      tokenizer = *std::move(started);
    }
    *exit_code = LengthsRun(*flags, tokenizer.get()).Run();
  });
}

}  // namespace batchplan::cli
