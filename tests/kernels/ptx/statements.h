// The text of a PTX module as statements, without comments.

#ifndef BATCHPLAN_TESTS_KERNELS_PTX_STATEMENTS_H_
#define BATCHPLAN_TESTS_KERNELS_PTX_STATEMENTS_H_

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace batchplan::ptx {

// Names the line and its text.
class ParseError : public std::runtime_error {
 public:
  ParseError(uint32_t line, const std::string& what)
      : std::runtime_error("PTX line " + std::to_string(line) + ": " + what) {}
};

// The text before a semicolon, on one line; or a label with its colon; or "{" or "}"; or a .loc or
// .file, which end with their line.
struct Statement {
  std::string text;
  uint32_t line = 0;
};

std::vector<Statement> SplitStatements(std::string_view text);

std::string_view Trim(std::string_view text);

// Splits at spaces.
std::vector<std::string> SplitWords(std::string_view text);

// Splits at commas outside of brackets, and trims.
std::vector<std::string> SplitOperands(std::string_view text);

// Splits at dots: "ld.global.u32" has three parts.
std::vector<std::string> SplitName(std::string_view name);

}  // namespace batchplan::ptx

#endif  // BATCHPLAN_TESTS_KERNELS_PTX_STATEMENTS_H_
