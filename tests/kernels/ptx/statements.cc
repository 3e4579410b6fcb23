#include "ptx/statements.h"

#include <cctype>
#include <utility>

namespace batchplan::ptx {
namespace {

bool IsSpace(char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; }

// Directives of debug information, which end without a semicolon.
bool EndsWithItsLine(std::string_view statement) {
  return statement.starts_with(".loc") || statement.starts_with(".file") ||
         statement.starts_with(".version") || statement.starts_with(".target") ||
         statement.starts_with(".address_size");
}

// A brace behind an instruction's name begins an operand. A brace alone, or behind the declaration
// of a kernel, opens a scope.
bool OpensScope(std::string_view before) {
  return before.empty() || before.find('(') != std::string_view::npos || before.front() == '.';
}

class Splitter {
 public:
  explicit Splitter(std::string_view text) : text_(text) {}

  std::vector<Statement> Split() {
    for (; at_ < text_.size() && text_[at_] != '\0'; ++at_) Take(text_[at_]);
    if (!statement_.empty()) throw ParseError(line_, "an unfinished statement: " + statement_);
    return std::move(statements_);
  }

 private:
  void Take(char c) {
    if (c == '\n') {
      if (EndsWithItsLine(statement_)) End();
      ++line_;
    }
    if (SkipComment() || SkipQuoted(c)) return;
    if (c == ';') return End();
    if (c == '{' && statement_.starts_with(".section")) return SkipSection();
    if (c == '{' && (statement_.empty() || OpensScope(statement_))) {
      // The brace of a variable's initial value opens no scope either.
      if (!statement_.empty() && statement_.find('=') == std::string::npos) End();
      if (statement_.empty()) return Put("{");
    }
    if (c == '}' && statement_.empty()) return Put("}");
    // Braces of operands contain registers, and so no label.
    if (c == ':' && IsLabel()) {
      statement_ += c;
      return End();
    }
    if (IsSpace(c)) {
      if (!statement_.empty() && statement_.back() != ' ') statement_ += ' ';
      return;
    }
    if (statement_.empty()) first_line_ = line_;
    statement_ += c;
  }

  // Two colons belong to a name: ld.global.L1::no_allocate.
  bool IsLabel() const {
    return !statement_.empty() && statement_.find(' ') == std::string::npos &&
           statement_.back() != ':' && (at_ + 1 == text_.size() || text_[at_ + 1] != ':');
  }

  bool SkipComment() {
    if (text_.substr(at_, 2) == "//") {
      while (at_ + 1 < text_.size() && text_[at_ + 1] != '\n') ++at_;
      return true;
    }
    if (text_.substr(at_, 2) == "/*") {
      const size_t end = text_.find("*/", at_ + 2);
      if (end == std::string_view::npos) throw ParseError(line_, "an unfinished comment");
      for (; at_ < end + 1; ++at_) line_ += text_[at_] == '\n' ? 1 : 0;
      return true;
    }
    return false;
  }

  // Skips debug information.
  void SkipSection() {
    for (; at_ < text_.size() && text_[at_] != '}'; ++at_) line_ += text_[at_] == '\n' ? 1 : 0;
    statement_.clear();
  }

  // Skips names of files and pragmas, which may have any characters.
  bool SkipQuoted(char c) {
    if (c != '"') return false;
    const size_t end = text_.find('"', at_ + 1);
    if (end == std::string_view::npos) throw ParseError(line_, "an unfinished string");
    statement_ += text_.substr(at_, end + 1 - at_);
    at_ = end;
    return true;
  }

  void End() {
    const std::string_view text = Trim(statement_);
    if (!text.empty()) statements_.push_back({std::string(text), first_line_});
    statement_.clear();
  }
  void Put(const char* brace) { statements_.push_back({brace, line_}); }

  std::string_view text_;
  size_t at_ = 0;
  uint32_t line_ = 1;
  uint32_t first_line_ = 1;
  std::string statement_;
  std::vector<Statement> statements_;
};

}  // namespace

std::vector<Statement> SplitStatements(std::string_view text) { return Splitter(text).Split(); }

std::string_view Trim(std::string_view text) {
  while (!text.empty() && IsSpace(text.front())) text.remove_prefix(1);
  while (!text.empty() && IsSpace(text.back())) text.remove_suffix(1);
  return text;
}

std::vector<std::string> SplitWords(std::string_view text) {
  std::vector<std::string> words;
  std::string word;
  for (const char c : text) {
    if (!IsSpace(c)) {
      word += c;
    } else if (!word.empty()) {
      words.push_back(std::exchange(word, {}));
    }
  }
  if (!word.empty()) words.push_back(word);
  return words;
}

std::vector<std::string> SplitOperands(std::string_view text) {
  std::vector<std::string> operands;
  std::string operand;
  int depth = 0;
  for (const char c : text) {
    if (c == '{' || c == '[' || c == '(') ++depth;
    if (c == '}' || c == ']' || c == ')') --depth;
    if (c == ',' && depth == 0) {
      operands.emplace_back(Trim(operand));
      operand.clear();
    } else {
      operand += c;
    }
  }
  if (!Trim(operand).empty()) operands.emplace_back(Trim(operand));
  return operands;
}

std::vector<std::string> SplitName(std::string_view name) {
  std::vector<std::string> parts(1);
  for (const char c : name) {
    if (c == '.') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

}  // namespace batchplan::ptx
