// Texts counted in tokens, by a tokenizer of Hugging Face's.

#ifndef BATCHPLAN_CLIENT_CLI_INPUT_TOKENIZER_H_
#define BATCHPLAN_CLIENT_CLI_INPUT_TOKENIZER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cli/input/python_process.h"

namespace batchplan::cli {

// Not thread-safe. Python's package `tokenizers` does the work, beside this process.
class Tokenizer {
 public:
  // `path` is a tokenizer.json, or the directory that has it. NotFound if there is none;
  // InvalidArgument if it can't be read, or Python's package can't be had.
  static absl::StatusOr<std::unique_ptr<Tokenizer>> Start(const std::string& path);

  // The tokens of each text, without special ones. All texts together are encoded at once, so they
  // should be few MiB: hundreds of bytes are needed for one.
  absl::StatusOr<std::vector<uint32_t>> Count(const std::vector<std::string>& texts);

 private:
  explicit Tokenizer(std::unique_ptr<PythonProcess> process) : process_(std::move(process)) {}

  std::unique_ptr<PythonProcess> process_;
};

}  // namespace batchplan::cli

#endif  // BATCHPLAN_CLIENT_CLI_INPUT_TOKENIZER_H_
