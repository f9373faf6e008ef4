/*
 * Random sequences of socket calls: random SEED CALLS tcp|unix one|two
 *
 * Two ends of several connections make calls in turns, in one process or in two. The program writes
 * a line for each call: value, errno, event mask, and a sum of the bytes. A seed always gives the
 * same calls, so a run under `m3 sock run` must write what a native run writes (random.sh).
 *
 * The calls keep within what a kernel socket takes at once, since a ring holds more. No call waits.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STREAMS = 4, SIZE_MAX_ = 3000, AHEAD_MAX = 8000, LISTED = 3 };

enum call { SEND, WRITE, WRITEV, SENDMSG, SENDFILE, RECV, READ, READV, RECVMSG, PEEK, WAITALL, POLL,
    SELECT, EPOLL_LEVEL, EPOLL_EDGE, EPOLL_ONESHOT, REARM, FORGET, WATCH, QUEUED, DUP, DUP2,
    NODELAY, NONBLOCK, CHILD_SEND, CHILD_RECV, SHUT, CLOSE, CALLS };

/* One call of one side on one stream. */
struct order {
    enum call call;
    int stream, size, seed;
};

struct outcome {
    long value;
    int error;
    unsigned sum;
};

static int is_tcp, fds[STREAMS], sets[LISTED], side;
static FILE *file;
static const unsigned kinds[LISTED] = { EPOLLIN | EPOLLRDHUP, EPOLLIN | EPOLLRDHUP | EPOLLET,
    EPOLLIN | EPOLLONESHOT };

static void quit(const char *what)
{
    perror(what);
    exit(3);
}

static unsigned next_of(unsigned *state)
{
    *state = *state * 1664525 + 1013904223;
    return *state >> 8;
}

static unsigned sum_of(const char *bytes, long count)
{
    unsigned sum = 2166136261u;
    for (long i = 0; i < count; i++)
        sum = (sum ^ (unsigned char)bytes[i]) * 16777619u;
    return count > 0 ? sum : 0;
}

static void fill(char *bytes, int count, unsigned seed)
{
    for (int i = 0; i < count; i++)
        bytes[i] = (char)(next_of(&seed) >> 4);
}

static void control(int set, int what, int stream)
{
    struct epoll_event one = { .events = kinds[set], .data.u32 = stream };
    epoll_ctl(sets[set], what, fds[stream], &one);
}

/* The events of a set, as one number that does not depend on their order. */
static long events_of(int set)
{
    struct epoll_event list[2 * STREAMS];
    int count = epoll_wait(sets[set], list, 2 * STREAMS, 0);
    long all = count;
    for (int i = 0; i < count; i++)
        all += (long)(list[i].events + 1) << (8 + 12 * list[i].data.u32);
    return all;
}

static long in_child(int fd, int sends, char *bytes, int size)
{
    int status;
    pid_t child = fork();
    if (child == 0)
        _exit((sends ? send(fd, bytes, size, MSG_DONTWAIT | MSG_NOSIGNAL)
            : recv(fd, bytes, size, MSG_DONTWAIT)) & 127);
    waitpid(child, &status, 0);
    return WEXITSTATUS(status);
}

static struct outcome perform(const struct order *order)
{
    static char bytes[SIZE_MAX_ + 1];
    struct outcome out = { 0 };
    int fd = fds[order->stream], size = order->size, half = size / 3, is_receive = 0, number = 0;
    struct iovec runs[2] = { { bytes, half }, { bytes + half, size - half } };
    struct msghdr message = { .msg_iov = runs, .msg_iovlen = 2 };
    struct pollfd one = { .fd = fd, .events = POLLIN | POLLOUT | POLLRDHUP };
    struct timeval none = { 0 };
    fd_set reads, writes;
    fill(bytes, size, order->seed);
    errno = 0;
    switch (order->call) {
    case SEND: out.value = send(fd, bytes, size, MSG_DONTWAIT | MSG_NOSIGNAL); break;
    case WRITE: out.value = write(fd, bytes, size); break;
    case WRITEV: out.value = writev(fd, runs, 2); break;
    case SENDMSG: out.value = sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL); break;
    case SENDFILE:
        rewind(file);
        out.value = sendfile(fd, fileno(file), &(off_t){ order->seed % 1000 }, size);
        break;
    case RECV: out.value = recv(fd, bytes, size, MSG_DONTWAIT); is_receive = 1; break;
    case READ:
        fcntl(fd, F_SETFL, O_NONBLOCK);
        out.value = read(fd, bytes, size);
        is_receive = 1;
        break;
    case READV:
        fcntl(fd, F_SETFL, O_NONBLOCK);
        out.value = readv(fd, runs, 2);
        is_receive = 1;
        break;
    case RECVMSG: out.value = recvmsg(fd, &message, MSG_DONTWAIT); is_receive = 1; break;
    case PEEK: out.value = recv(fd, bytes, size, MSG_DONTWAIT | MSG_PEEK); is_receive = 1; break;
    case WAITALL:
        out.value = recv(fd, bytes, size, MSG_DONTWAIT | MSG_WAITALL);
        is_receive = 1;
        break;
    case POLL: out.value = poll(&one, 1, 0) * 65536 + one.revents; break;
    case SELECT:
        FD_ZERO(&reads);
        FD_ZERO(&writes);
        FD_SET(fd, &reads);
        FD_SET(fd, &writes);
        out.value = select(fd + 1, &reads, &writes, NULL, &none) * 4;
        out.value += 2 * !!FD_ISSET(fd, &reads) + !!FD_ISSET(fd, &writes);
        break;
    case EPOLL_LEVEL: case EPOLL_EDGE: case EPOLL_ONESHOT:
        out.value = events_of(order->call - EPOLL_LEVEL);
        break;
    case REARM: control(2, EPOLL_CTL_MOD, order->stream); break;
    case FORGET:
        out.value = epoll_ctl(sets[order->seed % LISTED], EPOLL_CTL_DEL, fd, NULL);
        break;
    case WATCH:
        for (int set = 0; set < LISTED; set++)
            control(set, EPOLL_CTL_ADD, order->stream);
        break;
    case QUEUED: out.value = ioctl(fd, FIONREAD, &number) * 65536L + number; break;
    case DUP:
        number = dup(fd);
        out.value = number >= 0 ? send(number, bytes, size % 50, MSG_DONTWAIT | MSG_NOSIGNAL) : -1;
        close(number);
        break;
    case DUP2:
        number = dup(fd);
        out.value = dup2(number, fd) == fd;
        close(number);
        break;
    case NODELAY:
        number = order->seed & 1;
        if (is_tcp && order->seed & 2)
            setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &number, sizeof number);
        if (is_tcp)
            getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &number, &(socklen_t){ sizeof number });
        out.value = !!number;
        break;
    case NONBLOCK: out.value = fcntl(fd, F_SETFL, order->seed & 1 ? O_NONBLOCK : 0); break;
    case CHILD_SEND: out.value = in_child(fd, 1, bytes, size); break;
    case CHILD_RECV: out.value = in_child(fd, 0, bytes, size); break;
    case SHUT: out.value = shutdown(fd, SHUT_WR); break;
    case CLOSE: case CALLS: break;
    }
    out.error = out.value < 0 ? errno : 0;
    out.sum = is_receive ? sum_of(bytes, out.value) : 0;
    return out;
}

/* A new connection at one number: both sides make their end in turn. */
static struct sockaddr_storage address;
static socklen_t length;
static int from;

static void open_listener(void)
{
    struct sockaddr_in tcp = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    address.ss_family = is_tcp ? AF_INET : AF_UNIX;
    if (is_tcp)
        memcpy(&address, &tcp, sizeof tcp);
    from = socket(address.ss_family, SOCK_STREAM, 0);
    if (bind(from, (struct sockaddr *)&address, is_tcp ? sizeof tcp : sizeof(sa_family_t)) != 0 ||
        listen(from, 8) != 0)
        quit("listen");
    length = sizeof address;
    getsockname(from, (struct sockaddr *)&address, &length);
}

static void reopen(int which, int stream)
{
    if (fds[stream] >= 0)
        close(fds[stream]);
    if (which == 0) {
        fds[stream] = socket(address.ss_family, SOCK_STREAM, 0);
        if (connect(fds[stream], (struct sockaddr *)&address, length) != 0)
            quit("connect");
    } else {
        fds[stream] = accept(from, NULL, NULL);
    }
    for (int set = 0; set < LISTED; set++)
        control(set, EPOLL_CTL_ADD, stream);
}

static void begin_side(void)
{
    for (int set = 0; set < LISTED; set++)
        sets[set] = epoll_create1(0);
    memset(fds, -1, sizeof fds);
    file = tmpfile();
    for (int i = 0; i < 8000; i++)
        putc(i % 251, file);
    fflush(file);
}

/* The state of each side; in one process both sides are here. */
static struct state {
    int fds[STREAMS], sets[LISTED];
} states[2];
static int both, to_other[2], from_other[2];

static void enter(int which)
{
    if (!both || which == side)
        return;
    memcpy(states[side].fds, fds, sizeof fds);
    memcpy(states[side].sets, sets, sizeof sets);
    memcpy(fds, states[which].fds, sizeof fds);
    memcpy(sets, states[which].sets, sizeof sets);
    side = which;
}

static struct outcome call_of(int which, const struct order *order)
{
    struct outcome out = { 0 };
    if (both || which == 0) {
        enter(which);
        if (order->call == CLOSE)
            reopen(which, order->stream);
        else
            out = perform(order);
        return out;
    }
    if (write(to_other[1], order, sizeof *order) != sizeof *order ||
        read(from_other[0], &out, sizeof out) != sizeof out)
        quit("the other side is gone");
    return out;
}

static void obey(void)
{
    struct order order;
    while (read(to_other[0], &order, sizeof order) == sizeof order) {
        struct outcome out = { 0 };
        if (order.call == CLOSE)
            reopen(1, order.stream);
        else
            out = perform(&order);
        if (write(from_other[1], &out, sizeof out) != sizeof out)
            break;
    }
    _exit(0);
}

int main(int argc, char **argv)
{
    if (argc != 5)
        return 2;
    unsigned state = strtoul(argv[1], NULL, 10) * 7919 + 1;
    long calls = atol(argv[2]);
    is_tcp = strcmp(argv[3], "tcp") == 0;
    both = strcmp(argv[4], "one") == 0;
    open_listener();
    begin_side();
    if (both) {
        memcpy(states[0].sets, sets, sizeof sets);
        begin_side();
        memcpy(states[1].sets, sets, sizeof sets);
        memset(states[0].fds, -1, sizeof fds);
        memset(states[1].fds, -1, sizeof fds);
        side = 1;
        enter(0);
    } else {
        if (pipe(to_other) != 0 || pipe(from_other) != 0)
            quit("pipe");
        pid_t other = fork();
        if (other == 0) {
            close(to_other[1]);
            close(from_other[0]);
            begin_side();
            obey();
        }
        close(to_other[0]);
        close(from_other[1]);
    }
    /* Bytes that were sent and not received, by stream and sending side; who shut its sending. */
    long ahead[STREAMS][2] = { { 0 } };
    int shut[STREAMS][2] = { { 0 } };
    for (int stream = 0; stream < STREAMS; stream++)
        for (int which = 0; which < 2; which++)
            call_of(which, &(struct order){ CLOSE, stream, 0, 0 });
    for (long i = 0; i < calls; i++) {
        int which = next_of(&state) & 1, stream = next_of(&state) % STREAMS;
        enum call call = next_of(&state) % 24;
        unsigned rare = next_of(&state) % 4000;
        if (rare < 4)
            call = CHILD_SEND + rare % 2;
        else if (rare < 12)
            call = SHUT;
        else if (rare < 24)
            call = CLOSE;
        int size = 1 + next_of(&state) % (next_of(&state) % 4 ? 100 : SIZE_MAX_);
        struct order order = { call, stream, size, (int)(next_of(&state) & 0xffffff) };
        int sends = call <= SENDFILE || call == CHILD_SEND || call == DUP;
        if (sends && (ahead[stream][which] > AHEAD_MAX || shut[stream][which]))
            continue;
        if (call == CHILD_SEND || call == CHILD_RECV)
            order.size = size = 1 + size % 100;
        if (call == SHUT)
            shut[stream][which] = 1;
        if (call == CLOSE) {
            call_of(0, &order);
            call_of(1, &order);
            memset(ahead[stream], 0, sizeof ahead[stream]);
            memset(shut[stream], 0, sizeof shut[stream]);
            continue;
        }
        struct outcome out = call_of(which, &order);
        if (sends && out.value > 0)
            ahead[stream][which] += out.value;
        if ((call >= RECV && call <= RECVMSG) || call == WAITALL || call == CHILD_RECV)
            if (out.value > 0)
                ahead[stream][1 - which] -= out.value;
        printf("%ld %d.%d %d(%d) %ld %d %08x\n", i, which, stream, call, size, out.value, out.error,
            out.sum);
    }
    return 0;
}
