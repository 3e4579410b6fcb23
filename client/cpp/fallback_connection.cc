#include "batchplan/fallback_connection.h"

#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "proto/batchplan/v1/call_rules.h"

namespace batchplan {
namespace {

void LogToStderr(const v1::PlanBatchRequest& request, const absl::Status& why) {
  const std::string line =
      absl::StrCat("batchplan: fallback for job \"", absl::CEscape(request.job_id()), "\" step ",
                   request.step(), ": ", absl::CEscape(why.message()), "\n");
  // One write, so that lines of several threads do not mix.
  std::fputs(line.c_str(), stderr);
}

}  // namespace

FallbackConnection::FallbackConnection(std::shared_ptr<Connection> primary,
                                       std::shared_ptr<Connection> secondary,
                                       FallbackOptions options)
    : primary_(std::move(primary)),
      secondary_(std::move(secondary)),
      options_(options.on_fallback ? std::move(options) : FallbackOptions{LogToStderr}) {}

absl::StatusOr<v1::PlanBatchResponse> FallbackConnection::PlanBatch(
    const v1::PlanBatchRequest& request, const CallOptions& options) {
  if (request.cost_model().fitted()) return primary_->PlanBatch(request, options);
  // The steady clock, which neither people nor NTP set.
  const auto start = std::chrono::steady_clock::now();
  CallOptions first = options;
  first.has_fallback = true;
  absl::StatusOr<v1::PlanBatchResponse> response = primary_->PlanBatch(request, first);
  if (!FallsBack(response.status().code())) return response;
  CallOptions rest = options;
  if (rest.timeout.has_value()) {
    *rest.timeout -= absl::FromChrono(std::chrono::steady_clock::now() - start);
  }
  if (rest.timeout.has_value() && *rest.timeout <= absl::ZeroDuration()) return response;

  fallback_count_.fetch_add(1, std::memory_order_relaxed);
  options_.on_fallback(request, response.status());
  return secondary_->PlanBatch(request, rest);
}

std::shared_ptr<FallbackConnection> MakeFallbackConnection(std::shared_ptr<Connection> primary,
                                                           std::shared_ptr<Connection> secondary,
                                                           FallbackOptions options) {
  return std::make_shared<FallbackConnection>(std::move(primary), std::move(secondary),
                                              std::move(options));
}

}  // namespace batchplan
