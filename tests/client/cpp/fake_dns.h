// A DNS server on loopback that knows no name until it is told to; then it knows every name.
//
//   FakeDns dns;
//   MakeRemoteConnection(absl::StrCat("dns://127.0.0.1:", dns.port(), "/planner.test:50051"));
//   dns.Know();                            // every name is 127.0.0.1 from now on

#ifndef BATCHPLAN_TESTS_CLIENT_CPP_FAKE_DNS_H_
#define BATCHPLAN_TESTS_CLIENT_CPP_FAKE_DNS_H_

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <stop_token>
#include <string>
#include <thread>

namespace batchplan {

class FakeDns {
 public:
  FakeDns() : socket_(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    if (bind(socket_, reinterpret_cast<sockaddr*>(&address), size) == 0 &&
        getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size) == 0) {
      port_ = ntohs(address.sin_port);
    }
    thread_ = std::jthread([this](const std::stop_token& stop) { Serve(stop); });
  }

  ~FakeDns() {
    thread_.request_stop();
    thread_.join();
    close(socket_);
  }

  FakeDns(const FakeDns&) = delete;
  FakeDns& operator=(const FakeDns&) = delete;

  int port() const { return port_; }
  int questions() const { return questions_; }

  void Know() { knows_ = true; }

 private:
  static constexpr size_t kHeader = 12;
  static constexpr char kAddresses = 1;  // the type of question that asks for IPv4

  void Serve(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      pollfd one = {.fd = socket_, .events = POLLIN, .revents = 0};
      if (poll(&one, 1, 20) != 1) continue;
      std::array<char, 512> question;
      sockaddr_in asker{};
      socklen_t size = sizeof(asker);
      const ssize_t bytes = recvfrom(socket_, question.data(), question.size(), 0,
                                     reinterpret_cast<sockaddr*>(&asker), &size);
      if (bytes < static_cast<ssize_t>(kHeader)) continue;
      ++questions_;
      const std::string answer = AnswerTo({question.data(), static_cast<size_t>(bytes)});
      sendto(socket_, answer.data(), answer.size(), 0, reinterpret_cast<sockaddr*>(&asker), size);
    }
  }

  std::string AnswerTo(const std::string& question) const {
    // The name, a byte 0, and two bytes each for type and class.
    const size_t end = question.find('\0', kHeader) + 5;
    const bool found = knows_ && question[end - 3] == kAddresses;
    constexpr char kNoSuchName = 3;
    std::string answer = question.substr(0, 2);
    answer += {'\x81', knows_ ? '\x80' : static_cast<char>('\x80' | kNoSuchName)};
    answer += {0, 1, 0, static_cast<char>(found ? 1 : 0), 0, 0, 0, 0};
    answer += question.substr(kHeader, end - kHeader);
    if (found) {
      // The place of the name, type, class, a time to live of 0, and four bytes of address.
      answer += {'\xc0', kHeader, 0, kAddresses, 0, 1, 0, 0, 0, 0, 0, 4, 127, 0, 0, 1};
    }
    return answer;
  }

  const int socket_;
  int port_ = 0;
  std::atomic<bool> knows_ = false;
  std::atomic<int> questions_ = 0;
  std::jthread thread_;
};

}  // namespace batchplan

#endif  // BATCHPLAN_TESTS_CLIENT_CPP_FAKE_DNS_H_
