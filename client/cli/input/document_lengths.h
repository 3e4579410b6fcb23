// Documents in, their lengths in tokens out.

#ifndef BATCHPLAN_CLIENT_CLI_INPUT_DOCUMENT_LENGTHS_H_
#define BATCHPLAN_CLIENT_CLI_INPUT_DOCUMENT_LENGTHS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/cli/input/record_reader.h"
#include "client/cli/input/tokenizer.h"

namespace batchplan::cli {

// Takes the length of the next document, at least 1; returns whether to go on.
using LengthFunction = std::function<absl::StatusOr<bool>(uint32_t tokens)>;

// Measures documents one after another. Not thread-safe.
//
// With a tokenizer, texts are gathered and counted together, so that lengths come some documents
// later, at Flush at the latest. A text that is long is counted in pieces, cut before a space: few
// tokenizers look across that.
//
// Where lengths come, the methods return whether to go on. They fail with visit's and the
// tokenizer's errors, and with InvalidArgument, naming the document's place, if the length of a
// record is 0, or that of any document above 2^32 - 1.
class DocumentLengths {
 public:
  struct Options {
    // The estimate of a text without a tokenizer: its bytes / this, rounded up.
    double bytes_per_token = 4;
    // Passes over records of length 0.
    bool skips_empty_records = false;
  };

  // `tokenizer` may be null.
  DocumentLengths(const Options& options, Tokenizer* tokenizer, LengthFunction visit);

  // Whether records have to come with their texts.
  bool needs_texts() const { return tokenizer_ != nullptr; }

  // What comes next in a text, whose end is EndText. A text of length 0 is passed over.
  absl::StatusOr<bool> AddToText(absl::string_view piece);
  absl::StatusOr<bool> EndText(const std::string& place);

  absl::StatusOr<bool> AddRecord(RecordContent content, const std::string& place);

  // Counts what was gathered.
  absl::StatusOr<bool> Flush();

  int64_t skipped_records() const { return skipped_records_; }

 private:
  struct Document {
    uint64_t text_bytes = 0;
    // Known so far.
    uint64_t tokens = 0;
    bool is_record = false;
    std::string place;
  };

  // The document that is open has all its texts.
  absl::StatusOr<bool> End();
  void Gather(std::string text);
  absl::StatusOr<bool> FlushIfMuch();
  absl::StatusOr<bool> Emit(const Document& document);

  const Options options_;
  Tokenizer* const tokenizer_;
  const LengthFunction visit_;
  int64_t skipped_records_ = 0;

  Document open_;
  // With a tokenizer: of the text that is open, what is not gathered yet.
  std::string piece_;
  // Documents that have ended and wait for their tokens.
  std::vector<Document> waiting_;
  // The texts gathered, with their documents: places in waiting_, its size being that of open_.
  std::vector<std::string> texts_;
  std::vector<size_t> documents_;
  size_t gathered_bytes_ = 0;
};

}  // namespace batchplan::cli

#endif  // BATCHPLAN_CLIENT_CLI_INPUT_DOCUMENT_LENGTHS_H_
