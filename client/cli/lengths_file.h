// Files of sequence lengths: one whole number a line, or two, the length and the sequence's group.
// Blank lines, and everything from a # to the end of its line, are ignored.

#ifndef BATCHPLAN_CLIENT_CLI_LENGTHS_FILE_H_
#define BATCHPLAN_CLIENT_CLI_LENGTHS_FILE_H_

#include <istream>
#include <string>

#include "absl/status/status.h"
#include "batchplan/v1/options.pb.h"

namespace batchplan::cli {

// Fills `manifest`, empty so far, with the lengths that `stream` holds, and with their groups.
// InvalidArgument, naming `name`, line and text, for a line that is not a length from 1 to
// 2^32 - 1, alone or with a group from 0 to 2^32 - 1; or if some lines have a group and some none.
absl::Status ReadLengths(std::istream& stream, const std::string& name, v1::Manifest* manifest);

}  // namespace batchplan::cli

#endif  // BATCHPLAN_CLIENT_CLI_LENGTHS_FILE_H_
