// Files of lengths, which plans are made of.

#ifndef BATCHPLAN_CLIENT_CLI_INPUT_READ_LENGTHS_H_
#define BATCHPLAN_CLIENT_CLI_INPUT_READ_LENGTHS_H_

#include <cstdint>
#include <istream>
#include <string>

#include "absl/status/status.h"
#include "batchplan/v1/options.pb.h"

namespace batchplan::cli {

// What the third column of a file of lengths is.
enum class ThirdColumn : uint8_t { kRank, kAge };

// A file of lengths has one whole number a line, or two, the length and the sequence's group, or
// three, with the rank that has it, or its age, behind; - in the second column stands for no group.
// Blank lines, and everything from a # to the end of its line, are ignored.
//
// Fills `manifest`, empty so far, with the lengths that `stream` holds, their groups and ranks or
// ages. InvalidArgument, naming `name`, line and text, for a line that is not a length from 1 to
// 2^32 - 1, alone or with a group, or a group and the third, from 0 to 2^32 - 1; or if some lines
// have a group, or the third, and some none.
absl::Status ReadLengths(std::istream& stream, const std::string& name, ThirdColumn third,
                         v1::Manifest* manifest);

}  // namespace batchplan::cli

#endif  // BATCHPLAN_CLIENT_CLI_INPUT_READ_LENGTHS_H_
