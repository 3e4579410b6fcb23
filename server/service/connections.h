// The connections of a gRPC server: what they may do, and how they end.
//
//   SetConnectionLimits(options, &builder);
//   ...
//   OpenConnections connections(options.listen, port);
//   connections.StopListening();
//   connections.EndAllBut(peers_with_calls);   // as often as wanted
//
// gRPC 1.51 has no way to send clients away before it shuts down, and answers the calls that come
// while it does with CANCELLED, as if the caller had given them up. A connection whose sending half
// is shut carries no such answer: the client reads what was written before, then the end, and takes
// its calls elsewhere as after any lost connection (UNAVAILABLE).
//
// The sockets are found in /proc/self/fd by their local address. Where there is none nothing is
// done. Takes microseconds a descriptor.

#ifndef BATCHPLAN_SERVER_SERVICE_CONNECTIONS_H_
#define BATCHPLAN_SERVER_SERVICE_CONNECTIONS_H_

#include <grpcpp/server_builder.h>

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "server/service/server_options.h"

namespace batchplan {

// For valid options: message sizes, keepalive, idleness and age, handshakes, streams, metadata.
void SetConnectionLimits(const ServerOptions& options, grpc::ServerBuilder* builder);

class OpenConnections {
 public:
  // Of the server that listens on `listen`, HOST:PORT or unix:PATH, whose port is `port`.
  OpenConnections(const std::string& listen, int port);

  // Descriptors of the listeners, for the caller to close.
  std::vector<int> CopiesOfListeners() const;

  // A number of each connection, which no other has had. None if there is no descriptor left to
  // look with.
  std::set<uint64_t> Taken() const;

  // New connections are refused from then on.
  void StopListening() const;

  // Shuts the sending half of every connection but those of `peers`, which gRPC names
  // ("ipv4:10.0.0.7:41234"). They are told apart by their ports alone: another client's connection
  // from the same port is left out too. Those of a unix socket have no names: a peer is all of
  // them.
  void EndAllBut(const std::vector<std::string>& peers) const;

 private:
  // 0 for a unix socket.
  const int port_;
  // Empty for TCP.
  const std::string path_;
};

}  // namespace batchplan

#endif  // BATCHPLAN_SERVER_SERVICE_CONNECTIONS_H_
