// What a request is about, in a line each: the batch, and the job that trains on it.

#ifndef BATCHPLAN_CLIENT_CLI_OUTPUT_REQUEST_SUMMARY_H_
#define BATCHPLAN_CLIENT_CLI_OUTPUT_REQUEST_SUMMARY_H_

#include <cstdint>
#include <string>

#include "batchplan/v1/batch_planner.pb.h"
#include "batchplan/v1/options.pb.h"

namespace batchplan::cli {

// "1 token", "1,234 tokens".
std::string Count(uint64_t number, const std::string& noun);

// "60 sequences, 12,345 tokens, the longest 400". A length of 0 is one that is not known, of a
// sequence that waits: "12,345 tokens, without 8 that wait, the longest 400".
std::string BatchLine(const v1::Manifest& manifest);

// "DP 8 x CP 2, sequence parallel"; sizes of 1 other than DP are left out.
std::string TopologyLine(const v1::Topology& topology);

// "16,384 tokens a micro-batch". Where groups differ in size, with the context_parallel `ranks`,
// else 0: "16,384 tokens for every 2 ranks of a group".
std::string BudgetLine(uint32_t max_tokens, uint32_t ranks);

// The preset's name; "balanced (the default)" if the request names none.
std::string PresetLine(const v1::PlanBatchRequest& request);

// What context-parallel ranks exchange: "0.02 a token in groups of up to 8, 0.065 in larger ones,
// behind attention"; "none" where they exchange nothing.
std::string ExchangeLine(const v1::CostModel& costs);

// "lockstep" or "accumulated"; that which holds where the request says neither.
std::string SynchronizationName(const v1::PlanBatchRequest& request);

}  // namespace batchplan::cli

#endif  // BATCHPLAN_CLIENT_CLI_OUTPUT_REQUEST_SUMMARY_H_
