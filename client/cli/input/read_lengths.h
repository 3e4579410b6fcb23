// Files of lengths, which plans are made of.

#ifndef BATCHPLAN_CLIENT_CLI_INPUT_READ_LENGTHS_H_
#define BATCHPLAN_CLIENT_CLI_INPUT_READ_LENGTHS_H_

#include <cstddef>
#include <istream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "batchplan/v1/options.pb.h"

namespace batchplan::cli {

// A load that every line has in a column.
struct LoadColumn {
  std::string name;
  // Its items, separated by commas, or - for none, in place of one number.
  bool has_items = false;
};

// What the columns behind length and group are.
struct LengthColumns {
  // Of the third.
  bool is_age = false;
  // Whether behind these every line has what its sequence shares: in one column with the first of
  // its group, or in two with the sequence of the position that the second says.
  bool has_prompt = false;
  bool has_prefix = false;
  // Whether it has its kind behind all these.
  bool has_kind = false;
  // The last columns.
  std::vector<LoadColumn> loads = {};

  size_t shared() const { return has_prefix ? 2 : has_prompt ? 1 : 0; }
  // Those that every line has, whatever stands before them.
  size_t last() const { return shared() + (has_kind ? 1 : 0) + loads.size(); }
};

// A file of lengths has one whole number a line, or two, the length and the sequence's group, or
// three, with the rank that has it, or its age, behind; - in the second column stands for no group.
// What sequences share comes behind, then their kind, and their loads come last. Blank lines, and
// everything from a # to the end of its line, are ignored.
//
// Fills `manifest`, empty so far, with what `stream` holds. InvalidArgument, naming `name`, line
// and text, for a line that is not a length from 1 to 2^32 - 1, alone or with a group, or a group
// and the third, and then what it shares and its kind, from 0 to 2^32 - 1, and numbers for its
// loads; or if some lines have a group, or the third, and some none.
absl::Status ReadLengths(std::istream& stream, const std::string& name,
                         const LengthColumns& columns, v1::Manifest* manifest);

}  // namespace batchplan::cli

#endif  // BATCHPLAN_CLIENT_CLI_INPUT_READ_LENGTHS_H_
