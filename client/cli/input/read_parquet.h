// Records out of a Parquet file.

#ifndef BATCHPLAN_CLIENT_CLI_INPUT_READ_PARQUET_H_
#define BATCHPLAN_CLIENT_CLI_INPUT_READ_PARQUET_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/cli/input/document_lengths.h"

namespace batchplan::cli {

// What a Parquet file begins with.
inline constexpr absl::string_view kParquetMagic = "PAR1";

// Measures each row of the Parquet file `path` by `fields`, as ReadRecords does those of JSON
// lines, "path: record number" in errors. Only the columns that can be measured are read, some rows
// at a time. Python's package `pyarrow` does it, beside this process: InvalidArgument if it
// can't be had, or can't read the file.
absl::StatusOr<bool> ReadParquet(const std::string& path, const std::vector<std::string>& fields,
                                 DocumentLengths* documents);

}  // namespace batchplan::cli

#endif  // BATCHPLAN_CLIENT_CLI_INPUT_READ_PARQUET_H_
