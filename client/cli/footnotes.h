// The reasons below a table whose rows only point at them.

#ifndef BATCHPLAN_CLIENT_CLI_FOOTNOTES_H_
#define BATCHPLAN_CLIENT_CLI_FOOTNOTES_H_

#include <string>
#include <vector>

namespace batchplan::cli {

// Not thread-safe.
class Footnotes {
 public:
  // The mark of a note, such as "[2]"; the same text has the same mark.
  std::string Mark(const std::string& note);

  // A line a note, behind its mark, in the order in which they came.
  std::string ToString() const;

 private:
  std::vector<std::string> notes_;
};

}  // namespace batchplan::cli

#endif  // BATCHPLAN_CLIENT_CLI_FOOTNOTES_H_
