/*
 * A program that defines functions of the C library itself, and goes on to their other names there:
 * the emulator of Erlang does so with sigaction. Linked with -rdynamic, the program's functions
 * come before those of all libraries. Exit 0 where each call came through once.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

extern int __sigaction(int, const struct sigaction *, struct sigaction *);
extern int __close(int), __dup2(int, int), __fcntl(int, int, ...);
extern int __connect(int, const struct sockaddr *, socklen_t);
extern int __poll(struct pollfd *, nfds_t, int);
extern ssize_t __read(int, void *, size_t), __write(int, const void *, size_t);
extern ssize_t __send(int, const void *, size_t, int);
extern pid_t __fork(void);

static int calls;

int sigaction(int number, const struct sigaction *new, struct sigaction *old)
{
    return calls++, __sigaction(number, new, old);
}
int close(int fd) { return calls++, __close(fd); }
int dup2(int fd, int to) { return calls++, __dup2(fd, to); }
int connect(int fd, const struct sockaddr *to, socklen_t length)
{
    return calls++, __connect(fd, to, length);
}
int poll(struct pollfd *fds, nfds_t count, int timeout)
{
    return calls++, __poll(fds, count, timeout);
}
ssize_t read(int fd, void *to, size_t count) { return calls++, __read(fd, to, count); }
ssize_t write(int fd, const void *from, size_t count) { return calls++, __write(fd, from, count); }
ssize_t send(int fd, const void *from, size_t count, int flags)
{
    return calls++, __send(fd, from, count, flags);
}
pid_t fork(void) { return calls++, __fork(); }
int fcntl(int fd, int command, ...)
{
    va_list list;
    va_start(list, command);
    long argument = va_arg(list, long);
    va_end(list);
    return calls++, __fcntl(fd, command, argument);
}
void _exit(int status) { calls++, _Exit(status); }

static void handler(int number) { (void)number; }

#define ONCE(call)                                                                                 \
    do {                                                                                           \
        calls = 0;                                                                                 \
        long result = (long)(call);                                                                \
        if (result < 0 || calls != 1) {                                                            \
            fprintf(stderr, "%s: %ld, %d calls\n", #call, result, calls);                          \
            return 1;                                                                              \
        }                                                                                          \
    } while (0)

int main(void)
{
    struct sigaction action = { .sa_handler = handler };
    struct sockaddr_in address = { .sin_family = AF_INET };
    socklen_t length = sizeof address;
    int from = socket(AF_INET, SOCK_STREAM, 0), to = socket(AF_INET, SOCK_STREAM, 0);
    int status, copy;
    char word[8];
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind(from, (struct sockaddr *)&address, length) != 0 || listen(from, 1) != 0 ||
        getsockname(from, (struct sockaddr *)&address, &length) != 0)
        return 2;
    ONCE(sigaction(SIGUSR1, &action, NULL));
    ONCE(connect(to, (struct sockaddr *)&address, length));
    int peer = accept(from, NULL, NULL);
    ONCE(write(to, "question", 8));
    ONCE(read(peer, word, 8));
    ONCE(send(peer, "answered", 8, 0));
    struct pollfd ready = { .fd = to, .events = POLLIN };
    ONCE(poll(&ready, 1, -1));
    ONCE(copy = fcntl(to, F_DUPFD, 100L));
    ONCE(dup2(to, copy));
    ONCE(close(copy));
    pid_t child = fork();
    if (child == 0)
        _exit(7);
    if (child < 0 || waitpid(child, &status, 0) != child || WEXITSTATUS(status) != 7)
        return 3;
    puts("each call came through once");
    return 0;
}
