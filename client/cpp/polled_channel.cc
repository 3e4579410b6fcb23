#include "client/cpp/polled_channel.h"

#include <chrono>
#include <utility>

namespace batchplan {
namespace {

// The end of a channel ends the watches on it. Should it not, they end so soon.
constexpr std::chrono::seconds kWatch(1);

}  // namespace

PolledChannel::PolledChannel(std::shared_ptr<grpc::Channel> channel)
    : channel_(std::move(channel)), poller_([this] { Poll(); }) {}

PolledChannel::~PolledChannel() {
  {
    const std::scoped_lock lock(mutex_);
    channel_.reset();
  }
  poller_.join();
}

// A watch of the channel's state has gRPC read from all of its connections while the queue is
// waited for. The state itself does not matter.
void PolledChannel::Poll() {
  grpc::CompletionQueue watches;
  void* tag = nullptr;
  bool ok = false;
  for (;;) {
    {
      const std::scoped_lock lock(mutex_);
      if (channel_ == nullptr) break;
      channel_->NotifyOnStateChange(channel_->GetState(/*try_to_connect=*/false),
                                    std::chrono::system_clock::now() + kWatch, &watches, nullptr);
    }
    watches.Next(&tag, &ok);
  }
  watches.Shutdown();
  while (watches.Next(&tag, &ok)) {
  }
}

}  // namespace batchplan
