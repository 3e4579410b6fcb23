#include "client/cli/bench/echo_process.h"

#include <grpcpp/grpcpp.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "batchplan/v1/batch_planner.grpc.pb.h"

namespace batchplan::cli {
namespace {

// Reads all of `size` bytes; false if the pipe ends before.
bool ReadAll(int pipe, void* data, size_t size) {
  char* to = static_cast<char*>(data);
  while (size > 0) {
    const ssize_t got = read(pipe, to, size);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    to += got;
    size -= static_cast<size_t>(got);
  }
  return true;
}

bool WriteAll(int pipe, const void* data, size_t size) {
  const char* from = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t put = write(pipe, from, size);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return false;
    from += put;
    size -= static_cast<size_t>(put);
  }
  return true;
}

class EchoService final
    : public v1::BatchPlanner::WithRawCallbackMethod_PlanBatch<v1::BatchPlanner::Service> {
 public:
  explicit EchoService(const std::string& response) : response_(response) {}

 private:
  grpc::ServerUnaryReactor* PlanBatch(grpc::CallbackServerContext* context,
                                      const grpc::ByteBuffer* /*request*/,
                                      grpc::ByteBuffer* response) override {
    *response = grpc::ByteBuffer(&response_, 1);
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }

  const grpc::Slice response_;
};

// What the child process does: reads the response from the pipe, serves it, writes its address
// back, and runs until the parent closes the pipe or dies.
void Echo(int from_parent, int to_parent) {
  uint64_t size = 0;
  if (!ReadAll(from_parent, &size, sizeof(size))) return;
  std::string bytes(size, '\0');
  if (!ReadAll(from_parent, bytes.data(), bytes.size())) return;

  EchoService service(bytes);
  grpc::ServerBuilder builder;
  int port = 0;
  builder.SetMaxReceiveMessageSize(-1);
  builder.SetMaxSendMessageSize(-1);
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&service);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr || !WriteAll(to_parent, &port, sizeof(port))) return;
  char end = 0;
  ReadAll(from_parent, &end, 1);
  server->Shutdown(std::chrono::system_clock::now());
}

absl::Status Failed(const char* what) {
  return absl::InternalError(
      absl::StrCat("can't start the echo server: ", what, ": ", std::strerror(errno)));
}

}  // namespace

absl::StatusOr<std::unique_ptr<EchoProcess>> EchoProcess::Fork() {
  int to_child[2];
  int from_child[2];
  if (pipe(to_child) != 0) return Failed("pipe");
  if (pipe(from_child) != 0) {
    absl::Status status = Failed("pipe");
    close(to_child[0]);
    close(to_child[1]);
    return status;
  }
  const pid_t child = fork();
  if (child == 0) {
    close(to_child[1]);
    close(from_child[0]);
    signal(SIGPIPE, SIG_IGN);
    Echo(to_child[0], from_child[1]);
    _exit(0);
  }
  close(to_child[0]);
  close(from_child[1]);
  if (child < 0) {
    absl::Status status = Failed("fork");
    close(to_child[1]);
    close(from_child[0]);
    return status;
  }
  return std::unique_ptr<EchoProcess>(new EchoProcess(child, to_child[1], from_child[0]));
}

EchoProcess::~EchoProcess() {
  close(to_child_);
  close(from_child_);
  waitpid(child_, nullptr, 0);
}

absl::StatusOr<std::string> EchoProcess::Serve(const std::string& response) {
  const uint64_t size = response.size();
  int port = 0;
  if (!WriteAll(to_child_, &size, sizeof(size)) ||
      !WriteAll(to_child_, response.data(), response.size()) ||
      !ReadAll(from_child_, &port, sizeof(port))) {
    return Failed("it ended");
  }
  return absl::StrCat("127.0.0.1:", port);
}

}  // namespace batchplan::cli
