// Notices that a server does not take new connections any more.
//
//   AcceptWatch watch(&connections);
//   ... once a second ...
//   if (watch.Look() >= 5) ... connections have waited since five looks, and none was taken ...
//
// Why there is such a thing: gRPC 1.51 never takes a connection again after it found no descriptor
// for one, though all may be free a moment later, and answers on those that it has as if nothing
// had happened.
//
// The kernel keeps a connection that was not taken in the listener's queue, also once its client
// has gone. A look asks whether anything is in the queue, and if so, whether any connection is here
// that was not here at the look before. So neither a flood of connections nor a server that is
// slow, or was stopped for a while, is mistaken for one that takes none, whatever it speaks on
// them. A look takes microseconds, and while something is in the queue a few a descriptor.
//
// Not thread-safe. Holds the listeners open: they are closed when this is gone.

#ifndef BATCHPLAN_SERVER_SERVICE_ACCEPT_WATCH_H_
#define BATCHPLAN_SERVER_SERVICE_ACCEPT_WATCH_H_

#include <cstdint>
#include <set>
#include <vector>

#include "server/service/connections.h"

namespace batchplan {

class AcceptWatch {
 public:
  // Of a server that listens already.
  explicit AcceptWatch(const OpenConnections& connections);
  ~AcceptWatch();

  AcceptWatch(const AcceptWatch&) = delete;
  AcceptWatch& operator=(const AcceptWatch&) = delete;

  // At how many looks in a row, this one included, connections waited and none had been taken since
  // the first of them; 0 if none waits.
  int Look();

 private:
  bool AnyWaits() const;

  const OpenConnections connections_;
  const std::vector<int> listeners_;
  int looks_ = 0;
  // Those that were here at the first of the looks in a row.
  std::set<uint64_t> taken_;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_SERVICE_ACCEPT_WATCH_H_
