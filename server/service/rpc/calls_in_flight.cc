#include "server/service/rpc/calls_in_flight.h"

#include <memory>

#include "server/service/rpc/unary_call.h"

namespace batchplan {

bool CallsInFlight::Begin(UnaryCall* call) {
  MutexLock lock(mutex_);
  if (closed_) return false;
  calls_.insert(call);
  return true;
}

void CallsInFlight::End(UnaryCall* call) {
  MutexLock lock(mutex_);
  if (calls_.erase(call) > 0 && calls_.empty()) none_.notify_all();
}

void CallsInFlight::Close() {
  MutexLock lock(mutex_);
  closed_ = true;
}

bool CallsInFlight::WaitUntilNone(std::chrono::steady_clock::time_point deadline) {
  MutexLock lock(mutex_);
  return none_.wait_until(lock, deadline, [this] {
    mutex_.AssertHeld();
    return calls_.empty();
  });
}

std::vector<std::string> CallsInFlight::Peers() const {
  std::vector<std::string> peers;
  // The lock makes End wait, so that gRPC keeps what the calls are asked for.
  MutexLock lock(mutex_);
  peers.reserve(calls_.size());
  for (const UnaryCall* call : calls_) peers.push_back(call->peer());
  return peers;
}

void CallsInFlight::CutShort() {
  std::vector<std::shared_ptr<UnaryCall>> calls;
  {
    MutexLock lock(mutex_);
    calls.reserve(calls_.size());
    for (UnaryCall* call : calls_) calls.push_back(call->shared_from_this());
  }
  // Without the lock: a call may be answered and end on this thread.
  for (const std::shared_ptr<UnaryCall>& call : calls) call->CutShort();
}

}  // namespace batchplan
