// What stands where a Redis should and says what a test tells it to, byte by byte.
//
//   ScriptedRedis redis({[](RedisPeer& peer) {
//     peer.ReadUntil("PING");
//     peer.Write("+PO");
//   }});
//
// One script a connection, in the order they come; then connections are refused. A connection is
// closed when its script ends.

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

  // Reads on until what came contains `text`; false if the connection ends first.
  bool ReadUntil(const std::string& text);
  // False if the connection has ended.
  bool Write(const std::string& text);
  // Drops what comes, until the other end closes.
  void AwaitClose();

 private:
  int descriptor_;
};

class ScriptedRedis {
 public:
  explicit ScriptedRedis(std::vector<std::function<void(RedisPeer&)>> scripts);
  // Waits for the scripts that have begun.
  ~ScriptedRedis();

  ScriptedRedis(const ScriptedRedis&) = delete;
  ScriptedRedis& operator=(const ScriptedRedis&) = delete;

  int port() const { return port_; }
  // How many connections have been made.
  int connections() const { return connections_; }

 private:
  int listener_;
  int port_ = 0;
  std::atomic<int> connections_ = 0;
  std::thread thread_;
};

}  // namespace batchplan::testing

#endif  // BATCHPLAN_TESTS_SERVER_STORE_REDIS_SCRIPTED_REDIS_H_
