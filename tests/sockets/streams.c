/* Cases: bytes, ends and errors of one stream. */
#include "matrix.h"

static void one_refused(void)
{
    struct sockaddr_storage at;
    socklen_t length;
    int made = listener(&at, &length, -1), stream = socket(at.ss_family, SOCK_STREAM, 0);
    DO(connect(stream, (void *)&at, length));
    DO(send(stream, "x", 1, MSG_NOSIGNAL));
    DO(recv(stream, bytes, 1, 0));
    close(made);
    close(stream);
    made = listener(&at, &length, 4);
    stream = socket(at.ss_family, SOCK_STREAM, 0);
    DO(read(stream, bytes, 1));
    DO(connect(stream, (void *)&at, length));
    DO(connect(stream, (void *)&at, length));
    DO(write(stream, "early", 5));
    int accepted = accept(made, NULL, NULL);
    GET(recv(accepted, bytes, 5, MSG_WAITALL));
}

static void nothing(void)
{
}

static void one_backlog(void)
{
    struct sockaddr_storage at;
    socklen_t length;
    int made = listener(&at, &length, 8), ends[4];
    for (int i = 0; i < 4; i++) {
        ends[i] = connected(&at, length);
        fill(bytes, 10 + i, i);
        DO(write(ends[i], bytes, 10 + i));
    }
    DO(shutdown(ends[1], SHUT_WR));
    close(ends[2]);
    for (int i = 0; i < 4; i++) {
        int stream = accept(made, NULL, NULL);
        until_bytes(stream, 10 + i);
        GET(read(stream, bytes, 100));
        DO(write(stream, "answer", 6));
        close(stream);
    }
    until_ready(ends[0], POLLIN);
    GET(read(ends[0], bytes, 100));
}

static void one_half_close(void)
{
    fill(bytes, 1000, 1);
    DO(write(fd, bytes, 1000));
    DO(shutdown(fd, SHUT_WR));
    DO(write(fd, bytes, 1));
    DO(send(fd, bytes, 1, MSG_NOSIGNAL | MSG_DONTWAIT));
    until_bytes(fd, 500);
    GET(read(fd, bytes, 2000));
    DO(read(fd, bytes, 2000));
    DO(shutdown(fd, SHUT_RDWR) * 0);
    DO(close(fd));
}

static void two_half_close(void)
{
    GET(recv(fd, bytes, 1000, MSG_WAITALL));
    DO(read(fd, bytes, 2000));
    DO(read(fd, bytes, 2000));
    fill(bytes, 500, 2);
    DO(write(fd, bytes, 500));
    DO(shutdown(fd, SHUT_WR));
    DO(close(fd));
}

static void one_close_clean(void)
{
    DO(write(fd, "good bye", 8));
    DO(close(fd));
    allow_next();
}

static void two_close_clean(void)
{
    await_next();
    until_ready(fd, POLLRDHUP);
    GET(read(fd, bytes, 3));
    GET(read(fd, bytes, 100));
    DO(read(fd, bytes, 100));
    DO(read(fd, bytes, 100));
}

static void one_reset(void)
{
    fill(bytes, 300, 3);
    DO(write(fd, bytes, 300));
    await_next();
    say("events: %#x", until_ready(fd, POLLHUP | POLLRDHUP));
    GET(read(fd, bytes, 100));
    DO(read(fd, bytes, 100));
    DO(read(fd, bytes, 100));
    DO(write(fd, bytes, 1));
    DO(write(fd, bytes, 1));
}

static void two_reset(void)
{
    DO(write(fd, "unasked", 7));
    until_taken(fd);
    until_bytes(fd, 300);
    DO(close(fd));
    allow_next();
}

static void one_linger(void)
{
    struct linger now = { 1, 0 };
    DO(write(fd, "last", 4));
    until_taken(fd);
    DO(setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now));
    DO(close(fd));
    allow_next();
}

static void two_linger(void)
{
    await_next();
    until_ready(fd, POLLHUP | POLLRDHUP);
    long first = read(fd, bytes, 100);
    say(first == 4 || (first < 0 && errno == ECONNRESET) ? "bytes or a reset"
        : "neither bytes nor a reset");
}

static void one_gone(void)
{
    await_next();
    until_ready(fd, POLLRDHUP);
    long first = write(fd, "x", 1);
    say("first: %s", first == 1 ? (is_unix ? "taken" : "taken, as TCP has it")
        : strerrorname_np(errno));
    if (!is_unix)
        until_ready(fd, POLLHUP);
    DO(write(fd, "x", 1));
    DO(send(fd, "x", 1, MSG_NOSIGNAL));
    say("events: %#x", until_ready(fd, POLLIN | POLLOUT));
}

static void two_gone(void)
{
    DO(close(fd));
    allow_next();
}

static volatile sig_atomic_t raised;

static void count_signal(int number)
{
    (void)number;
    raised++;
}

static void one_sigpipe(void)
{
    signal(SIGPIPE, count_signal);
    DO(shutdown(fd, SHUT_WR));
    DO(write(fd, "x", 1));
    say("signals: %d", (int)raised);
    DO(send(fd, "x", 1, MSG_NOSIGNAL));
    say("signals: %d", (int)raised);
    allow_next();
}

static void two_wait(void)
{
    await_next();
    DO(close(fd));
}

static void one_peek(void)
{
    fill(bytes, 64, 4);
    DO(write(fd, bytes, 64));
    await_next();
    DO(write(fd, bytes, 10));
    DO(close(fd));
}

static void two_peek(void)
{
    until_bytes(fd, 64);
    GET(recv(fd, bytes, 10, MSG_PEEK));
    GET(recv(fd, bytes, 1000, MSG_PEEK));
    GET(recv(fd, bytes, 5, 0));
    GET(recv(fd, bytes, 10, MSG_PEEK | MSG_DONTWAIT));
    GET(recv(fd, bytes, 59, MSG_PEEK | MSG_WAITALL));
    GET(recv(fd, bytes, 1000, 0));
    DO(recv(fd, bytes, 10, MSG_PEEK | MSG_DONTWAIT));
    allow_next();
    GET(recv(fd, bytes, 1, MSG_PEEK));
    GET(recv(fd, bytes, 10, MSG_WAITALL));
    DO(recv(fd, bytes, 10, MSG_PEEK));
    DO(recv(fd, bytes, 10, 0));
}

static void one_waitall(void)
{
    fill(bytes, 5000, 5);
    for (int i = 0; i < 5; i++) {
        DO(write(fd, bytes + i * 1000, 1000));
        usleep(2000);
    }
    await_next();
    DO(write(fd, bytes, 7));
    DO(close(fd));
}

static void two_waitall(void)
{
    GET(recv(fd, bytes, 5000, MSG_WAITALL));
    allow_next();
    GET(recv(fd, bytes, 100, MSG_WAITALL));
    DO(recv(fd, bytes, 100, MSG_WAITALL));
}

static void one_vectors(void)
{
    fill(bytes, 900, 6);
    struct iovec parts[4] = { { bytes, 100 }, { bytes + 100, 0 }, { bytes + 100, 500 },
        { bytes + 600, 300 } };
    DO(writev(fd, parts, 4));
    DO(pwritev2(fd, parts, 1, -1, 0));
    DO(pwrite(fd, bytes, 10, 0));
    DO(writev(fd, parts, 0));
    volatile int none = -1;
    DO(writev(fd, parts, none));
    DO(write(fd, bytes, 0));
    DO(send(fd, bytes, 0, 0));
    struct msghdr message = { .msg_iov = parts, .msg_iovlen = 4 };
    DO(sendmsg(fd, &message, 0));
    struct mmsghdr many[3] = { { message, 0 }, { message, 0 }, { message, 0 } };
    DO(sendmmsg(fd, many, 3, 0));
    say("lengths: %u %u %u", many[0].msg_len, many[1].msg_len, many[2].msg_len);
    DO(sendto(fd, bytes, 20, 0, NULL, 0));
    await_next();
}

static void two_vectors(void)
{
    struct iovec parts[3] = { { bytes, 10 }, { bytes + 10, 1 }, { bytes + 11, 400 } };
    until_bytes(fd, 1000);
    GET(readv(fd, parts, 3));
    GET(preadv2(fd, parts, 3, -1, 0));
    DO(pread(fd, bytes, 10, 0));
    struct sockaddr_storage from;
    struct msghdr message = { .msg_iov = parts, .msg_iovlen = 3, .msg_name = &from,
        .msg_namelen = sizeof from };
    GET(recv(fd, bytes, 178, MSG_WAITALL));
    until_bytes(fd, 900);
    GET(recvmsg(fd, &message, MSG_CMSG_CLOEXEC));
    say("name %u, control %zu, flags %#x", message.msg_namelen, message.msg_controllen,
        message.msg_flags);
    GET(recv(fd, bytes, 489, MSG_WAITALL));
    until_bytes(fd, 2720);
    struct mmsghdr many[2] = { { message, 0 }, { message, 0 } };
    DO(recvmmsg(fd, many, 2, 0, NULL));
    say("lengths: %u %u", many[0].msg_len, many[1].msg_len);
    socklen_t length = sizeof from;
    GET(recvfrom(fd, bytes, 100, 0, (void *)&from, &length));
    say("name %u", length);
    GET(recv(fd, bytes, 1798, MSG_WAITALL));
    DO(read(fd, bytes, 0));
    DO(recv(fd, bytes, 0, MSG_DONTWAIT));
    DO(recv(fd, bytes, 10, MSG_DONTWAIT));
    allow_next();
}

static void one_nonblocking(void)
{
    DO(fcntl(fd, F_SETFL, O_NONBLOCK));
    DO(read(fd, bytes, 10));
    long sent = 0, now;
    fill(bytes, 4096, 7);
    while ((now = write(fd, bytes, 4096)) > 0)
        sent += now;
    DO(now);
    struct pollfd one = { fd, POLLOUT, 0 };
    say("writable: %d", poll(&one, 1, 0));
    allow_next();
    say("events: %#x", until_ready(fd, POLLOUT));
    DO(fcntl(fd, F_SETFL, 0));
    DO(shutdown(fd, SHUT_WR));
    long told;
    if (recv(fd, &told, sizeof told, MSG_WAITALL) != sizeof told)
        quit("no answer");
    say(told == sent ? "all came" : "%ld sent, %ld came", sent, told);
}

static void two_nonblocking(void)
{
    await_next();
    long all = 0, now;
    while ((now = read(fd, bytes, 10000)) > 0)
        all += now;
    DO(now);
    DO(write(fd, &all, sizeof all));
}

static void one_timeouts(void)
{
    struct timeval short_time = { 0, 20000 }, none = { 0, 0 };
    DO(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &short_time, sizeof short_time));
    DO(read(fd, bytes, 10));
    DO(recv(fd, bytes, 10, MSG_WAITALL));
    allow_next();
    until_bytes(fd, 4);
    GET(recv(fd, bytes, 10, MSG_WAITALL));
    DO(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &none, sizeof none));
    allow_next();
    GET(read(fd, bytes, 10));
    struct timeval back;
    socklen_t length = sizeof back;
    DO(getsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &back, &length));
}

static void two_timeouts(void)
{
    await_next();
    DO(write(fd, "four", 4));
    await_next();
    DO(write(fd, "later", 5));
}

static void ticking(int restart)
{
    struct sigaction how = { .sa_handler = count_signal, .sa_flags = restart ? SA_RESTART : 0 };
    struct itimerval often = { { 0, 20000 }, { 0, 20000 } };
    sigaction(SIGALRM, &how, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
}

static void still(void)
{
    struct itimerval never = { { 0, 0 }, { 0, 0 } };
    setitimer(ITIMER_REAL, &never, NULL);
}

static void one_signals(void)
{
    struct epoll_event event;
    int set = epoll_create1(0);
    event.events = EPOLLIN;
    epoll_ctl(set, EPOLL_CTL_ADD, fd, &event);
    struct pollfd one = { fd, POLLIN, 0 };
    ticking(0);
    DO(read(fd, bytes, 10));
    DO(recv(fd, bytes, 10, MSG_PEEK));
    DO(epoll_wait(set, &event, 1, -1));
    DO(poll(&one, 1, -1));
    ticking(1);
    DO(epoll_wait(set, &event, 1, -1));
    int before = raised;
    while (raised < before + 2)
        usleep(1000);
    allow_next();
    GET(recv(fd, bytes, 5, MSG_WAITALL));
    still();
    allow_next();
    GET(recv(fd, bytes, 5, MSG_WAITALL));
    sigset_t none;
    sigemptyset(&none);
    sigaddset(&none, SIGALRM);
    sigprocmask(SIG_BLOCK, &none, NULL);
    ticking(0);
    before = raised;
    sigemptyset(&none);
    DO(ppoll(&one, 1, NULL, &none));
    DO(epoll_pwait(set, &event, 1, -1, &none));
    fd_set reads;
    FD_ZERO(&reads);
    FD_SET(fd, &reads);
    DO(pselect(fd + 1, &reads, NULL, NULL, NULL, &none));
    say(raised > before ? "signals came in the waits alone" : "no signal came");
    still();
    allow_next();
}

static void two_signals(void)
{
    await_next();
    usleep(60000);
    DO(write(fd, "12345", 5));
    await_next();
    DO(write(fd, "67890", 5));
    await_next();
}

static void one_sizes(void)
{
    int there = -1;
    DO(ioctl(fd, FIONREAD, &there));
    say("there: %d", there);
    allow_next();
    until_bytes(fd, 777);
    DO(ioctl(fd, FIONREAD, &there));
    say("there: %d", there);
    GET(read(fd, bytes, 700));
    DO(ioctl(fd, FIONREAD, &there));
    say("there: %d", there);
    GET(read(fd, bytes, 700));
    DO(ioctl(fd, FIONREAD, &there));
    say("there: %d", there);
    allow_next();
}

static void two_sizes(void)
{
    await_next();
    fill(bytes, 777, 8);
    DO(write(fd, bytes, 777));
    await_next();
}

static void one_urgent(void)
{
    DO(write(fd, "before", 6));
    await_next();
    DO(send(fd, "!", 1, MSG_OOB));
    DO(write(fd, "after", 5));
    await_next();
}

static void two_urgent(void)
{
    until_bytes(fd, 6);
    GET(read(fd, bytes, 100));
    allow_next();
    say("events: %#x", until_ready(fd, POLLPRI));
    GET(recv(fd, bytes, 1, MSG_OOB));
    until_ready(fd, POLLIN);
    GET(recv(fd, bytes, 5, MSG_WAITALL));
    allow_next();
}

static void one_shut_read(void)
{
    DO(write(fd, "kept", 4));
    await_next();
    DO(write(fd, "more", 4));
    allow_next();
    await_next();
}

static void two_shut_read(void)
{
    until_bytes(fd, 4);
    DO(shutdown(fd, SHUT_RD));
    GET(read(fd, bytes, 2));
    GET(read(fd, bytes, 100));
    DO(read(fd, bytes, 100));
    DO(write(fd, "still", 5));
    allow_next();
    await_next();
    allow_next();
}

#include "cases.h"
