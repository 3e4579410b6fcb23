// A server's calls that have begun and not yet ended, for its shutdown.
//
//   if (!calls.Begin(this)) ...;       // a call, before it does anything
//   calls.End(this);                   // once gRPC is done with it
//
//   calls.Close();                     // the server: from here on none begins
//   while (!calls.WaitUntilNone(deadline)) calls.CutShort();
//
// Thread-safe. A call costs a lock and an entry of a hash set, twice.

#ifndef BATCHPLAN_SERVER_SERVICE_RPC_CALLS_IN_FLIGHT_H_
#define BATCHPLAN_SERVER_SERVICE_RPC_CALLS_IN_FLIGHT_H_

#include <chrono>
#include <condition_variable>
#include <string>
#include <unordered_set>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "server/base/mutex.h"

namespace batchplan {

class UnaryCall;

class CallsInFlight {
 public:
  // False, and the call is not counted, once Close has been called.
  bool Begin(UnaryCall* call);
  // Does nothing if the call is not counted.
  void End(UnaryCall* call);

  void Close();

  // Waits until there are no calls, or until `deadline`. True if there are none.
  bool WaitUntilNone(std::chrono::steady_clock::time_point deadline);

  // gRPC's names of the calls' peers.
  std::vector<std::string> Peers() const;

  // Stops every call on behalf of the server (UnaryCall::CutShort).
  void CutShort();

 private:
  mutable Mutex mutex_;
  std::condition_variable_any none_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  std::unordered_set<UnaryCall*> calls_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_SERVICE_RPC_CALLS_IN_FLIGHT_H_
