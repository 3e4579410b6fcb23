#include "server/service/connections.h"

#include <gmock/gmock.h>
#include <grpc/grpc.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/server_builder_option.h>
#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace batchplan {
namespace {

using ::testing::IsSupersetOf;
using ::testing::Pair;

using Arguments = std::map<std::string, int>;

// Keeps the arguments that a builder gives to its server.
class ArgumentReader final : public grpc::ServerBuilderOption {
 public:
  explicit ArgumentReader(Arguments* arguments) : arguments_(arguments) {}

  void UpdateArguments(grpc::ChannelArguments* arguments) override {
    const grpc_channel_args all = arguments->c_channel_args();
    for (size_t i = 0; i < all.num_args; ++i) {
      if (all.args[i].type == GRPC_ARG_INTEGER) {
        arguments_->insert_or_assign(all.args[i].key, all.args[i].value.integer);
      }
    }
  }
  void UpdatePlugins(std::vector<std::unique_ptr<grpc::ServerBuilderPlugin>>* /*all*/) override {}

 private:
  Arguments* const arguments_;
};

Arguments ArgumentsOf(const ServerOptions& options) {
  Arguments arguments;
  grpc::AsyncGenericService service;
  grpc::ServerBuilder builder;
  builder.RegisterAsyncGenericService(&service);
  const std::unique_ptr<grpc::ServerCompletionQueue> queue = builder.AddCompletionQueue();
  SetConnectionLimits(options, &builder);
  builder.SetOption(std::make_unique<ArgumentReader>(&arguments));
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  server->Shutdown();
  queue->Shutdown();
  void* tag = nullptr;
  bool ok = false;
  while (queue->Next(&tag, &ok)) {
  }
  return arguments;
}

TEST(ConnectionLimitsTest, EveryOptionReachesGrpc) {
  ServerOptions options;
  options.max_message_bytes = 5000;
  options.keepalive_interval = absl::Seconds(11);
  options.keepalive_timeout = absl::Seconds(12);
  options.min_client_ping_interval = absl::Seconds(13);
  options.max_connection_idle = absl::Seconds(14);
  options.max_connection_age = absl::Seconds(15);
  options.max_connection_age_grace = absl::Seconds(16);
  options.handshake_timeout = absl::Seconds(17);
  options.max_concurrent_streams = 18;
  options.max_metadata_bytes = 19'000;
  EXPECT_THAT(
      ArgumentsOf(options),
      IsSupersetOf(
          {Pair(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, 5000),
           Pair(GRPC_ARG_MAX_SEND_MESSAGE_LENGTH, 5000), Pair(GRPC_ARG_ALLOW_REUSEPORT, 0),
           Pair(GRPC_ARG_KEEPALIVE_TIME_MS, 11'000), Pair(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 12'000),
           Pair(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1),
           Pair(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0),
           Pair(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 13'000),
           Pair(GRPC_ARG_MAX_CONNECTION_IDLE_MS, 14'000),
           Pair(GRPC_ARG_MAX_CONNECTION_AGE_MS, 15'000),
           Pair(GRPC_ARG_MAX_CONNECTION_AGE_GRACE_MS, 16'000),
           Pair(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, 17'000),
           Pair(GRPC_ARG_MAX_CONCURRENT_STREAMS, 18), Pair(GRPC_ARG_MAX_METADATA_SIZE, 19'000)}));
}

TEST(ConnectionLimitsTest, ZeroIsNeverForIdlenessAndAgeButNoGrace) {
  ServerOptions options;
  options.max_connection_idle = absl::ZeroDuration();
  options.max_connection_age = absl::ZeroDuration();
  options.max_connection_age_grace = absl::ZeroDuration();
  constexpr int kNever = std::numeric_limits<int>::max();
  EXPECT_THAT(ArgumentsOf(options), IsSupersetOf({Pair(GRPC_ARG_MAX_CONNECTION_IDLE_MS, kNever),
                                                  Pair(GRPC_ARG_MAX_CONNECTION_AGE_MS, kNever),
                                                  Pair(GRPC_ARG_MAX_CONNECTION_AGE_GRACE_MS, 0)}));
}

TEST(ConnectionLimitsTest, ClientsMayPingAsOftenAsTheyDo) {
  // Every 5 s, with a margin for busy machines.
  EXPECT_LE(ServerOptions().min_client_ping_interval, absl::Seconds(4));
}

}  // namespace
}  // namespace batchplan
