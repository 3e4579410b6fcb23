#include "ptx/parser.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "ptx/decoder.h"
#include "ptx/names.h"

namespace batchplan::ptx {
namespace {

std::string Demangled(const std::string& name) {
  int status = 0;
  char* const text = abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status);
  std::string demangled = status == 0 ? text : name;
  std::free(text);
  // Namespaces and parameters only make names longer; templates name what they return.
  for (const std::string noise :
       {"(anonymous namespace)::", "batchplan::kernels::cuda::", "void "}) {
    for (size_t at = demangled.find(noise); at != std::string::npos; at = demangled.find(noise)) {
      demangled.erase(at, noise.size());
    }
  }
  demangled.resize(std::min(demangled.find('('), demangled.size()));
  return demangled;
}

// The body of one kernel.
class KernelParser {
 public:
  KernelParser(const Statement& header, const std::map<std::string, std::string>& files)
      : files_(files), names_(kernel_) {
    const size_t open = header.text.find('(');
    const size_t close = header.text.rfind(')');
    if (open == std::string::npos || close == std::string::npos) {
      throw ParseError(header.line, header.text);
    }
    kernel_.name = SplitWords(header.text.substr(0, open)).back();
    kernel_.pretty_name = Demangled(kernel_.name);
    const std::string parameters = header.text.substr(open + 1, close - open - 1);
    for (const std::string& parameter : SplitOperands(parameters)) {
      kernel_.parameters.push_back(
          names_.DeclareVariable({parameter, header.line}, kernel_.parameter_bytes, 0));
    }
    const size_t most_threads = header.text.find(".maxntid", close);
    if (most_threads != std::string::npos) {
      kernel_.most_threads = static_cast<uint32_t>(
          std::atoi(header.text.c_str() + most_threads + std::string(".maxntid").size()));
    }
  }

  // False after the end of the kernel.
  bool Take(const Statement& statement) {
    const std::string& text = statement.text;
    if (text == "{") {
      ++depth_;
      names_.OpenScope();
    } else if (text == "}") {
      --depth_;
      names_.CloseScope();
      return depth_ > 0;
    } else if (text.back() == ':') {
      labels_[text.substr(0, text.size() - 1)] = static_cast<uint32_t>(kernel_.code.size());
    } else if (text[0] == '.') {
      TakeDirective(statement);
    } else {
      Decoded decoded = Decode(statement, names_);
      if (!decoded.label.empty()) {
        branches_.push_back({kernel_.code.size(), decoded.label, statement.line});
      }
      Append(decoded.instruction, text, statement.line);
    }
    return true;
  }

  Kernel Finish() {
    for (const Branch& branch : branches_) {
      const auto found = labels_.find(branch.label);
      if (found == labels_.end()) throw ParseError(branch.line, "unknown label " + branch.label);
      kernel_.code[branch.at].target = found->second;
    }
    // An exit, in case the kernel ends without `ret`.
    Instruction exit;
    exit.opcode = Opcode::kExit;
    Append(exit, "}", 0);
    return std::move(kernel_);
  }

 private:
  struct Branch {
    size_t at;
    std::string label;
    uint32_t line;
  };

  void TakeDirective(const Statement& statement) {
    const std::string& text = statement.text;
    if (text.starts_with(".reg ")) {
      names_.DeclareRegisters(statement);
    } else if (text.starts_with(".shared ")) {
      names_.DeclareVariable(statement, kernel_.shared_bytes, kFirstOffset);
    } else if (text.starts_with(".local ")) {
      names_.DeclareVariable(statement, kernel_.local_bytes, kFirstOffset);
    } else if (text.starts_with(".loc ")) {
      // .loc FILE LINE COLUMN, then where it was inlined.
      const std::vector<std::string> words = SplitWords(text);
      const auto file = files_.find(words.at(1));
      source_line_ = (file == files_.end() ? "" : file->second) + ":" + words.at(2);
    } else if (!text.starts_with(".pragma ")) {
      throw ParseError(statement.line, "unknown directive: " + text);
    }
  }

  void Append(const Instruction& instruction, const std::string& text, uint32_t line) {
    kernel_.code.push_back(instruction);
    kernel_.text.push_back(text);
    kernel_.line.push_back(line);
    kernel_.source_line.push_back(source_line_);
  }

  const std::map<std::string, std::string>& files_;
  Kernel kernel_;
  Names names_;
  int depth_ = 0;
  std::map<std::string, uint32_t> labels_;
  std::vector<Branch> branches_;
  std::string source_line_;
};

// File names by number, from `.file 1 "/path/move.cu"`, without folders.
std::map<std::string, std::string> FilesOf(const std::vector<Statement>& statements) {
  std::map<std::string, std::string> files;
  for (const Statement& statement : statements) {
    if (!statement.text.starts_with(".file ")) continue;
    const size_t open = statement.text.find('"');
    const size_t close = statement.text.rfind('"');
    const std::string path = statement.text.substr(open + 1, close - open - 1);
    files[SplitWords(statement.text)[1]] = path.substr(path.rfind('/') + 1);
  }
  return files;
}

bool IsKernel(const std::string& text) { return text.find(".entry ") != std::string::npos; }

}  // namespace

Module Parse(std::string_view text) {
  const std::vector<Statement> statements = SplitStatements(text);
  const std::map<std::string, std::string> files = FilesOf(statements);
  Module module;
  for (size_t i = 0; i < statements.size(); ++i) {
    const Statement& header = statements[i];
    // Only kernels are read: a variable that one of ours used would be an unknown operand there.
    if (!IsKernel(header.text)) {
      if (header.text == "{") throw ParseError(header.line, "a function is not interpreted");
      continue;
    }
    KernelParser parser(header, files);
    for (++i; i < statements.size() && parser.Take(statements[i]);) ++i;
    if (i == statements.size()) throw ParseError(header.line, "an unfinished kernel");
    Kernel kernel = parser.Finish();
    std::string name = kernel.name;
    module.emplace(std::move(name), std::move(kernel));
  }
  return module;
}

}  // namespace batchplan::ptx
