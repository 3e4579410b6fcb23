// A redis-server for one test, on a port and a socket that only this machine can reach.
//
//   RedisServer redis;                                   // serves from here on
//   RedisServer full({"--maxmemory", "2mb"});
//   redis.Kill();                                        // its data is gone
//   redis.Start();                                       // on the same port
//   RedisServer over_tls({"--tls-cert-file", "cert.pem", "--tls-key-file", ...});
//   RedisServer sentinel({"sentinel.conf", "--sentinel"});
//
// Stores no data on disk. Ends with the object, and with the test program.

#ifndef BATCHPLAN_TESTS_SUPPORT_REDIS_SERVER_H_
#define BATCHPLAN_TESTS_SUPPORT_REDIS_SERVER_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "tests/support/reserved_port.h"

namespace batchplan::testing {

class RedisServer {
 public:
  // Further arguments of redis-server, besides where it listens. With a certificate, it listens
  // only for TLS. If redis-server can't be started, the test fails and there is no server.
  explicit RedisServer(std::vector<std::string> arguments = {});
  ~RedisServer();

  RedisServer(const RedisServer&) = delete;
  RedisServer& operator=(const RedisServer&) = delete;

  // Starts it again after Kill; waits until it serves.
  void Start();
  // Sends SIGKILL, and waits for its end.
  void Kill();

  // Stops the process: it accepts connections and answers nothing until Thaw.
  void Freeze();
  void Thaw();

  int port() const { return port_.number(); }
  // redis:// or rediss://, with 127.0.0.1.
  std::string url() const;
  std::string socket_url() const;

  // Runs a command over a new connection, and returns the reply as redis-cli prints it: arrays as
  // lines, "(nil)", "(error) ...". Without a connection, "(error) ..." too.
  std::string Command(const std::vector<std::string>& words) const;

 private:
  // False if it ended before it served.
  bool Spawn();
  bool over_tls() const;

  std::vector<std::string> arguments_;
  std::string folder_;
  const ReservedPort port_;
  pid_t pid_ = 0;
};

}  // namespace batchplan::testing

#endif  // BATCHPLAN_TESTS_SUPPORT_REDIS_SERVER_H_
