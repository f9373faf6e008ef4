/*
 * The common part of all cases: two processes, a stream between them, and a log of each side's
 * calls.
 *
 * A line is a call and its outcome: value or errno, bytes as a sum, events as a mask. The program
 * must
 * write the same lines with the kernel's sockets and over shared rings. So a line holds no time, no
 * number of a descriptor and no size of a buffer. Cases wait for conditions, never for times.
 */
#ifndef MATRIX_H
#define MATRIX_H
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define MOST (1 << 20)

/* This side's end of the stream, and whether it is a Unix socket. */
extern int fd, is_unix;
/* A buffer of this side. */
extern char bytes[MOST];
/* The process of the other side, for the side that started it. */
extern pid_t other;

/* Writes a line of this side's log. */
void say(const char *form, ...) __attribute__((format(printf, 1, 2)));
/* Logs the outcome of a call, and returns it. */
long result(const char *what, long value);
#define DO(call) result(#call, (long)(call))
/* The same for a count of bytes in `bytes`, with a sum over them. */
long got(const char *what, long count);
#define GET(call) got(#call, (long)(call))

/* A step of the other side: `allow_next` lets it pass `await_next`. Both go through pipes. */
void allow_next(void);
void await_next(void);
extern int to_other[2], from_other[2];
/* Waits until `count` bytes can be received, or until poll reports one of `events`. */
void until_bytes(int stream, int count);
short until_ready(int stream, short events);
/* Waits on the stream with limits and masks that the kernel refuses, whatever is ready. */
void refused_limits(int set);
/* Waits until the other side has received this side's bytes. */
void until_taken(int stream);
/* Bytes that depend on their position. */
void fill(char *to, size_t count, unsigned seed);
unsigned long sum(const char *from, size_t count);
/* The seed and the number of tries of a random case: SEED and TRIES in the environment. */
unsigned seed_of(unsigned which);
int tries(int usual);
void events(const char *what, int count, const struct epoll_event *list);
void quit(const char *why) __attribute__((noreturn));

struct made { const char *name; void (*one)(void); void (*two)(void); int plain; };
/* The cases: `one` connects, `two` accepts. `plain` of 1 or 2 says that no byte must go through a
 * ring, and of -1 or 2 that the case makes its own streams. */
extern const struct made cases[];
/* A listener and an address to connect to, without a stream. */
int listener(struct sockaddr_storage *at, socklen_t *length, int backlog);
int connected(const struct sockaddr_storage *at, socklen_t length);
/* Round trips on a stream: each side finds the other idle, so both directions can switch to shared
 * memory. */
void warm(int stream, int first);
/* A descriptor in a message. */
void pass(int over, int stream);
int take(int over);
/* The arguments of a program that goes on with a stream after an exec, and its work. */
char **resume(const char *what, int stream);
/* More variables than the library adds to: a program with them runs without it. */
char **large_environment(void);
void resumed(const char *what, int stream);
void standard_after_exec(const char *what, int stream);
#endif
