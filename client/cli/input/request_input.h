// What a command plans: a file of lengths and the flags that make up a request, or a whole request
// as JSON. Where it is sent and how the answer is printed, other flags say.

#ifndef BATCHPLAN_CLIENT_CLI_INPUT_REQUEST_INPUT_H_
#define BATCHPLAN_CLIENT_CLI_INPUT_REQUEST_INPUT_H_

#include <CLI/CLI.hpp>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "batchplan/v1/batch_planner.pb.h"
#include "client/cli/input/flag_names.h"
#include "client/cli/input/read_lengths.h"

namespace batchplan::cli {

// No plan without it.
inline constexpr char kBudgetFlag[] = "--budget";

// What an unset cost model stands for on ranks of this topology: others with a pipeline and with
// dynamic_context, and with the latter an exchange.
v1::CostModel DefaultCosts(const v1::Topology& topology);

// Not thread-safe. Must outlive the parse.
class RequestInput {
 public:
  // Adds --request, --lengths and the request's flags but for those in `without`. Fields whose flag
  // is not given stay unset, so that the preset's values hold. A request from a
  // file excludes every flag; lengths need --budget, which a command that leaves it out adds
  // and requires itself.
  void AddTo(CLI::App* app, const std::set<std::string>& without = {});

  // Another way to say what is planned, in place of --lengths: with `option`, Check asks for no
  // file, and whoever added it fills the manifest.
  void AddAlternative(CLI::Option* option);

  // CLI::RequiredError if the command line names no input; for the command's callback.
  void Check() const;

  // The request, complete: reads the named file. InvalidArgument, naming file and line, if it holds
  // something else; NotFound if it can't be opened. The input is read once: call it once. With
  // `pipeline`, costs that --exchange or --load_cost is added to are those of a pipeline, whatever
  // --pp says.
  absl::Status Read(bool pipeline = false);

  const v1::PlanBatchRequest& request() const { return request_; }

  // A flag of the command's own, which sets the field at `path` beside the request.
  void AddFlagName(const std::string& path, const std::string& flag) {
    flag_names_.Add(path, flag);
  }

  // Why a planner refused the request, with the flags beside the fields that it names (FlagNames).
  // As it is where the request is a file's.
  absl::Status NameFlags(const absl::Status& refused) const;

 private:
  CLI::App* app_ = nullptr;
  CLI::Option* request_file_ = nullptr;
  CLI::Option* lengths_ = nullptr;
  CLI::Option* budget_ = nullptr;
  CLI::Option* alternative_ = nullptr;
  std::string request_path_;
  std::string lengths_path_;
  LengthColumns columns_;
  // What --exchange, --exchange_overlaps and --load_cost say.
  v1::CostModel added_costs_;
  v1::PlanBatchRequest request_;
  FlagNames flag_names_;
};

}  // namespace batchplan::cli

#endif  // BATCHPLAN_CLIENT_CLI_INPUT_REQUEST_INPUT_H_
