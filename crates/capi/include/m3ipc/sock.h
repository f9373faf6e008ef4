/*
 * Com-sockets of m3ipc: Berkeley sockets over shared memory, between the processes of a VM.
 *
 * Each call does, returns and sets errno as the POSIX call of its name, with the prefix m3_. On
 * failure the result is -1. m3_socket(3) describes the differences. Besides the errors of POSIX,
 * each call may set:
 *   EBADF, ENOTSOCK  fd is not open, or is not a com-socket
 *   EFAULT           a pointer cannot be read or written
 *   EPROTO           the peer broke the rules of the connection, which is over
 *   ENETDOWN         the process is in no domain and can join none
 *
 * A process is in one domain of its VM. Domain d has the address 192.168.0.(d + 2) and ports of
 * its own; the network is a setting of the node daemon. 192.168.0.255 is every domain, for
 * datagrams. An address is a struct sockaddr_in.
 *
 * A socket number is a descriptor of the kernel. poll, select and epoll take it. Only the calls
 * below may read, write or close it.
 *
 * Threads: any thread may use any socket. A child by fork cannot use the sockets of its parent
 * (ENOTCONN). Signals: a handler ends a waiting call with EINTR, as in POSIX.
 */
#ifndef M3IPC_SOCK_H
#define M3IPC_SOCK_H

#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The family of com-sockets. Their addresses have the form of IPv4. */
#define M3_AF_COM AF_INET
#define M3_PF_COM AF_INET

/* ---- Domains ----------------------------------------------------------- */

/*
 * Joins a domain with all sockets of this process.
 *
 * Without this call the first socket joins a domain: in the VM in which the process is bound, else
 * in the VM that M3_VM names. M3_DOMAIN names or numbers the domain; without it the process gets a
 * domain of its own.
 *
 *   vmid    number of the VM
 *   domain  number of the domain, or -1 for a free one
 *
 * Returns the domain, or -1:
 *   EISCONN        the process is in a domain already
 *   EACCES         the VM or the domain belongs to another user
 *   EADDRNOTAVAIL  the domain is outside the network, or no domain is free
 *   ENOMEM         the user has its quota of the domains of the VM
 *   EINVAL         domain is below -1
 */
int m3_domain(int vmid, int domain);

/*
 * Joins the domain that the configuration of the VM (m3 vm create --domain) gives a name.
 *
 *   vmid  number of the VM; -1 is the VM in which the process is bound, else the VM of M3_VM
 *   name  name of the domain, at most 15 bytes
 *
 * Returns the domain, or -1: as m3_domain, or
 *   EADDRNOTAVAIL  the VM has no domain of this name
 *   ENAMETOOLONG   the name is longer than 15 bytes
 */
int m3_domain_named(int vmid, const char *name);

/*
 * Looks up the address of a named domain, to connect there. Joins a domain if the process is in
 * none.
 *
 *   vmid     as for m3_domain_named
 *   name     as for m3_domain_named
 *   address  receives the address
 *
 * Returns 0, or -1 with the errors of m3_domain_named.
 */
int m3_domain_address(int vmid, const char *name, struct in_addr *address);

/* ---- Sockets ----------------------------------------------------------- */

/*
 * Makes a socket, as socket(2).
 *
 *   domain    M3_AF_COM
 *   type      SOCK_STREAM or SOCK_DGRAM, or-ed with SOCK_NONBLOCK and SOCK_CLOEXEC
 *   protocol  0, or the protocol of TCP or UDP that fits the type
 *
 * Returns the socket, or -1 (EAFNOSUPPORT, EINVAL, EPROTONOSUPPORT, EMFILE). Never waits.
 *
 *   int fd = m3_socket(M3_AF_COM, SOCK_STREAM, 0);
 */
int m3_socket(int domain, int type, int protocol);

/*
 * Takes a port of the domain of this process, as bind(2). Port 0 takes a free port.
 *
 * Returns 0, or -1 (EADDRINUSE, EADDRNOTAVAIL for an address of another domain, EINVAL). Never
 * waits for a peer.
 */
int m3_bind(int fd, const struct sockaddr *address, socklen_t length);

/*
 * Accepts connections on a socket, as listen(2). backlog is the number of waiting connections.
 *
 * Returns 0, or -1 (EINVAL, EOPNOTSUPP for datagrams). Never waits for a peer.
 */
int m3_listen(int fd, int backlog);

/*
 * Take one connection, as accept(2) and accept4(2). flags are SOCK_NONBLOCK and SOCK_CLOEXEC.
 *
 * Return the socket of the connection, or -1 (EAGAIN, EINVAL, EOPNOTSUPP). Wait for a connection,
 * unless the socket has O_NONBLOCK.
 */
int m3_accept(int fd, struct sockaddr *address, socklen_t *length);
int m3_accept4(int fd, struct sockaddr *address, socklen_t *length, int flags);

/*
 * Connects a stream, or names the peer of datagrams, as connect(2).
 *
 * Returns 0, or -1 (ECONNREFUSED: no process listens at the port; EHOSTUNREACH: no process is in
 * the domain; EISCONN; EAGAIN: the queue of the listener is full and the socket has O_NONBLOCK).
 * Waits for a place in that queue, unless the socket has O_NONBLOCK. EINTR: a handler of a signal
 * ran in this wait; repeat the call. EALREADY: another thread connects the socket. EBADF: the
 * socket was closed meanwhile.
 */
int m3_connect(int fd, const struct sockaddr *address, socklen_t length);

/* ---- Send and receive -------------------------------------------------- */

/*
 * Send bytes, as send(2), sendto(2), sendmsg(2) and write(2).
 *
 * flags are MSG_DONTWAIT, MSG_NOSIGNAL and MSG_MORE (no effect). There is no control data and no
 * out-of-band data. A datagram has at most 65,507 bytes.
 *
 * Return the number of bytes sent, or -1 (EAGAIN, EPIPE with SIGPIPE, ECONNRESET, EMSGSIZE,
 * ENOTCONN). Wait until there is room, unless the call or the socket is non-blocking.
 */
ssize_t m3_send(int fd, const void *bytes, size_t length, int flags);
ssize_t m3_sendto(int fd, const void *bytes, size_t length, int flags,
                  const struct sockaddr *to, socklen_t to_length);
ssize_t m3_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t m3_write(int fd, const void *bytes, size_t length);

/*
 * Receive bytes, as recv(2), recvfrom(2), recvmsg(2) and read(2).
 *
 * flags are MSG_DONTWAIT, MSG_PEEK, MSG_WAITALL and, for datagrams, MSG_TRUNC.
 *
 * Return the number of bytes, 0 at the end of the stream, or -1 (EAGAIN, ECONNRESET, ENOTCONN).
 * Wait until bytes come, unless the call or the socket is non-blocking.
 */
ssize_t m3_recv(int fd, void *bytes, size_t length, int flags);
ssize_t m3_recvfrom(int fd, void *bytes, size_t length, int flags,
                    struct sockaddr *from, socklen_t *from_length);
ssize_t m3_recvmsg(int fd, struct msghdr *message, int flags);
ssize_t m3_read(int fd, void *bytes, size_t length);

/*
 * Sends a block of an area (m3_block_alloc) through a stream, after all bytes sent before.
 *
 * Nothing is copied. The receiver owns the block when it has received it, at the same address. Both
 * processes are bound in the VM of the area. The sender must live until the block is received.
 *
 *   fd     connected stream without O_NONBLOCK
 *   block  address of a block of the caller
 *
 * Returns 0, or -1. On failure the caller still owns the block.
 *   EBADF       fd is not open, or a side is not bound or not in the audience of the area
 *   EFAULT      the caller has no block at this address
 *   ENOTCONN    the stream is not connected
 *   EOPNOTSUPP  fd is a datagram socket
 *   EINVAL      the socket has O_NONBLOCK
 *   EBUSY       another thread is in a call on the endpoint: nothing happened, repeat the call
 *   EPIPE, ECONNRESET  as m3_send
 * Waits until there is room. Other threads may use the endpoint meanwhile. If they are in a call
 * for longer than 0.1 s when the send fails, the block returns at the next call of this kind.
 */
int m3_stream_send_block(int fd, void *block);

/*
 * Receives a block of an area from a stream.
 *
 *   fd     connected stream without O_NONBLOCK
 *   block  receives the address of the block
 *
 * Returns the length of the block in bytes, 0 at the end of the stream, or -1: the errors of
 * m3_stream_send_block, or
 *   EFAULT  block cannot be written
 *   EPROTO  the stream has bytes where a block was expected, or the sender did not own the block.
 *           The connection is over.
 * Waits until a block comes. Other threads may use the endpoint meanwhile. After EBUSY the block,
 * if it has come, waits for the next call: repeat it at once, no event tells of that block.
 */
ssize_t m3_stream_receive_block(int fd, void **block);

/* ---- Event loops ------------------------------------------------------- */

/*
 * Makes an event loop's set, as epoll_create1(2). flags is EPOLL_CLOEXEC or 0.
 *
 * While the loop is awake, bytes of the streams in the set need no wakeup record and no call of the
 * kernel. poll, select and epoll take com-sockets, too, but each message then costs a record.
 *
 * Returns the number of the set, which m3_close closes, or -1 (EINVAL, EMFILE, ENOMEM). Never
 * waits.
 */
int m3_epoll_create1(int flags);

/*
 * Adds, changes or removes a socket or any other descriptor, as epoll_ctl(2). command is
 * EPOLL_CTL_ADD, EPOLL_CTL_MOD or EPOLL_CTL_DEL. events are EPOLLIN, EPOLLOUT, EPOLLRDHUP and
 * EPOLLET.
 *
 * A connected stream becomes non-blocking, and is in one set at most. Its number alone does not
 * tell of its bytes then. After EPOLL_CTL_DEL, read it once until EAGAIN. m3_close removes a
 * stream; remove all other descriptors before you close them.
 *
 * Returns 0, or -1 (EBADF, EEXIST, ENOENT, EINVAL for other events, ENOTCONN). Never waits.
 */
int m3_epoll_ctl(int epfd, int command, int fd, const struct epoll_event *event);

/*
 * Waits for events, as epoll_wait(2). It first polls for as long as a sleep would cost.
 *
 * Returns the number of events, 0 after timeout_ms or m3_epoll_notify, or -1 (EBADF, EFAULT,
 * EINTR, EINVAL).
 */
int m3_epoll_wait(int epfd, struct epoll_event *events, int most, int timeout_ms);

/*
 * Prepares a wait for the set in another event loop. Returns 1 where that loop may wait until epfd
 * is readable, 0 where m3_epoll_wait finds something now, or -1 (EBADF). Never waits.
 */
int m3_epoll_prepare(int epfd);

/* Ends the present m3_epoll_wait of another thread, else the next one. Returns 0, or -1 (EBADF). */
int m3_epoll_notify(int epfd);

/* ---- End --------------------------------------------------------------- */

/*
 * Ends one direction of a connection, or both, as shutdown(2). how is SHUT_RD, SHUT_WR or
 * SHUT_RDWR. Returns 0, or -1 (EINVAL, ENOTCONN). Never waits.
 */
int m3_shutdown(int fd, int how);

/*
 * Closes a socket or a set, as close(2). Returns 0, or -1: EBADF, also after a close(2) of the
 * number; ENOTSOCK if the number stands for another descriptor, which stays open. Never waits.
 */
int m3_close(int fd);

/* ---- Names, options and flags ------------------------------------------ */

/* Reads the address of the socket, as getsockname(2). Returns 0, or -1. Never waits. */
int m3_getsockname(int fd, struct sockaddr *address, socklen_t *length);

/* Reads the address of the peer, as getpeername(2). Returns 0, or -1 (ENOTCONN). Never waits. */
int m3_getpeername(int fd, struct sockaddr *address, socklen_t *length);

/*
 * Read and set an option, as getsockopt(2) and setsockopt(2). m3_setsockopt(3) has the list of
 * options. Return 0, or -1 (ENOPROTOOPT, EINVAL). Never wait.
 */
int m3_getsockopt(int fd, int level, int option, void *value, socklen_t *length);
int m3_setsockopt(int fd, int level, int option, const void *value, socklen_t length);

/*
 * Reads or sets flags, as fcntl(2). command is F_GETFL, F_SETFL (O_NONBLOCK), F_GETFD or F_SETFD.
 * Returns the flags or 0, or -1 (EINVAL). Never waits.
 */
int m3_fcntl(int fd, int command, long argument);

/*
 * Controls a socket, as ioctl(2). request is FIONBIO or, for streams, FIONREAD. Returns 0, or -1
 * (EINVAL). Never waits.
 */
int m3_ioctl(int fd, unsigned long request, int *argument);

#ifdef __cplusplus
}
#endif

#endif /* M3IPC_SOCK_H */
