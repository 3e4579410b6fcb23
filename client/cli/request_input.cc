#include "client/cli/request_input.h"

#include <CLI/CLI.hpp>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "client/cli/input.h"
#include "client/cli/lengths_file.h"
#include "client/cli/request_flags.h"
#include "proto/batchplan/v1/json.h"

namespace batchplan::cli {
namespace {

absl::Status ReadRequest(const std::string& path, v1::PlanBatchRequest* request) {
  Input input(path);
  if (!input.status().ok()) return input.status();
  const std::string json{std::istreambuf_iterator<char>(input.stream()),
                         std::istreambuf_iterator<char>()};
  request->Clear();
  if (const absl::Status parsed = FromJson(json, request); !parsed.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(DisplayName(path), ": not a PlanBatchRequest in JSON: ", parsed.message()));
  }
  return absl::OkStatus();
}

}  // namespace

void RequestInput::AddTo(CLI::App* app, const std::set<std::string>& without) {
  request_file_ =
      app->add_option("--request", request_path_, "A PlanBatchRequest as protobuf JSON; - is stdin")
          ->type_name("FILE")
          ->group("Input, one of");
  lengths_ = app->add_option("--lengths", lengths_path_,
                             "One length a line, or a length and a group; blank lines and # "
                             "comments are fine; - is stdin")
                 ->type_name("FILE")
                 ->group("Input, one of");
  const std::vector<CLI::Option*> flags = AddRequestFlags(app, &request_, without);
  if (!without.contains(kBudgetFlag)) {
    budget_ = app->get_option(kBudgetFlag);
    RequireForLengths(budget_);
  }
  lengths_->excludes(request_file_);
  for (CLI::Option* flag : flags) request_file_->excludes(flag);
}

void RequestInput::AddAlternative(CLI::Option* option) {
  alternative_ = option->excludes(lengths_)->excludes(request_file_)->group("Input, one of");
  if (budget_ != nullptr) alternative_->needs(budget_);
}

void RequestInput::Check() const {
  if (alternative_ != nullptr && alternative_->count() > 0) return;
  if (request_path_.empty() && lengths_path_.empty()) {
    throw CLI::RequiredError(absl::StrCat(
        "--lengths FILE or --request FILE",
        alternative_ == nullptr
            ? ""
            : absl::StrCat(" or ", alternative_->get_name(), " ", alternative_->get_type_name())));
  }
}

absl::Status RequestInput::Read() {
  if (!request_path_.empty()) return ReadRequest(request_path_, &request_);
  Input input(lengths_path_);
  if (!input.status().ok()) return input.status();
  return ReadLengths(input.stream(), DisplayName(lengths_path_), request_.mutable_manifest());
}

}  // namespace batchplan::cli
