// The flags that make up a planning request, as opposed to those that say where to send it and how
// to print the answer.

#ifndef BATCHPLAN_CLIENT_CLI_REQUEST_FLAGS_H_
#define BATCHPLAN_CLIENT_CLI_REQUEST_FLAGS_H_

#include <CLI/CLI.hpp>
#include <set>
#include <string>
#include <vector>

#include "batchplan/v1/batch_planner.pb.h"

namespace batchplan::cli {

// No plan without it.
inline constexpr char kBudgetFlag[] = "--budget";

// Adds the flags to `app`, but for those in `without`, and returns them. They fill `request`, which
// gets one pass and must outlive the parse; fields whose flag is not given stay unset, so that the
// preset's values hold.
std::vector<CLI::Option*> AddRequestFlags(CLI::App* app, v1::PlanBatchRequest* request,
                                          const std::set<std::string>& without = {});

}  // namespace batchplan::cli

#endif  // BATCHPLAN_CLIENT_CLI_REQUEST_FLAGS_H_
