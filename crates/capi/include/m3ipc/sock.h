/*
 * Com-sockets of m3ipc: Berkeley sockets over shared memory, between the processes of
 * a VM. Each call does what the POSIX call of its name does, returns what that returns
 * and sets errno as that does; see m3_socket(3) for what differs.
 *
 * A process is in a domain of its VM. Domain d has the address 192.168.0.(d + 2) (the
 * network is a setting of the node daemon) and ports of its own; 192.168.0.255 is all
 * domains, for datagrams. An address is a struct sockaddr_in.
 *
 * The number of a socket is a descriptor of the kernel's: poll, select and epoll take
 * it as it is; what reads, writes and closes it are the calls below alone.
 */
#ifndef M3IPC_SOCK_H
#define M3IPC_SOCK_H

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The family of com-sockets: their addresses have the form of IPv4. */
#define M3_AF_COM AF_INET
#define M3_PF_COM AF_INET

/*
 * Joins a domain of a VM with this process, -1: any that is free. Without it the first
 * socket joins one of the VM that the process is bound in, or that M3_VM names: the one
 * that M3_DOMAIN names or numbers, else one of its own.
 * Returns the domain, or -1: EISCONN (in one already), EACCES, ENETDOWN, EADDRNOTAVAIL.
 */
int m3_domain(int vmid, int domain);

/*
 * The same for the domain that the VM's configuration (m3 vm create --domain) gives this name;
 * its address, to connect there. A vmid of -1: the VM that the process is bound in, or that
 * M3_VM names. -1 and EADDRNOTAVAIL where the VM has no such name.
 */
int m3_domain_named(int vmid, const char *name);
int m3_domain_address(int vmid, const char *name, struct in_addr *address);

int m3_socket(int domain, int type, int protocol);
int m3_bind(int fd, const struct sockaddr *address, socklen_t length);
int m3_listen(int fd, int backlog);
int m3_accept(int fd, struct sockaddr *address, socklen_t *length);
int m3_accept4(int fd, struct sockaddr *address, socklen_t *length, int flags);
int m3_connect(int fd, const struct sockaddr *address, socklen_t length);

ssize_t m3_send(int fd, const void *bytes, size_t length, int flags);
ssize_t m3_sendto(int fd, const void *bytes, size_t length, int flags, const struct sockaddr *to, socklen_t to_length);
ssize_t m3_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t m3_write(int fd, const void *bytes, size_t length);
ssize_t m3_recv(int fd, void *bytes, size_t length, int flags);
ssize_t m3_recvfrom(int fd, void *bytes, size_t length, int flags, struct sockaddr *from, socklen_t *from_length);
ssize_t m3_recvmsg(int fd, struct msghdr *message, int flags);
ssize_t m3_read(int fd, void *bytes, size_t length);

/*
 * A block of an area (m3_block_alloc) through a stream, behind all bytes that were sent before: it
 * changes its owner and lies where it lay; nothing of it is copied. Both processes are bound in the VM of the
 * area, and the sender lives until the block is received. send_block: 0. receive_block: the bytes
 * of the block, whose address it stores; 0 at the end of the stream. -1: EBADF (no socket, or one side is not
 * bound, or not of the area), EFAULT (no block of the caller's), ENOTCONN, EINVAL (a socket that does not wait), EPROTO
 * (something else came), EPIPE. What was not sent is the caller's still.
 */
int m3_stream_send_block(int fd, void *block);
ssize_t m3_stream_receive_block(int fd, void **block);

int m3_shutdown(int fd, int how);
int m3_close(int fd);

int m3_getsockname(int fd, struct sockaddr *address, socklen_t *length);
int m3_getpeername(int fd, struct sockaddr *address, socklen_t *length);
int m3_getsockopt(int fd, int level, int option, void *value, socklen_t *length);
int m3_setsockopt(int fd, int level, int option, const void *value, socklen_t length);

/* F_GETFL, F_SETFL (O_NONBLOCK), F_GETFD, F_SETFD; FIONREAD and FIONBIO. */
int m3_fcntl(int fd, int command, long argument);
int m3_ioctl(int fd, unsigned long request, int *argument);

#ifdef __cplusplus
}
#endif

#endif /* M3IPC_SOCK_H */
