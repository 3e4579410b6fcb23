// The channel of a remote connection. Its connections are read even while no call waits, and it can
// be asked whether a server answers.

#ifndef BATCHPLAN_CLIENT_CPP_CHANNEL_H_
#define BATCHPLAN_CLIENT_CPP_CHANNEL_H_

#include <grpcpp/grpcpp.h>

#include <memory>
#include <mutex>
#include <thread>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace batchplan {

// By itself, gRPC reads from connections only every five seconds while no call waits. The answer to
// a ping between two calls then comes too late, and healthy connections are closed; and to
// reconnect needs several such rounds. A thread, which sleeps unless something comes, cures both.
class PolledChannel {
 public:
  // `channel` must not be null, nor be owned by anything that outlives this.
  explicit PolledChannel(std::shared_ptr<grpc::Channel> channel);
  ~PolledChannel();

  PolledChannel(const PolledChannel&) = delete;
  PolledChannel& operator=(const PolledChannel&) = delete;

  const std::shared_ptr<grpc::Channel>& get() const { return channel_; }

 private:
  void Poll();

  // Held to begin a watch, and to release the channel. Only the destructor releases it, so get()
  // needs no lock.
  std::mutex mutex_;
  std::shared_ptr<grpc::Channel> channel_;
  std::thread poller_;
};

// OK if a server answers grpc.health.v1.Health/Check within `timeout`, with SERVING or with an
// error of its own, as a server without that service does. Unavailable, with the reason, if it does
// not serve, as while it drains, or if nobody answers; the channel reconnects meanwhile. Blocks for
// at most `timeout`.
absl::Status ProbeHealth(const std::shared_ptr<grpc::Channel>& channel, absl::Duration timeout);

}  // namespace batchplan

#endif  // BATCHPLAN_CLIENT_CPP_CHANNEL_H_
