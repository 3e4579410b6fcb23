#include "client/cpp/tls_mistake.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "server/base/clock.h"

namespace batchplan {
namespace {

struct Place {
  // Each is HOST:PORT.
  std::vector<std::string> addresses;
  // The name that the server's certificate must have.
  std::string name;
};

std::pair<std::string, std::string> SplitHostPort(absl::string_view address) {
  constexpr char kDefaultPort[] = "443";  // as in gRPC
  const size_t colon = address.rfind(':');
  const bool bracketed = absl::StartsWith(address, "[");
  const size_t end = bracketed ? address.find(']') : colon;
  if (end == absl::string_view::npos) return {std::string(address), kDefaultPort};
  const absl::string_view host = bracketed ? address.substr(1, end - 1) : address.substr(0, end);
  const bool has_port = colon != absl::string_view::npos && colon >= end;
  return {std::string(host), has_port ? std::string(address.substr(colon + 1)) : kDefaultPort};
}

// Nothing if the target does not consist of TCP addresses.
std::optional<Place> PlaceOf(absl::string_view target) {
  if (absl::ConsumePrefix(&target, "dns:")) {
    // dns://RESOLVER/HOST:PORT
    if (absl::ConsumePrefix(&target, "//")) target.remove_prefix(target.find('/') + 1);
  } else if (!absl::ConsumePrefix(&target, "ipv4:") && !absl::ConsumePrefix(&target, "ipv6:")) {
    if (absl::StrContains(target, "/") || absl::StartsWith(target, "unix")) return std::nullopt;
  }
  const std::vector<std::string> addresses = absl::StrSplit(target, ',');
  return Place{addresses,
               addresses.size() > 1 ? std::string(target) : SplitHostPort(addresses.front()).first};
}

class Socket {
 public:
  explicit Socket(int socket) : socket_(socket) {}
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  ~Socket() {
    if (socket_ >= 0) close(socket_);
  }

  int get() const { return socket_; }

  // False if `deadline` passes first.
  bool WaitFor(short events, Instant deadline) const {
    pollfd one = {.fd = socket_, .events = events, .revents = 0};
    const absl::Duration left = std::max(
        absl::FromChrono(deadline - std::chrono::steady_clock::now()), absl::ZeroDuration());
    return poll(&one, 1, static_cast<int>(absl::ToInt64Milliseconds(left))) == 1;
  }

  bool Connect(const addrinfo& to, Instant deadline) const {
    if (connect(socket_, to.ai_addr, to.ai_addrlen) == 0) return true;
    if (errno != EINPROGRESS || !WaitFor(POLLOUT, deadline)) return false;
    int error = 0;
    socklen_t size = sizeof(error);
    return getsockopt(socket_, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0;
  }

 private:
  const int socket_;
};

using SslContext = std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)>;

// The result of one connection.
struct Finding {
  // The server answered.
  bool fine = false;
  // The connection ended after the server had asked for the client's certificate and before it said
  // anything. A gRPC server does so when it refuses the client, and when it stops.
  bool ended = false;
  // A lasting mistake; empty if none is known.
  std::string mistake = {};
};

std::string Reason(unsigned long error) {
  const char* reason = ERR_reason_error_string(error);
  return reason == nullptr ? "unknown error" : reason;
}

// One TLS connection. OpenSSL works on memory: writing to a socket whose other end is closed would
// raise SIGPIPE.
class Handshake {
 public:
  Handshake(SSL_CTX* context, const std::string& name, const Socket& socket, Instant deadline)
      : ssl_(SSL_new(context), SSL_free), socket_(socket), deadline_(deadline) {
    SSL_set_bio(ssl_.get(), BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
    BIO_set_mem_eof_return(SSL_get_rbio(ssl_.get()), -1);
    SSL_set_connect_state(ssl_.get());
    if (X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl_.get()), name.c_str()) != 1) {
      SSL_set1_host(ssl_.get(), name.c_str());
      SSL_set_tlsext_host_name(ssl_.get(), name.c_str());
    }
    SSL_set_cert_cb(
        ssl_.get(),
        [](SSL*, void* asked) {
          *static_cast<bool*>(asked) = true;
          return 1;
        },
        &asked_);
  }

  Finding Run() {
    ERR_clear_error();
    // In TLS 1.3 a server checks the client's certificate after the client's handshake is over. Its
    // first message, HTTP/2's settings, shows that it accepted the certificate.
    char byte = 0;
    for (;;) {
      const int result = SSL_read(ssl_.get(), &byte, 1);
      if (Plain() && SSL_get0_peer_certificate(ssl_.get()) != nullptr) {
        return {.mistake = "the server speaks TLS, and RemoteOptions.tls is not set"};
      }
      if (!Flush()) return Ended();
      if (result > 0) return {.fine = true};
      const int error = SSL_get_error(ssl_.get(), result);
      if (error == SSL_ERROR_SSL) return Explain();
      if (error != SSL_ERROR_WANT_READ) return Ended();
      if (!socket_.WaitFor(POLLIN, deadline_)) return {};
      if (!Fill()) return Ended();
    }
  }

 private:
  // Whether the client is configured for plain text, and only looks whether the server speaks TLS.
  bool Plain() const { return SSL_get_verify_mode(ssl_.get()) == SSL_VERIFY_NONE; }

  Finding Ended() const { return {.ended = asked_ && !Plain()}; }

  Finding Explain() const {
    if (Plain()) return {};
    const unsigned long error = ERR_peek_last_error();
    const long verified = SSL_get_verify_result(ssl_.get());
    if (verified != X509_V_OK) {
      return {.mistake = absl::StrCat("the server's certificate is not accepted: ",
                                      X509_verify_cert_error_string(verified))};
    }
    // OpenSSL adds this to the number of an alert from the other end.
    const int alert = ERR_GET_REASON(error) - SSL_AD_REASON_OFFSET;
    if (alert == SSL_AD_INTERNAL_ERROR) return {};
    if (alert > 0) {
      return {.mistake = absl::StrCat("the server refuses the client: ", Reason(error))};
    }
    return {.mistake = absl::StrCat("the server does not speak TLS: ", Reason(error))};
  }

  // Sends what OpenSSL has written; false if the other end is closed.
  bool Flush() {
    std::array<char, 4096> bytes;
    for (;;) {
      const int size = BIO_read(SSL_get_wbio(ssl_.get()), bytes.data(), bytes.size());
      if (size <= 0) return true;
      // A handshake's few kilobytes fit the socket's buffer.
      if (send(socket_.get(), bytes.data(), static_cast<size_t>(size), MSG_NOSIGNAL) != size) {
        return false;
      }
    }
  }

  // Gives OpenSSL what the socket received; false at the end.
  bool Fill() {
    std::array<char, 4096> bytes;
    const ssize_t size = recv(socket_.get(), bytes.data(), bytes.size(), 0);
    return size > 0 && BIO_write(SSL_get_rbio(ssl_.get()), bytes.data(), static_cast<int>(size)) ==
                           static_cast<int>(size);
  }

  const std::unique_ptr<SSL, decltype(&SSL_free)> ssl_;
  const Socket& socket_;
  const Instant deadline_;
  // Whether the server asked for the client's certificate.
  bool asked_ = false;
};

// Loads the files into `context`; returns the mistake in them, or nothing.
std::string LoadFiles(const std::optional<TlsOptions>& files, SSL_CTX* context) {
  if (!files.has_value()) return "";
  const TlsOptions& tls = *files;
  const auto wrong = [](const char* field, const std::string& path) {
    return absl::StrCat("RemoteOptions.tls.", field, " is ", path, ": ",
                        Reason(ERR_peek_last_error()));
  };
  ERR_clear_error();
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
  constexpr unsigned char kHttp2[] = {2, 'h', '2'};
  SSL_CTX_set_alpn_protos(context, kHttp2, sizeof(kHttp2));
  if (SSL_CTX_load_verify_locations(context, tls.root_certificates.c_str(), nullptr) != 1) {
    return wrong("root_certificates", tls.root_certificates);
  }
  if (tls.certificate.empty()) return "";
  if (SSL_CTX_use_certificate_chain_file(context, tls.certificate.c_str()) != 1) {
    return wrong("certificate", tls.certificate);
  }
  if (SSL_CTX_use_PrivateKey_file(context, tls.key.c_str(), SSL_FILETYPE_PEM) != 1) {
    return wrong("key", tls.key);
  }
  return "";
}

Finding TryOnce(const addrinfo& address, const std::string& name, SSL_CTX* context,
                Instant deadline) {
  const Socket socket(::socket(address.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (socket.get() < 0 || !socket.Connect(address, deadline)) return {};
  return Handshake(context, name, socket, deadline).Run();
}

Finding Try(const addrinfo& address, const std::string& name, const std::string& certificate,
            SSL_CTX* context, Instant deadline) {
  Finding finding = TryOnce(address, name, context, deadline);
  // A server that is only stopping accepts no second connection.
  if (finding.ended) finding = TryOnce(address, name, context, deadline);
  if (finding.ended) {
    finding.mistake =
        certificate.empty()
            ? "the server asks for a certificate, and RemoteOptions.tls.certificate is empty"
            : absl::StrCat("the server refuses RemoteOptions.tls.certificate, ", certificate);
  }
  return finding;
}

}  // namespace

absl::Status FindTlsMistake(const std::string& target, const std::optional<TlsOptions>& tls,
                            absl::Duration limit) {
  const Instant deadline = std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(limit);
  const std::optional<Place> place = PlaceOf(target);
  if (!place.has_value()) return absl::OkStatus();
  const bool named = tls.has_value() && !tls->server_name.empty();
  const std::string& name = named ? tls->server_name : place->name;
  const std::string certificate = tls.has_value() ? tls->certificate : "";
  const SslContext context(SSL_CTX_new(TLS_client_method()), SSL_CTX_free);
  if (context == nullptr) return absl::OkStatus();
  if (const std::string wrong = LoadFiles(tls, context.get()); !wrong.empty()) {
    return absl::UnauthenticatedError(wrong);
  }
  absl::Status mistake;
  for (const std::string& address : place->addresses) {
    const auto [host, port] = SplitHostPort(address);
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    if (getaddrinfo(host.c_str(), port.c_str(), &hints, &found) != 0) continue;
    const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owned(found, freeaddrinfo);
    for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
      const Finding finding = Try(*one, name, certificate, context.get(), deadline);
      if (finding.fine) return absl::OkStatus();
      if (!finding.mistake.empty()) {
        mistake.Update(absl::UnauthenticatedError(
            absl::StrCat("no connection to ", address, " as \"", name, "\": ", finding.mistake)));
      }
    }
  }
  return mistake;
}

}  // namespace batchplan
