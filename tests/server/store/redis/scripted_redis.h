// Stands in for a Redis and says what a test tells it to, byte by byte.
//
//   ScriptedRedis redis({[](RedisPeer& peer) {
//     peer.ReadUntil("PING");
//     peer.Write("+PO");
//   }});
//
// Each connection gets the next script, and is closed at its end. After the last script,
// connections are refused.

#ifndef BATCHPLAN_TESTS_SERVER_STORE_REDIS_SCRIPTED_REDIS_H_
#define BATCHPLAN_TESTS_SERVER_STORE_REDIS_SCRIPTED_REDIS_H_

#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace batchplan::testing {

class RedisPeer {
 public:
  explicit RedisPeer(int descriptor) : descriptor_(descriptor) {}

  // Reads until the received bytes contain `text`; false if the connection ends before.
  bool ReadUntil(const std::string& text);
  // False if the connection has ended.
  bool Write(const std::string& text);
  // Discards what comes until the other end closes.
  void AwaitClose();

 private:
  int descriptor_;
};

class ScriptedRedis {
 public:
  explicit ScriptedRedis(std::vector<std::function<void(RedisPeer&)>> scripts);
  // Waits for scripts that have begun.
  ~ScriptedRedis();

  ScriptedRedis(const ScriptedRedis&) = delete;
  ScriptedRedis& operator=(const ScriptedRedis&) = delete;

  int port() const { return port_; }
  // How many connections were made.
  int connections() const { return connections_; }

 private:
  int listener_;
  int port_ = 0;
  std::atomic<int> connections_ = 0;
  std::thread thread_;
};

}  // namespace batchplan::testing

#endif  // BATCHPLAN_TESTS_SERVER_STORE_REDIS_SCRIPTED_REDIS_H_
