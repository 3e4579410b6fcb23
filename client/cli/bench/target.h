// A server that a benchmark calls: the same requests again and again, as ready bytes, so that the
// client's part costs little.
//
//   BenchTarget target("planner:50051", {.connections = 2}, requests);
//   RunClosedLoop(load, target.call(), &result);
//
// Answers are received and not parsed. Thread-safe.

#ifndef BATCHPLAN_CLIENT_CLI_BENCH_TARGET_H_
#define BATCHPLAN_CLIENT_CLI_BENCH_TARGET_H_

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "batchplan/v1/batch_planner.pb.h"
#include "client/cli/bench/load.h"

namespace batchplan::cli {

struct BenchTargetOptions {
  // Calls take connections in turn, and requests, and jobs.
  uint32_t connections = 1;
  // Job ids are <the request's>-0, -1, ... if there is more than one.
  uint32_t jobs = 1;
  // Send each request as it is. Otherwise every call has a step and a mini_batches.seed of its
  // own, which no earlier target had either: no cache has its plan.
  bool repeat = false;
  absl::Duration timeout = absl::Seconds(30);
  // Null: plain text.
  std::shared_ptr<grpc::ChannelCredentials> credentials = nullptr;
  // The name that the server's certificate must have; empty: the address's host.
  std::string server_name = {};
};

class BenchTarget {
 public:
  BenchTarget(const std::string& address, const BenchTargetOptions& options,
              const std::vector<v1::PlanBatchRequest>& requests);

  // Lives no longer than this.
  AsyncCall call();

  // The response to the next request.
  absl::StatusOr<std::string> Probe();

 private:
  void Begin(std::function<void(const absl::Status&)> done);
  grpc::ByteBuffer NextRequest();

  const BenchTargetOptions options_;
  // Microseconds of the clock at the start, which are more than calls come in.
  const uint64_t first_seed_;
  std::vector<std::unique_ptr<grpc::GenericStub>> stubs_;
  std::vector<grpc::Slice> requests_;
  std::vector<std::string> job_ids_;
  std::atomic<uint64_t> calls_ = 0;
};

}  // namespace batchplan::cli

#endif  // BATCHPLAN_CLIENT_CLI_BENCH_TARGET_H_
