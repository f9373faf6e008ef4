/* Cases: addresses that are not the program's, sets of select of their least size, and errno. */
#include "sets.h"
#include <limits.h>
#include <sys/mman.h>
#include <sys/syscall.h>

/* Two pages, of which the program can use the first alone. */
static char *page, *bad;

static void map_pages(void)
{
    page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    bad = page + 4096;
    if (page == MAP_FAILED || mprotect(bad, 4096, PROT_NONE) != 0)
        quit("cannot map");
}

/* Calls on one socket with addresses that the kernel refuses. */
static void refused_on(int stream)
{
    struct iovec run = { bytes, 1 };
    struct msghdr control = { .msg_iov = &run, .msg_iovlen = 1, .msg_control = bad,
        .msg_controllen = 64 };
    struct msghdr runs = { .msg_iov = (void *)bad, .msg_iovlen = 1 };
    struct mmsghdr many = { .msg_hdr = { .msg_iov = &run, .msg_iovlen = 1 } };
    DO(sendmsg(stream, (void *)bad, 0));
    DO(sendmsg(stream, &runs, 0));
    DO(sendmsg(stream, &control, 0));
    DO(recvmsg(stream, (void *)bad, MSG_DONTWAIT));
    DO(recvmsg(stream, &runs, MSG_DONTWAIT));
    DO(sendmmsg(stream, (void *)bad, 1, 0));
    DO(recvmmsg(stream, (void *)bad, 1, MSG_DONTWAIT, NULL));
    DO(recvmmsg(stream, &many, 1, MSG_DONTWAIT, (void *)bad));
    DO(writev(stream, (void *)bad, 1));
    DO(readv(stream, (void *)bad, 1));
    DO(setsockopt(stream, SOL_SOCKET, SO_BROADCAST, bad, 4));
}

static void refused_waits(void)
{
    struct timeval none = { 0, 0 };
    int set = epoll_create1(0);
    DO(poll((void *)bad, 1, 0));
    /* The second half of the list is not there. */
    memset(bad - sizeof(struct pollfd), -1, sizeof(struct pollfd));
    DO(poll((void *)(bad - sizeof(struct pollfd)), 2, 0));
    DO(select(8, (void *)bad, NULL, NULL, &none));
    DO(select(8, NULL, (void *)bad, NULL, &none));
    DO(epoll_ctl(set, EPOLL_CTL_ADD, fd, (void *)bad));
    struct epoll_event event = { .events = EPOLLIN };
    DO(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
    DO(epoll_pwait2(set, &event, 1, (void *)bad, NULL));
    close(set);
}

void one_refused_pointers(void)
{
    warm(fd, 1);
    await_next();
    DO(write(fd, "alive", 5));
    await_next();
}

void two_refused_pointers(void)
{
    int pair[2], file;
    map_pages();
    warm(fd, 0);
    socketpair(AF_UNIX, SOCK_DGRAM, 0, pair);
    refused_on(pair[0]);
    file = open("/proc/self/exe", O_RDONLY);
    DO(sendfile(pair[0], file, (void *)bad, 1));
    DO(sendfile(fd, file, (void *)bad, 1));
    refused_waits();
    refused_on(fd);
    allow_next();
    GET(recv(fd, bytes, 5, MSG_WAITALL));
    allow_next();
}

void refused_limits(int set)
{
    struct timespec over = { 0, 1000000000 }, before = { -1, 0 };
    struct timeval negative = { 0, -1 };
    struct pollfd one = { fd, POLLIN, 0 };
    struct epoll_event event;
    volatile int many = INT_MAX;
    sigset_t none;
    struct { const void *at; size_t bytes; } mask = { &none, 7 };
    fd_set reads;
    sigemptyset(&none);
    FD_ZERO(&reads);
    FD_SET(fd, &reads);
    DO(ppoll(&one, 1, &over, NULL));
    DO(ppoll(&one, 1, &before, &none));
    DO(pselect(fd + 1, &reads, NULL, NULL, &over, NULL));
    DO(pselect(fd + 1, &reads, NULL, NULL, &before, &none));
    DO(select(fd + 1, &reads, NULL, NULL, &negative));
    DO(epoll_pwait2(set, &event, 1, &over, NULL));
    DO(epoll_pwait2(set, &event, 1, &before, &none));
    DO(epoll_wait(set, &event, 0, 0));
    DO(epoll_wait(set, &event, many, 0));
    DO(syscall(SYS_ppoll, &one, 1, &over, NULL, 8));
    DO(syscall(SYS_ppoll, &one, 1, NULL, &none, 7));
    DO(syscall(SYS_pselect6, fd + 1, &reads, NULL, NULL, &over, NULL));
    DO(syscall(SYS_pselect6, fd + 1, &reads, NULL, NULL, NULL, &mask));
    DO(syscall(SYS_epoll_pwait, set, &event, 1, 0, &none, 7));
    DO(syscall(SYS_epoll_pwait2, set, &event, 1, NULL, &none, 7));
    say("events %#x, reads %d", one.revents, FD_ISSET(fd, &reads) != 0);
}

/* Bytes that have no wakeup byte lie in the ring. */
void two_refused_limits(void)
{
    struct timeval over = { 0, 1000001 };
    struct pollfd one = { fd, POLLIN, 0 };
    struct epoll_event event;
    fd_set reads;
    int set = idle_set(EPOLLIN);
    map_pages();
    far_later(0, 0, "0123456789");
    until_bytes(fd, 10);
    refused_limits(set);
    FD_ZERO(&reads);
    FD_SET(fd, &reads);
    DO(ppoll(&one, 1, NULL, (void *)bad));
    DO(pselect(fd + 1, &reads, NULL, NULL, NULL, (void *)bad));
    DO(epoll_pwait(set, &event, 1, 0, (void *)bad));
    DO(epoll_pwait2(set, &event, 1, NULL, (void *)bad));
    WAIT(set, 0);
    GET(read(fd, bytes, 100));
    refused_limits(set);
    /* Microseconds above a second are a time. */
    DO(select(fd + 1, &reads, NULL, NULL, &over));
    say("left %ld.%06ld, reads %d", (long)over.tv_sec, (long)over.tv_usec, FD_ISSET(fd, &reads));
    far_write_here(0, "more");
    FD_SET(fd, &reads);
    over = (struct timeval) { 0, 1000001 };
    DO(select(fd + 1, &reads, NULL, NULL, &over));
    GET(read(fd, bytes, 100));
}

/* Some bytes go through the ring, and those behind them through the kernel. */
void one_edge_pointers(void)
{
    int pipes[2];
    warm(fd, 1);
    fill(bytes, 164, 1);
    if (pipe(pipes) != 0)
        quit("pipe");
    await_next();
    DO(write(fd, bytes, 64));
    DO(write(pipes[1], bytes + 64, 100));
    DO(splice(pipes[0], NULL, fd, NULL, 100, 0));
    allow_next();
    await_next();
}

/* The room of a receive ends between them. A kernel with one piece receives none of it. */
void two_edge_pointers(void)
{
    static const int flags[] = { 0, MSG_PEEK, MSG_WAITALL };
    long come = 0;
    map_pages();
    warm(fd, 0);
    allow_next();
    until_bytes(fd, 164);
    await_next();
    for (int i = 0; i < 3 && come == 0; i++) {
        long now = recv(fd, bad - 64, 164, flags[(i + 1) % 3]);
        if (now != 64 && (now != -1 || errno != EFAULT))
            say("a receive at the edge: %ld, errno %d", now, errno);
        if (now > 0 && flags[(i + 1) % 3] != MSG_PEEK)
            come = now;
    }
    memcpy(bytes, bad - 64, come);
    say("all: %d", come + recv(fd, bytes + come, 164 - come, MSG_WAITALL) == 164);
    say("sum %lu", sum(bytes, 164));
    allow_next();
}

/* A set of select as the last word of the page. */
static unsigned long *last_word(int at, int stream)
{
    unsigned long *word = (unsigned long *)bad - 1 - at;
    *word = stream < 0 ? 0 : 1UL << stream;
    return word;
}

void one_select_words(void)
{
    warm(fd, 1);
    await_next();
    DO(write(fd, "bytes", 5));
    await_next();
    DO(write(fd, "bytes", 5));
    await_next();
}

void two_select_words(void)
{
    struct timeval none = { 0, 0 }, long_time = { 30, 0 };
    struct timespec none_ns = { 0, 0 }, long_ns = { 30, 0 };
    unsigned long *word;
    map_pages();
    warm(fd, 0);
    word = last_word(0, fd);
    DO(select(fd + 1, (void *)word, NULL, NULL, &none));
    say("reads %d", *word != 0);
    word = last_word(0, fd);
    DO(pselect(fd + 1, (void *)word, NULL, NULL, &none_ns, NULL));
    say("reads %d", *word != 0);
    allow_next();
    word = last_word(0, fd);
    DO(select(fd + 1, (void *)word, NULL, NULL, &long_time));
    say("reads %d, time left: %d", *word == 1UL << fd, long_time.tv_sec < 30);
    /* A set of the same size behind the one that is read keeps its value. */
    word = last_word(1, fd);
    word[1] = 77;
    DO(select(fd + 1, (void *)word, NULL, NULL, &none));
    say("reads %d, behind %lu", *word == 1UL << fd, word[1]);
    GET(read(fd, bytes, 5));
    allow_next();
    word = last_word(0, fd);
    DO(pselect(fd + 1, (void *)word, NULL, NULL, &long_ns, NULL));
    say("reads %d, time as before: %d", *word == 1UL << fd, long_ns.tv_sec == 30);
    GET(read(fd, bytes, 5));
    allow_next();
}

void one_kept_errno(void)
{
    struct iovec runs[2] = { { bytes, 5 }, { (void *)8, 5 } };
    struct mmsghdr many[2] = { { .msg_hdr = { .msg_iov = runs, .msg_iovlen = 1 } },
        { .msg_hdr = { .msg_iov = &runs[1], .msg_iovlen = 1 } } };
    warm(fd, 1);
    fill(bytes, 5, 1);
    await_next();
    /* The second message has no header that the kernel can use. */
    many[1].msg_hdr.msg_iovlen = 5000;
    errno = 0;
    DO(sendmmsg(fd, many, 2, 0));
    say("errno %d", errno);
    await_next();
    errno = 0;
    DO(write(fd, "bytes", 5));
    say("errno %d", errno);
    await_next();
}

void two_kept_errno(void)
{
    struct iovec runs[2] = { { bytes, 100 }, { bytes + 100, 100 } };
    struct mmsghdr many[2] = { { .msg_hdr = { .msg_iov = runs, .msg_iovlen = 1 } },
        { .msg_hdr = { .msg_iov = &runs[1], .msg_iovlen = 1 } } };
    struct timespec long_time = { 30, 0 };
    warm(fd, 0);
    errno = 0;
    allow_next();
    /* It sleeps first, or spins. */
    DO(recvmmsg(fd, many, 2, MSG_WAITFORONE, &long_time));
    say("errno %d, bytes %u, time left: %d", errno, many[0].msg_len, long_time.tv_sec < 30);
    allow_next();
    GET(recv(fd, bytes, 5, MSG_WAITALL));
    say("errno %d", errno);
    allow_next();
}
