// A redis-server of the test's own, on a port and a socket that only this machine reaches.
//
//   RedisServer redis;                                   // serves from here on
//   RedisServer full({"--maxmemory", "2mb"});
//   redis.Kill();                                        // its data is gone
//   redis.Start();                                       // on the same port
//   RedisServer over_tls({"--tls-cert-file", "cert.pem", "--tls-key-file", ...});
//   RedisServer sentinel({"sentinel.conf", "--sentinel"});
//
// Keeps no data on disk. Ends with the object, and with the test program.

#ifndef BATCHPLAN_TESTS_SUPPORT_REDIS_SERVER_H_
#define BATCHPLAN_TESTS_SUPPORT_REDIS_SERVER_H_

#include <sys/types.h>

#include <string>
#include <vector>

namespace batchplan::testing {

// A port that nobody listens on now.
int FreePort();

class RedisServer {
 public:
  // Arguments of redis-server beside those for where it listens; with a certificate among them it
  // listens for TLS alone. Fails the test, and does not serve, if redis-server can't be started.
  explicit RedisServer(std::vector<std::string> arguments = {});
  ~RedisServer();

  RedisServer(const RedisServer&) = delete;
  RedisServer& operator=(const RedisServer&) = delete;

  // Serves, once it is killed; waits until it does.
  void Start();
  // SIGKILL, and waits for the end.
  void Kill();

  // Stops it in its tracks: it takes connections and answers nothing, until Thaw.
  void Freeze();
  void Thaw();

  int port() const { return port_; }
  // redis:// or rediss://, and 127.0.0.1.
  std::string url() const;
  std::string socket_url() const;

  // The reply to a command of these words, as redis-cli prints it, from a connection made for it.
  // Arrays are lines; "(nil)"; "(error) ..." also where there is no connection.
  std::string Command(const std::vector<std::string>& words) const;

 private:
  // False if it ended before it served.
  bool Spawn();
  bool over_tls() const;

  std::vector<std::string> arguments_;
  std::string folder_;
  int port_ = 0;
  pid_t pid_ = 0;
};

}  // namespace batchplan::testing

#endif  // BATCHPLAN_TESTS_SUPPORT_REDIS_SERVER_H_
