/* Cases: readiness of several sockets. */
#include "matrix.h"

static struct epoll_event list[8];

static void add(int set, int what, int stream, unsigned wanted, unsigned mark)
{
    struct epoll_event event = { .events = wanted, .data.u32 = mark };
    DO(epoll_ctl(set, what, stream, &event));
}

#define WAIT(set, time) events("epoll_wait(" #set ", " #time ")", epoll_wait(set, list, 8, time), \
    list)

void one_level(void)
{
    await_next();
    DO(write(fd, "0123456789", 10));
    await_next();
    DO(write(fd, "abc", 3));
    DO(shutdown(fd, SHUT_WR));
    await_next();
    DO(close(fd));
}

void two_level(void)
{
    int set = epoll_create1(0);
    add(set, EPOLL_CTL_ADD, fd, EPOLLIN | EPOLLRDHUP, 1);
    add(set, EPOLL_CTL_ADD, fd, EPOLLIN, 1);
    WAIT(set, 0);
    allow_next();
    WAIT(set, 30000);
    GET(read(fd, bytes, 4));
    WAIT(set, 0);
    GET(read(fd, bytes, 6));
    WAIT(set, 0);
    allow_next();
    until_ready(fd, POLLRDHUP);
    WAIT(set, 30000);
    GET(read(fd, bytes, 100));
    WAIT(set, 0);
    DO(read(fd, bytes, 100));
    add(set, EPOLL_CTL_MOD, fd, EPOLLOUT, 2);
    WAIT(set, 0);
    add(set, EPOLL_CTL_DEL, fd, 0, 0);
    WAIT(set, 0);
    allow_next();
}

void one_edge(void)
{
    for (int i = 0; i < 5; i++) {
        await_next();
        DO(write(fd, "0123456789", 10));
    }
    await_next();
    DO(close(fd));
}

void two_edge(void)
{
    int set = epoll_create1(0);
    DO(fcntl(fd, F_SETFL, O_NONBLOCK));
    add(set, EPOLL_CTL_ADD, fd, EPOLLIN | EPOLLET | EPOLLRDHUP, 1);
    WAIT(set, 0);
    allow_next();
    WAIT(set, 30000);
    WAIT(set, 0);
    GET(read(fd, bytes, 4));
    WAIT(set, 0);
    /* Each arrival is an edge, also where bytes were left. */
    allow_next();
    WAIT(set, 30000);
    until_bytes(fd, 16);
    GET(read(fd, bytes, 100));
    DO(read(fd, bytes, 100));
    WAIT(set, 0);
    allow_next();
    WAIT(set, 30000);
    GET(read(fd, bytes, 10));
    DO(read(fd, bytes, 10));
    allow_next();
    WAIT(set, 30000);
    allow_next();
    WAIT(set, 30000);
    until_bytes(fd, 20);
    GET(read(fd, bytes, 100));
    WAIT(set, 0);
    allow_next();
    WAIT(set, 30000);
    DO(read(fd, bytes, 100));
}

void one_edge_late(void)
{
    await_next();
    DO(write(fd, "there before", 12));
    allow_next();
    await_next();
    DO(write(fd, "and after", 9));
    await_next();
}

void two_edge_late(void)
{
    int set = epoll_create1(0);
    allow_next();
    await_next();
    until_bytes(fd, 12);
    add(set, EPOLL_CTL_ADD, fd, EPOLLIN | EPOLLET, 1);
    WAIT(set, 30000);
    WAIT(set, 0);
    add(set, EPOLL_CTL_MOD, fd, EPOLLIN | EPOLLET, 2);
    WAIT(set, 30000);
    GET(read(fd, bytes, 5));
    allow_next();
    WAIT(set, 30000);
    until_bytes(fd, 16);
    GET(read(fd, bytes, 100));
    WAIT(set, 0);
    allow_next();
}

void one_oneshot(void)
{
    await_next();
    DO(write(fd, "first", 5));
    await_next();
    DO(write(fd, "second", 6));
    allow_next();
    await_next();
}

void two_oneshot(void)
{
    int set = epoll_create1(0);
    add(set, EPOLL_CTL_ADD, fd, EPOLLIN | EPOLLONESHOT, 1);
    allow_next();
    WAIT(set, 30000);
    WAIT(set, 0);
    allow_next();
    await_next();
    until_bytes(fd, 11);
    WAIT(set, 0);
    add(set, EPOLL_CTL_MOD, fd, EPOLLIN | EPOLLONESHOT, 2);
    WAIT(set, 30000);
    GET(read(fd, bytes, 100));
    add(set, EPOLL_CTL_MOD, fd, EPOLLIN | EPOLLONESHOT, 3);
    WAIT(set, 0);
    allow_next();
}

void two_nested(void)
{
    int inner = epoll_create1(0), outer = epoll_create1(0);
    add(inner, EPOLL_CTL_ADD, fd, EPOLLIN | EPOLLEXCLUSIVE, 1);
    add(outer, EPOLL_CTL_ADD, inner, EPOLLIN, 2);
    WAIT(outer, 0);
    allow_next();
    WAIT(outer, 30000);
    WAIT(inner, 0);
    struct pollfd one = { inner, POLLIN, 0 };
    DO(poll(&one, 1, 0));
    GET(read(fd, bytes, 100));
    WAIT(inner, 0);
    WAIT(outer, 0);
    allow_next();
    await_next();
    until_bytes(fd, 6);
    WAIT(outer, 30000);
    GET(read(fd, bytes, 100));
    allow_next();
}

static void masks(const char *what, int count, struct pollfd *one)
{
    say("%s: %d, %#x", what, count, one->revents);
}

void one_poll(void)
{
    for (int i = 0; i < 4; i++) {
        await_next();
        DO(write(fd, "bytes", 5));
    }
    await_next();
    DO(close(fd));
    allow_next();
}

void two_poll(void)
{
    struct pollfd one = { fd, POLLIN | POLLOUT, 0 };
    struct timespec long_time = { 30, 0 }, none = { 0, 0 };
    struct timeval seconds = { 30, 0 };
    fd_set reads, writes;
    masks("poll", poll(&one, 1, -1), &one);
    one.events = POLLIN | POLLRDHUP;
    masks("poll", poll(&one, 1, 0), &one);
    masks("poll", poll(&one, 1, 1), &one);
    allow_next();
    masks("poll", poll(&one, 1, 30000), &one);
    GET(read(fd, bytes, 2));
    masks("poll", poll(&one, 1, -1), &one);
    GET(read(fd, bytes, 3));
    masks("ppoll", ppoll(&one, 1, &none, NULL), &one);
    allow_next();
    masks("ppoll", ppoll(&one, 1, &long_time, NULL), &one);
    GET(read(fd, bytes, 5));
    FD_ZERO(&reads);
    FD_ZERO(&writes);
    FD_SET(fd, &reads);
    FD_SET(fd, &writes);
    DO(select(fd + 1, &reads, &writes, NULL, NULL));
    say("reads %d, writes %d", !!FD_ISSET(fd, &reads), !!FD_ISSET(fd, &writes));
    allow_next();
    FD_SET(fd, &reads);
    DO(select(fd + 1, &reads, NULL, NULL, &seconds));
    say("reads %d, time left: %d", !!FD_ISSET(fd, &reads), seconds.tv_sec >= 1);
    GET(read(fd, bytes, 5));
    seconds.tv_sec = 0;
    seconds.tv_usec = 2000;
    FD_SET(fd, &reads);
    DO(select(fd + 1, &reads, NULL, NULL, &seconds));
    say("reads %d, time left: %d", !!FD_ISSET(fd, &reads), seconds.tv_sec || seconds.tv_usec);
    allow_next();
    FD_SET(fd, &reads);
    DO(pselect(fd + 1, &reads, NULL, NULL, &long_time, NULL));
    GET(read(fd, bytes, 5));
    allow_next();
    await_next();
    until_ready(fd, POLLRDHUP);
    masks("poll", poll(&one, 1, 30000), &one);
    DO(read(fd, bytes, 5));
}

/* Requests and answers by epoll on both sides, as in a server. */
static void serve(int asks)
{
    int set = epoll_create1(0);
    long all = 0, rounds = 0;
    add(set, EPOLL_CTL_ADD, fd, EPOLLIN, 1);
    fcntl(fd, F_SETFL, O_NONBLOCK);
    if (asks && write(fd, "0", 1) != 1)
        quit("serve");
    while (rounds < 2000) {
        if (epoll_wait(set, list, 8, 30000) != 1)
            quit("a round never came");
        long now = read(fd, bytes, 3000);
        if (now < 0 && errno == EAGAIN) {
            say("woken for nothing");
            continue;
        }
        if (now <= 0)
            quit("serve");
        all += now;
        rounds++;
        if ((!asks || rounds < 2000) && write(fd, bytes, 1) != 1)
            quit("serve");
    }
    say("%ld rounds, %ld bytes", rounds, all);
    if (!asks)
        allow_next();
    else
        await_next();
}

void one_serve(void)
{
    serve(1);
}

void two_serve(void)
{
    serve(0);
}

/* The set watches the socket for edges before there is a connection. */
void one_edge_early(void)
{
    struct sockaddr_storage at;
    socklen_t length;
    char byte;
    int next[2], listening = listener(&at, &length, 1), set = epoll_create1(0);
    if (pipe(next) != 0)
        quit("pipe");
    pid_t child = fork();
    if (child == 0) {
        fd = accept(listening, NULL, NULL);
        warm(fd, 0);
        for (int turn = 0; turn < 4; turn++)
            if (write(fd, "two parts.", 10) != 10 || read(next[0], &byte, 1) != 1)
                _exit(9);
        _exit(0);
    }
    fd = socket(at.ss_family, SOCK_STREAM, 0);
    add(set, EPOLL_CTL_ADD, fd, EPOLLIN | EPOLLET, 1);
    DO(connect(fd, (void *)&at, length));
    warm(fd, 1);
    /* A stream with two descriptors needs wakeup bytes. */
    DO(dup(fd) < 0);
    for (int turn = 0; turn < 4; turn++) {
        until_bytes(fd, 10 + 5 * turn);
        WAIT(set, 30000);
        GET(recv(fd, bytes, 5, 0));
        DO(write(next[1], "x", 1));
    }
    waitpid(child, NULL, 0);
}
