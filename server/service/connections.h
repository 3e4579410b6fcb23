// The connections of a gRPC server: their limits, and how they are ended.
//
//   SetConnectionLimits(options, &builder);
//   ...
//   OpenConnections connections(options.listen, port);
//   connections.StopListening();
//   connections.EndAllBut(peers_with_calls);   // as often as wanted
//
// gRPC 1.51 can't send clients away before it shuts down, and answers calls that come meanwhile
// with CANCELLED, as if the caller had given them up. A connection whose sending half is shut
// carries no such answer: the client reads what was written before, then the end, and makes its
// calls elsewhere as after any lost connection (UNAVAILABLE).
//
// The sockets are found in /proc/self/fd by their local address. Without /proc nothing is done.
// Microseconds a descriptor.

#ifndef BATCHPLAN_SERVER_SERVICE_CONNECTIONS_H_
#define BATCHPLAN_SERVER_SERVICE_CONNECTIONS_H_

#include <grpcpp/server_builder.h>

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "server/service/server_options.h"

namespace batchplan {

// Sets limits by valid options: message sizes, keepalive, idleness and age, handshakes, streams,
// metadata.
void SetConnectionLimits(const ServerOptions& options, grpc::ServerBuilder* builder);

class OpenConnections {
 public:
  // The connections of the server that listens on `listen`, HOST:PORT or unix:PATH, and whose port
  // is `port`.
  OpenConnections(const std::string& listen, int port);

  // Descriptors of the listeners, for the caller to close.
  std::vector<int> CopiesOfListeners() const;

  // A unique number for each connection. Empty if no descriptor is left to look with.
  std::set<uint64_t> Taken() const;

  // Refuses new connections from now on.
  void StopListening() const;

  // Shuts the sending half of every connection except those of `peers`, by gRPC's names
  // ("ipv4:10.0.0.7:41234"). Only ports are compared, so another client's connection from the same
  // port is spared too. Connections of a unix socket have no names: any peer spares them all.
  void EndAllBut(const std::vector<std::string>& peers) const;

 private:
  // 0 for a unix socket.
  const int port_;
  // Empty for TCP.
  const std::string path_;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_SERVICE_CONNECTIONS_H_
