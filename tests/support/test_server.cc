#include "tests/support/test_server.h"

#include <prometheus/text_serializer.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"

namespace batchplan {

ServerOptions TestServer::Options() {
  ServerOptions options;
  options.listen = "127.0.0.1:0";
  options.metrics_listen = "";
  options.drain_delay = absl::ZeroDuration();
  options.plan_cache_bytes = 0;
  return options;
}

TestServer::TestServer(const ServerOptions& options, PlanFunction plan) {
  absl::StatusOr<std::unique_ptr<Server>> server =
      plan == nullptr ? Server::Start(options) : Server::Start(options, std::move(plan));
  if (!server.ok()) {
    std::fprintf(stderr, "the test server does not start: %s\n",
                 server.status().ToString().c_str());
    std::abort();
  }
  server_ = *std::move(server);
}

std::string TestServer::target() const { return "127.0.0.1:" + std::to_string(server_->port()); }

std::shared_ptr<grpc::Channel> TestServer::NewChannel() const {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetMaxSendMessageSize(-1);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  std::shared_ptr<grpc::Channel> channel =
      grpc::CreateCustomChannel(target(), grpc::InsecureChannelCredentials(), arguments);
  // On a busy machine the first attempt to connect may fail, which tests should not notice.
  channel->WaitForConnected(std::chrono::system_clock::now() + std::chrono::seconds(10));
  return channel;
}

std::unique_ptr<v1::BatchPlanner::Stub> TestServer::NewStub() const {
  return v1::BatchPlanner::NewStub(NewChannel());
}

std::string TestServer::MetricsText() const {
  return prometheus::TextSerializer().Serialize(server_->metrics().collectable()->Collect());
}

double TestServer::Metric(const std::string& series) const {
  const std::string text = MetricsText();
  const size_t at = text.find("\n" + series + " ");
  if (at == std::string::npos) return -1;
  const size_t begin = at + series.size() + 2;
  double value = -1;
  if (!absl::SimpleAtod(text.substr(begin, text.find('\n', begin) - begin), &value)) std::abort();
  return value;
}

}  // namespace batchplan
