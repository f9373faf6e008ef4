// Com-sockets for m3ipc.hpp: a socket of m3ipc/sock.h with an owner.
#ifndef M3IPC_SOCK_HPP
#define M3IPC_SOCK_HPP

#include "../m3ipc.hpp"
#include "sock.h"

#include <cerrno>
#include <system_error>

namespace m3ipc {

/// A com-socket, which its destructor closes. Errors are those of errno.
///
///     auto listener = m3ipc::socket::stream().value();
///     listener.bind().value();              // a free port of the domain of this process
///     listener.listen().value();
///     auto to = listener.address().value(); // for the peer: m3ipc::socket::connect(to)
///     auto peer = listener.accept().value();
///     auto got = peer.receive(m3ipc::bytes_of(text));
class socket {
public:
  template <class T>
  using outcome = result<T, std::error_code>;

  socket(socket &&other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  socket &operator=(socket &&other) noexcept {
    if (this != &other) {
      close();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }
  ~socket() { close(); }

  /// A socket for a stream or, by `datagram`, for datagrams. `flags` are SOCK_NONBLOCK and
  /// SOCK_CLOEXEC.
  static outcome<socket> stream(int flags = SOCK_CLOEXEC) noexcept {
    return of(m3_socket(M3_AF_COM, SOCK_STREAM | flags, 0));
  }
  static outcome<socket> datagram(int flags = SOCK_CLOEXEC) noexcept {
    return of(m3_socket(M3_AF_COM, SOCK_DGRAM | flags, 0));
  }
  /// A stream that is connected with this address.
  static outcome<socket> connect(const sockaddr_in &to, int flags = SOCK_CLOEXEC) noexcept {
    auto made = stream(flags);
    if (!made) return made;
    const int code = m3_connect(made->fd_, generic(to), sizeof to);
    if (code < 0) return last_error();
    return made;
  }

  /// Takes a port of the domain of this process; 0 is a free one.
  outcome<void> bind(std::uint16_t port = 0) noexcept {
    sockaddr_in name{};
    name.sin_family = M3_AF_COM;
    name.sin_port = htons(port);
    return done(m3_bind(fd_, generic(name), sizeof name));
  }
  outcome<void> listen(int waiting = 16) noexcept { return done(m3_listen(fd_, waiting)); }
  outcome<socket> accept(int flags = SOCK_CLOEXEC) noexcept {
    return of(m3_accept4(fd_, nullptr, nullptr, flags));
  }

  /// The own address.
  outcome<sockaddr_in> address() const noexcept {
    sockaddr_in name{};
    socklen_t length = sizeof name;
    if (m3_getsockname(fd_, reinterpret_cast<sockaddr *>(&name), &length) < 0) return last_error();
    return name;
  }

  /// Sends bytes; the number sent. A peer that is gone is the error EPIPE, and no signal.
  outcome<std::size_t> send(const_bytes bytes, int flags = 0) noexcept {
    return count(m3_send(fd_, bytes.data(), bytes.size(), flags | MSG_NOSIGNAL));
  }
  /// Takes bytes; the number taken, 0 at the end of the stream.
  outcome<std::size_t> receive(mutable_bytes into, int flags = 0) noexcept {
    return count(m3_recv(fd_, into.data(), into.size(), flags));
  }
  outcome<void> shutdown(int how) noexcept { return done(m3_shutdown(fd_, how)); }

  /// The descriptor, for poll(2) and the calls of m3ipc/sock.h.
  int fd() const noexcept { return fd_; }

  /// Gives the descriptor to the caller.
  int release() noexcept { return std::exchange(fd_, -1); }

  void close() noexcept {
    if (fd_ >= 0) m3_close(release());
  }

private:
  explicit socket(int fd) noexcept : fd_(fd) {}

  static std::error_code last_error() noexcept { return {errno, std::generic_category()}; }
  static const sockaddr *generic(const sockaddr_in &name) noexcept {
    return reinterpret_cast<const sockaddr *>(&name);
  }

  static outcome<socket> of(int fd) noexcept {
    if (fd < 0) return last_error();
    return socket(fd);
  }
  static outcome<void> done(int code) noexcept {
    if (code < 0) return last_error();
    return {};
  }
  static outcome<std::size_t> count(ssize_t bytes) noexcept {
    if (bytes < 0) return last_error();
    return static_cast<std::size_t>(bytes);
  }

  int fd_;
};

} // namespace m3ipc

#endif // M3IPC_SOCK_HPP
