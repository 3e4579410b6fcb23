// A server that does nothing: what an RPC costs before anything is planned.
//
//   absl::StatusOr<std::unique_ptr<EchoProcess>> echo = EchoProcess::Fork();   // before gRPC
//   absl::StatusOr<std::string> address = (*echo)->Serve(response);
//
// A process of its own, like the server that it is compared with, that serves PlanBatch over
// loopback as that server does (gRPC's callback API, bytes that nobody parses) and answers every
// request with the same ready bytes, on gRPC's own threads. Not thread-safe.

#ifndef BATCHPLAN_CLIENT_CLI_BENCH_ECHO_PROCESS_H_
#define BATCHPLAN_CLIENT_CLI_BENCH_ECHO_PROCESS_H_

#include <sys/types.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace batchplan::cli {

class EchoProcess {
 public:
  // Call it while this process has one thread: the child could not use what another thread holds.
  static absl::StatusOr<std::unique_ptr<EchoProcess>> Fork();

  // Ends the process.
  ~EchoProcess();

  EchoProcess(const EchoProcess&) = delete;
  EchoProcess& operator=(const EchoProcess&) = delete;

  // Has it answer with `response` from now on, and returns its address. Once.
  absl::StatusOr<std::string> Serve(const std::string& response);

 private:
  EchoProcess(pid_t child, int to_child, int from_child)
      : child_(child), to_child_(to_child), from_child_(from_child) {}

  const pid_t child_;
  const int to_child_;
  const int from_child_;
};

}  // namespace batchplan::cli

#endif  // BATCHPLAN_CLIENT_CLI_BENCH_ECHO_PROCESS_H_
