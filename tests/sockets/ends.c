/*
 * Cases: what a sender finds after its peer has ended. Each way to end, of an idle peer and of one
 * that is awake in an event loop; each way to learn of the end; small and large messages.
 */
#include "sets.h"

enum way { CLOSES, SHUTS, EXITS, KILLED, LEAVES_BYTES, LEAVES_BYTES_KILLED, RESETS, SHUTS_READ,
    LEAVES_BYTES_RANGE };
static const char *const ways[] = { "close", "shutdown of sending", "exit", "kill",
    "close with unread bytes", "kill with unread bytes", "reset", "shutdown of receiving",
    "close_range with unread bytes" };

static int leaves_bytes(enum way way)
{
    return way == LEAVES_BYTES || way == LEAVES_BYTES_KILLED || way == LEAVES_BYTES_RANGE;
}

enum { BY_READ, BY_POLL, BY_OTHERS };
static const char *const learnt[] = { "by read", "by poll", "by others" };

static volatile sig_atomic_t pipes;

static void count_pipe(int number)
{
    (void)number;
    pipes++;
}

static int tcp_state(int stream)
{
    struct tcp_info info;
    socklen_t length = sizeof info;
    return getsockopt(stream, IPPROTO_TCP, TCP_INFO, &info, &length) ? TCP_CLOSE : info.tcpi_state;
}

/* The peer's part: round trips, then its end. */
static void end_peer(int stream, enum way way, int loops, int size, int ready, int go)
{
    char byte = 'x';
    long count = 0, now;
    warm(stream, 0);
    if (loops) {
        struct epoll_event event = { .events = EPOLLIN };
        int set = epoll_create1(0);
        epoll_ctl(set, EPOLL_CTL_ADD, stream, &event);
        for (int turn = 0; turn < 8; turn++) {
            long come = 0;
            while (come < size) {
                if (epoll_wait(set, &event, 1, -1) < 0 || (now = read(stream, bytes, MOST)) <= 0)
                    _exit(9);
                come += now;
            }
            if (write(stream, "answered", 8) != 8)
                _exit(9);
        }
    }
    if (leaves_bytes(way))
        until_bytes(stream, size);
    if (way == CLOSES || way == LEAVES_BYTES)
        close(stream);
    if (way == LEAVES_BYTES_RANGE)
        close_range(stream, stream, 0);
    if (way == SHUTS)
        shutdown(stream, SHUT_WR);
    if (way == SHUTS_READ)
        shutdown(stream, SHUT_RD);
    if (way == RESETS) {
        struct linger at_once = { 1, 0 };
        setsockopt(stream, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
        close(stream);
    }
    if (way == EXITS)
        _exit(0);
    if (write(ready, &byte, 1) != 1)
        _exit(9);
    if (way == SHUTS) {
        while ((now = read(stream, bytes, MOST)) > 0)
            count += now;
        if (write(ready, &count, sizeof count) != sizeof count)
            _exit(9);
    }
    if (read(go, &byte, 1) < 0)
        _exit(9);
    _exit(0);
}

static void one_end(enum way way, int loops, int how, int size)
{
    struct sockaddr_storage at;
    socklen_t length;
    int made = listener(&at, &length, 1), ready[2], go[2];
    char byte;
    fill(bytes, size, 77);
    if (pipe(ready) != 0 || pipe(go) != 0)
        quit("pipe");
    pid_t child = fork();
    if (child == 0) {
        close(made);
        close(ready[0]);
        close(go[1]);
        other = 0;
        end_peer(connected(&at, length), way, loops, size, ready[1], go[0]);
    }
    close(ready[1]);
    close(go[0]);
    int stream = accept(made, NULL, NULL);
    close(made);
    say("%s, %s, known %s, messages of %d", ways[way], loops ? "in a loop" : "idle", learnt[how],
        size);
    warm(stream, 1);
    for (int turn = 0; loops && turn < 8; turn++) {
        char word[8];
        if (write(stream, bytes, size) != size || recv(stream, word, 8, MSG_WAITALL) != 8)
            quit("the peer does not answer");
    }
    if (leaves_bytes(way) && write(stream, bytes, size) != size)
        quit("write");
    siginfo_t outcome;
    if (way != EXITS && read(ready[0], &byte, 1) != 1)
        quit("the peer does not end");
    if (way == KILLED || way == LEAVES_BYTES_KILLED)
        kill(child, SIGKILL);
    if (way == EXITS || way == KILLED || way == LEAVES_BYTES_KILLED)
        waitid(P_PID, child, &outcome, WEXITED | WNOWAIT);
    if (way != SHUTS_READ)
        for (int turn = 0; !is_unix && tcp_state(stream) == TCP_ESTABLISHED && turn < 5000; turn++)
            usleep(1000);
    if (how == BY_POLL && way != SHUTS_READ)
        until_ready(stream, POLLRDHUP);
    if (how == BY_READ && way != SHUTS_READ)
        DO(read(stream, bytes, MOST));
    fill(bytes, size, 78);
    long sent = 0;
    for (int turn = 0; turn < 5; turn++) {
        pipes = 0;
        long now = write(stream, bytes, size);
        sent += now > 0 ? now : 0;
        /* A message that is larger than its ring has parts. */
        say("write: %s", now > 0 ? "sent" : now == 0 ? "nothing" : strerrorname_np(errno));
        say("signals: %d", (int)pipes);
        /* The kernel answers a message to a closed socket at once, in its own time. */
        for (int wait = 0; !is_unix && way != SHUTS && way != SHUTS_READ
            && tcp_state(stream) != TCP_CLOSE && wait < 50; wait++)
            usleep(1000);
    }
    if (way == SHUTS) {
        long count = -1;
        DO(shutdown(stream, SHUT_WR));
        if (read(ready[0], &count, sizeof count) != sizeof count)
            quit("no count");
        say(count == sent ? "all came" : "%ld of %ld came", count, sent);
    }
    if (way != SHUTS_READ) {
        int found = until_ready(stream, POLLIN | POLLOUT | POLLRDHUP);
        /* The kernel of a Unix socket knows nothing of unread bytes in a ring. */
        say("events: %#x", is_unix ? found & ~POLLERR : found);
        DO(recv(stream, bytes, 10, MSG_DONTWAIT));
        DO(recv(stream, bytes, 10, MSG_DONTWAIT));
    }
    close(stream);
    close(go[1]);
    close(ready[0]);
    waitpid(child, NULL, 0);
}

static void ends_by(enum way way)
{
    signal(SIGPIPE, count_pipe);
    int killed = way == KILLED || way == LEAVES_BYTES_KILLED;
    for (int size = 100; size <= 5000; size += 4900)
        for (int loops = 0; loops < 2; loops++)
            for (int how = 0; how < 3; how++)
                /* A loop that is killed awake leaves a first send without an answer. */
                if (!killed || !loops || how != BY_OTHERS)
                    one_end(way, loops, how, size);
}

#define ENDS_BY(name, way) void one_ends_##name(void) { ends_by(way); }
ENDS_BY(close, CLOSES)
ENDS_BY(shutdown, SHUTS)
ENDS_BY(exit, EXITS)
ENDS_BY(kill, KILLED)
ENDS_BY(unread, LEAVES_BYTES)
ENDS_BY(unread_range, LEAVES_BYTES_RANGE)
ENDS_BY(unread_kill, LEAVES_BYTES_KILLED)
ENDS_BY(reset, RESETS)
ENDS_BY(shut_read, SHUTS_READ)
