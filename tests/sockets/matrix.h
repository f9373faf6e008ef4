/*
 * What the cases have in common: two processes, a stream between them, and a log of each side's calls.
 *
 * A line is a call and what came of it: its value or errno, bytes as a sum, events as a mask. The same program run with the
 * kernel's sockets and over shared rings must write the same lines, so nothing that depends on time,
 * numbers of descriptors or sizes of buffers stands in one. Cases wait for conditions, never for times.
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

/* This side's end of the stream; whether it is a Unix one. */
extern int fd, is_unix;
/* A place for bytes of this side. */
extern char bytes[MOST];
/* The other side's process, for the one that made it. */
extern pid_t other;

/* Writes a line of this side's log. */
void say(const char *form, ...) __attribute__((format(printf, 1, 2)));
/* Logs what came of a call, and gives it back. */
long result(const char *what, long value);
#define DO(call) result(#call, (long)(call))
/* The same for a count that is told with a sum over the bytes that came. */
long got(const char *what, long count);
#define GET(call) got(#call, (long)(call))

/* A step of the other side: `tell` lets it go on past `hear`. Both go through pipes. */
void tell(void);
void hear(void);
extern int to_other[2], from_other[2];
/* Waits until so many bytes can be received, or until poll says one of these. */
void until_bytes(int stream, int count);
short until_ready(int stream, short events);
/* Waits until this side's bytes have reached the other. */
void until_taken(int stream);
/* Bytes that differ from place to place. */
void fill(char *to, size_t count, unsigned seed);
unsigned long sum(const char *from, size_t count);
/* What a random case begins with, and how often it tries: SEED and TRIES in the environment. */
unsigned seed_of(unsigned which);
int tries(int usual);
void events(const char *what, int count, const struct epoll_event *list);
void quit(const char *why) __attribute__((noreturn));

struct made { const char *name; void (*one)(void); void (*two)(void); int plain; };
/* The cases: `one` connects, `two` accepts; `plain` says that no byte has to go through a ring. */
extern const struct made cases[];
/* A listener and an address to connect to, without a stream. */
int listener(struct sockaddr_storage *at, socklen_t *length, int backlog);
int connected(const struct sockaddr_storage *at, socklen_t length);
/* Round trips on a stream, so that both ways move to shared memory, if they ever do: each side finds the other idle. */
void warm(int stream, int first);
/* A descriptor in a message. */
void pass(int over, int stream);
int take(int over);
/* The words of a program that goes on with a stream, for exec; and what it does. */
char **resume(const char *what, int stream);
void resumed(const char *what, int stream);
#endif
