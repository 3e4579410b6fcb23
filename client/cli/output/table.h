// Columns of text, aligned, without lines: what a terminal, a log and a README all show alike. The
// numbers in the cells, as text, and the notes below the rows are written here, too.

#ifndef BATCHPLAN_CLIENT_CLI_OUTPUT_TABLE_H_
#define BATCHPLAN_CLIENT_CLI_OUTPUT_TABLE_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace batchplan::cli {

enum class Justify : uint8_t { kLeft, kRight };

// Rows of cells, ASCII. Not thread-safe.
class Table {
 public:
  // One entry a column.
  explicit Table(std::vector<Justify> columns) : columns_(std::move(columns)) {}

  // As many cells as columns.
  void AddRow(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }

  // The rows, each ended by a newline, columns as wide as their widest cell and two spaces apart.
  std::string ToString() const;

 private:
  std::vector<Justify> columns_;
  std::vector<std::vector<std::string>> rows_;
};

// The reasons below a table whose rows only point at them. Not thread-safe.
class Footnotes {
 public:
  // The mark of a note, such as "[2]"; the same text has the same mark.
  std::string Mark(const std::string& note);

  // A line a note, behind its mark, in the order in which they came.
  std::string ToString() const;

 private:
  std::vector<std::string> notes_;
};

// 1234567 as "1,234,567".
std::string WithThousands(uint64_t number);

// 0.9371 as "93.7%".
std::string Percent(double share);

// Six significant digits, or all before the point: 0.1234567 as "0.123457", 1234567.8 as
// "1,234,568".
std::string Decimal(double number);

// 12.345 as "12.3 ms".
std::string Milliseconds(double milliseconds);

}  // namespace batchplan::cli

#endif  // BATCHPLAN_CLIENT_CLI_OUTPUT_TABLE_H_
