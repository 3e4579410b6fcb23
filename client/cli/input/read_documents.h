// Documents out of a stream: of a text, or records of a data set.
//
// Streams are read once, in order. All functions return whether to go on, which the documents say;
// they fail with DataLoss if reading fails, and with the documents' errors.

#ifndef BATCHPLAN_CLIENT_CLI_INPUT_READ_DOCUMENTS_H_
#define BATCHPLAN_CLIENT_CLI_INPUT_READ_DOCUMENTS_H_

#include <cstdint>
#include <istream>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cli/input/document_lengths.h"

namespace batchplan::cli {

// What is one document.
enum class Unit : uint8_t {
  kFile,       // the whole text
  kLine,       // a line, without its end
  kParagraph,  // lines up to a blank one, with their ends
  kRecord,     // a JSON object
};

// Measures each document of the text that `stream` is, called `name`, by a unit but kRecord.
absl::StatusOr<bool> ReadText(std::istream& stream, const std::string& name, Unit unit,
                              DocumentLengths* documents);

// How records stand in a stream.
enum class RecordLayout : uint8_t {
  kLines,    // JSON lines: one a line, "name:line" in errors; or one array of them
  kObjects,  // one array, or one after another, laid out in any way: "name: record number"
  kRows,     // one a line, which is not the user's: as for kObjects
};

// Measures each record of `stream` by `fields`, as record_reader.h says. Blank lines are no
// records. InvalidArgument, naming the record's place, for one that is not a JSON object, or whose
// length can't be told. `records`, if not null, is how many were measured, also after an error.
absl::StatusOr<bool> ReadRecords(std::istream& stream, const std::string& name, RecordLayout layout,
                                 const std::vector<std::string>& fields, DocumentLengths* documents,
                                 int64_t* records = nullptr);

}  // namespace batchplan::cli

#endif  // BATCHPLAN_CLIENT_CLI_INPUT_READ_DOCUMENTS_H_
