// Notices that a server no longer accepts connections.
//
//   AcceptWatch watch(&connections);
//   ... once a second ...
//   if (watch.Look() >= 5) ... connections have waited since five looks, and none was taken ...
//
// Why: gRPC 1.51 never accepts a connection again after it once found no descriptor for one, even
// if all are free a moment later, and goes on serving those that it has.
//
// The kernel keeps a connection that was not accepted in the listener's queue, even after its
// client has gone. A look asks whether the queue is empty and, if not, whether there is a
// connection that was not there at the last look. So neither a flood of connections nor a slow or
// paused server is mistaken for one that accepts none, whatever the protocol. A look takes
// microseconds, and while something is in the queue a few a descriptor.
//
// Not thread-safe. Keeps the listeners open as long as it exists.

#ifndef BATCHPLAN_SERVER_SERVICE_ACCEPT_WATCH_H_
#define BATCHPLAN_SERVER_SERVICE_ACCEPT_WATCH_H_

#include <cstdint>
#include <set>
#include <vector>

#include "server/service/connections.h"

namespace batchplan {

class AcceptWatch {
 public:
  // For a server that already listens.
  explicit AcceptWatch(const OpenConnections& connections);
  ~AcceptWatch();

  AcceptWatch(const AcceptWatch&) = delete;
  AcceptWatch& operator=(const AcceptWatch&) = delete;

  // The number of looks in a row, including this one, at which connections waited and none had been
  // accepted since the first of these looks; 0 if none waits.
  int Look();

 private:
  bool AnyWaits() const;

  const OpenConnections connections_;
  const std::vector<int> listeners_;
  int looks_ = 0;
  // The connections at the first of the looks in a row.
  std::set<uint64_t> taken_;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_SERVICE_ACCEPT_WATCH_H_
