/* Cases: addresses that are not the program's, sets of select of their least size, and errno. */
#include "matrix.h"
#include <sys/mman.h>

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
