// The channel of a remote connection: its connections are read also while no call waits for them,
// and it can be asked whether a server answers at all.

#ifndef BATCHPLAN_CLIENT_CPP_CHANNEL_H_
#define BATCHPLAN_CLIENT_CPP_CHANNEL_H_

#include <grpcpp/grpcpp.h>

#include <memory>
#include <mutex>
#include <thread>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace batchplan {

// By itself, gRPC reads from connections every five seconds where no call waits. The answer to a
// ping between two calls then comes too late for it, and healthy connections are closed; and one
// that is lost is made again over several such rounds. One thread, which sleeps unless something
// comes, mends both.
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

  // Held to begin a watch, and to let go of the channel. Only the destructor does that, so that
  // get() needs no lock.
  std::mutex mutex_;
  std::shared_ptr<grpc::Channel> channel_;
  std::thread poller_;
};

// OK if a server answers grpc.health.v1.Health/Check within `timeout`, with SERVING or with an
// error of its own: one without that service answers too. Unavailable, with why, if it says that it
// does not serve, which is what it says while it drains, or if nobody answers; the channel connects
// again meanwhile. Blocks that long at most.
absl::Status ProbeHealth(const std::shared_ptr<grpc::Channel>& channel, absl::Duration timeout);

}  // namespace batchplan

#endif  // BATCHPLAN_CLIENT_CPP_CHANNEL_H_
