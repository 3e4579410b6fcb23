#include "client/cli/input/tokenizer.h"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "client/cli/input/python_process.h"

namespace batchplan::cli {
namespace {

// Little-endian, as python_program.py reads it and as all supported machines store it.
void Append(uint32_t number, std::string* bytes) {
  bytes->append(reinterpret_cast<const char*>(&number), sizeof(number));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> Tokenizer::Start(const std::string& path) {
  std::filesystem::path file = path;
  std::error_code error;
  if (std::filesystem::is_directory(file, error)) file /= "tokenizer.json";
  if (!std::filesystem::exists(file, error)) {
    return absl::NotFoundError(
        absl::StrCat("--tokenizer: ", file.string(), ": there is no such file"));
  }
  absl::StatusOr<std::unique_ptr<PythonProcess>> process =
      PythonProcess::Start({"tokens", file.string()});
  if (!process.ok()) return process.status();
  uint32_t ready = 0;
  const absl::Status read = (*process)->ReadAll(reinterpret_cast<char*>(&ready), sizeof(ready));
  if (!read.ok()) return read;
  return std::unique_ptr<Tokenizer>(new Tokenizer(*std::move(process)));
}

absl::StatusOr<std::vector<uint32_t>> Tokenizer::Count(const std::vector<std::string>& texts) {
  std::string bytes;
  Append(static_cast<uint32_t>(texts.size()), &bytes);
  for (const std::string& text : texts) Append(static_cast<uint32_t>(text.size()), &bytes);
  for (const std::string& text : texts) bytes += text;
  if (absl::Status written = process_->Write(bytes); !written.ok()) return written;
  std::vector<uint32_t> counts(texts.size());
  const absl::Status read =
      process_->ReadAll(reinterpret_cast<char*>(counts.data()), counts.size() * sizeof(uint32_t));
  if (!read.ok()) return read;
  return counts;
}

}  // namespace batchplan::cli
