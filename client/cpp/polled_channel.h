// A gRPC channel whose connections are read also while no call waits for them.
//
// gRPC does that every five seconds only. The answer to a ping between two calls then comes too
// late for it, and healthy connections are closed; and one that is lost is made again over several
// such rounds. One thread, which sleeps unless something comes, mends both.

#ifndef BATCHPLAN_CLIENT_CPP_POLLED_CHANNEL_H_
#define BATCHPLAN_CLIENT_CPP_POLLED_CHANNEL_H_

#include <grpcpp/grpcpp.h>

#include <memory>
#include <mutex>
#include <thread>

namespace batchplan {

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

  // Held to begin a watch, and to end the channel.
  std::mutex mutex_;
  std::shared_ptr<grpc::Channel> channel_;
  std::thread poller_;
};

}  // namespace batchplan

#endif  // BATCHPLAN_CLIENT_CPP_POLLED_CHANNEL_H_
