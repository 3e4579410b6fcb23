#include "client/cli/input/read_parquet.h"

#include <array>
#include <istream>
#include <memory>
#include <streambuf>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cli/input/document_lengths.h"
#include "client/cli/input/python_process.h"
#include "client/cli/input/read_documents.h"
#include "client/cli/input/record_reader.h"

namespace batchplan::cli {
namespace {

// What a process writes, as a stream. The stream also ends when the process fails.
class ProcessOutput final : public std::streambuf {
 public:
  explicit ProcessOutput(PythonProcess* process) : process_(process) {}

  const absl::Status& status() const { return status_; }

 private:
  int_type underflow() override {
    const absl::StatusOr<size_t> got = process_->Read(buffer_.data(), buffer_.size());
    status_ = got.status();
    if (!got.ok() || *got == 0) return traits_type::eof();
    setg(buffer_.data(), buffer_.data(), buffer_.data() + *got);
    return traits_type::to_int_type(buffer_[0]);
  }

  PythonProcess* const process_;
  std::array<char, 64 << 10> buffer_;
  absl::Status status_;
};

}  // namespace

absl::StatusOr<bool> ReadParquet(const std::string& path, const std::vector<std::string>& fields,
                                 DocumentLengths* documents) {
  std::vector<std::string> arguments = {"parquet", path};
  for (const std::string& field : fields.empty() ? FormatFields() : fields) {
    arguments.push_back(field.substr(0, field.find('.')));
  }
  const absl::StatusOr<std::unique_ptr<PythonProcess>> process = PythonProcess::Start(arguments);
  if (!process.ok()) return process.status();
  ProcessOutput output(process->get());
  std::istream rows(&output);
  absl::StatusOr<bool> more = ReadRecords(rows, path, RecordLayout::kRows, fields, documents);
  // If the process failed, its error explains why the last record is incomplete.
  return output.status().ok() ? more : output.status();
}

}  // namespace batchplan::cli
