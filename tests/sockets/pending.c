/* Cases: bytes that arrive while the thread of a set is awake and not waiting. */
#include "sets.h"
#include <sys/syscall.h>
#include <time.h>

void two_pending_level(void)
{
    int set = idle_set(EPOLLIN);
    static char much[401];
    memset(much, 'm', 400);
    for (int i = 0; i < 3; i++) {
        far_write_here(0, "0123456789");
        WAIT(set, 0);
        WAIT(set, 0);
        GET(read(fd, bytes, 4));
        WAIT(set, 30000);
        far_write_here(0, "more");
        WAIT(set, 0);
        GET(recv(fd, bytes, 6, MSG_PEEK));
        WAIT(set, 0);
        GET(read(fd, bytes, 100));
        DO(recv(fd, bytes, 100, MSG_DONTWAIT));
        WAIT(set, 0);
        /* More bytes than the smallest ring takes. */
        far_write_here(0, much);
        WAIT(set, 0);
        GET(recv(fd, bytes, 399, MSG_WAITALL));
        WAIT(set, 0);
        GET(read(fd, bytes, 10));
        WAIT(set, 0);
        far_write(0, "unseen");
        WAIT(set, 30000);
        far_later(gettid(), 0, "asleep");
        GET(recv(fd, bytes, 12, MSG_WAITALL));
        WAIT(set, 0);
        far_later(gettid(), 0, "asleep");
        WAIT(set, 30000);
        GET(recv(fd, bytes, 6, MSG_WAITALL));
        WAIT(set, 1);
    }
}

void two_pending_edge(void)
{
    int set = idle_set(EPOLLIN | EPOLLET);
    for (int i = 0; i < 3; i++) {
        far_write_here(0, "first");
        WAIT(set, 0);
        WAIT(set, 0);
        far_write_here(0, "second");
        WAIT(set, 0);
        WAIT(set, 0);
        GET(read(fd, bytes, 7));
        WAIT(set, 0);
        /* Two arrivals give one event. */
        far_write_here(0, "third");
        far_write_here(0, "fourth");
        WAIT(set, 0);
        WAIT(set, 0);
        GET(read(fd, bytes, 7));
        WAIT(set, 1);
        watch(set, EPOLL_CTL_MOD, fd, EPOLLIN | EPOLLET, 2);
        WAIT(set, 0);
        WAIT(set, 0);
        GET(read(fd, bytes, 100));
        DO(recv(fd, bytes, 100, MSG_DONTWAIT));
        watch(set, EPOLL_CTL_MOD, fd, EPOLLIN | EPOLLET, 1);
        WAIT(set, 0);
        /* Bytes that were received before the wait give no event. */
        far_write_here(0, "taken");
        GET(read(fd, bytes, 100));
        WAIT(set, 0);
        far_later(gettid(), 0, "asleep");
        WAIT(set, 30000);
        WAIT(set, 0);
        until_bytes(fd, 6);
        GET(read(fd, bytes, 100));
    }
}

void two_pending_modified(void)
{
    int set = idle_set(EPOLLIN);
    for (int i = 0; i < 3; i++) {
        watch(set, EPOLL_CTL_MOD, fd, 0, 1);
        far_write_here(0, "not watched");
        WAIT(set, 0);
        watch(set, EPOLL_CTL_MOD, fd, EPOLLOUT, 2);
        WAIT(set, 0);
        watch(set, EPOLL_CTL_MOD, fd, EPOLLIN | EPOLLOUT, 3);
        WAIT(set, 0);
        watch(set, EPOLL_CTL_MOD, fd, EPOLLIN, 4);
        WAIT(set, 0);
        far_write_here(0, "watched");
        watch(set, EPOLL_CTL_MOD, fd, 0, 5);
        WAIT(set, 0);
        watch(set, EPOLL_CTL_MOD, fd, EPOLLIN | EPOLLET, 6);
        WAIT(set, 0);
        WAIT(set, 0);
        watch(set, EPOLL_CTL_MOD, fd, EPOLLIN | EPOLLONESHOT, 7);
        WAIT(set, 0);
        WAIT(set, 0);
        far_write_here(0, "disarmed");
        WAIT(set, 0);
        watch(set, EPOLL_CTL_MOD, fd, EPOLLIN, 8);
        WAIT(set, 0);
        GET(recv(fd, bytes, 26, MSG_WAITALL));
        WAIT(set, 0);
    }
}

void two_pending_moved(void)
{
    int set = idle_set(EPOLLIN), second = epoll_create1(0), third;
    for (int i = 0; i < 3; i++) {
        far_write_here(0, "bytes");
        watch(set, EPOLL_CTL_DEL, fd, 0, 0);
        WAIT(set, 0);
        watch(set, EPOLL_CTL_ADD, fd, EPOLLIN, 2);
        WAIT(set, 0);
        watch(set, EPOLL_CTL_DEL, fd, 0, 0);
        watch(second, EPOLL_CTL_ADD, fd, EPOLLIN | (i == 1 ? EPOLLET : 0), 3);
        WAIT(set, 0);
        WAIT(second, 0);
        far_write_here(0, "in both");
        watch(set, EPOLL_CTL_ADD, fd, EPOLLIN, 4);
        WAIT(set, 0);
        WAIT(second, 0);
        far_write_here(0, "once more");
        WAIT(second, 0);
        WAIT(set, 0);
        watch(second, EPOLL_CTL_DEL, fd, 0, 0);
        WAIT(second, 0);
        WAIT(set, 0);
        GET(read(fd, bytes, 100));
        WAIT(set, 0);
        /* A set is closed, and a new set gets its number. */
        far_write_here(0, "before");
        third = set;
        DO(close(set));
        set = epoll_create1(0);
        DO(set == third);
        WAIT(set, 0);
        watch(set, EPOLL_CTL_ADD, fd, EPOLLIN, 1);
        WAIT(set, 0);
        /* Another descriptor of the same set. */
        far_write_here(0, "again");
        third = dup(set);
        DO(close(set));
        WAIT(third, 0);
        DO(dup2(third, set) == set);
        DO(close(third));
        WAIT(set, 0);
        GET(read(fd, bytes, 100));
        WAIT(set, 0);
    }
}

void two_pending_asked(void)
{
    int set = idle_set(EPOLLIN), there = 0;
    struct pollfd one = { fd, POLLIN | POLLOUT, 0 };
    struct timeval seconds = { 30, 0 };
    fd_set reads;
    FD_ZERO(&reads);
    for (int i = 0; i < 3; i++) {
        far_write_here(0, "polled");
        say("poll: %d, %#x", poll(&one, 1, 0), one.revents);
        say("poll: %d, %#x", poll(&one, 1, 30000), one.revents);
        FD_SET(fd, &reads);
        DO(select(fd + 1, &reads, NULL, NULL, &seconds));
        WAIT(set, 0);
        GET(read(fd, bytes, 3));
        one.events = POLLIN;
        say("poll: %d, %#x", poll(&one, 1, -1), one.revents);
        WAIT(set, 0);
        far_write(0, "unasked");
        say("poll: %d, %#x", poll(&one, 1, 30000), one.revents);
        until_bytes(fd, 10);
        DO(ioctl(fd, FIONREAD, &there));
        say("there: %d", there);
        GET(recv(fd, bytes, 100, MSG_PEEK));
        GET(recv(fd, bytes, 10, MSG_WAITALL));
        say("poll: %d", poll(&one, 1, 0));
        WAIT(set, 0);
        /* The wait polls first, and then sleeps. */
        far_write(0, "first");
        say("poll: %d, %#x", poll(&one, 1, 30000), one.revents);
        GET(recv(fd, bytes, 5, MSG_WAITALL));
        far_later(gettid(), 0, "asleep");
        say("poll: %d, %#x", poll(&one, 1, 30000), one.revents);
        WAIT(set, 30000);
        GET(recv(fd, bytes, 6, MSG_WAITALL));
        far_later(gettid(), 0, "asleep");
        GET(recv(fd, bytes, 6, MSG_WAITALL));
        WAIT(set, 0);
        /* The call by its number. */
        far_write_here(0, "by number");
#ifdef SYS_epoll_wait
        found("SYS_epoll_wait", (int)syscall(SYS_epoll_wait, set, list, 8, 30000), list);
#endif
        found("SYS_epoll_pwait", (int)syscall(SYS_epoll_pwait, set, list, 8, 0, NULL, 8), list);
        struct timespec none = { 0, 0 };
        found("epoll_pwait2", epoll_pwait2(set, list, 8, &none, NULL), list);
#ifdef SYS_poll
        say("SYS_poll: %ld, %#x", syscall(SYS_poll, &one, 1, 0), one.revents);
#endif
        GET(read(fd, bytes, 100));
        found("SYS_epoll_pwait", (int)syscall(SYS_epoll_pwait, set, list, 8, 0, NULL, 8), list);
    }
}

void two_pending_nested(void)
{
    int inner = idle_set(EPOLLIN), outer = epoll_create1(0);
    for (int i = 0; i < 3; i++) {
        struct pollfd one = { inner, POLLIN, 0 };
        fd_set reads;
        FD_ZERO(&reads);
        FD_SET(inner, &reads);
        struct timeval seconds = { 30, 0 };
        far_write_here(0, "held");
        watch(outer, EPOLL_CTL_ADD, inner, EPOLLIN, 9);
        WAIT(outer, 0);
        say("poll: %d, %#x", poll(&one, 1, 0), one.revents);
        DO(select(inner + 1, &reads, NULL, NULL, &seconds));
        WAIT(inner, 0);
        GET(read(fd, bytes, 100));
        WAIT(inner, 0);
        WAIT(outer, 0);
        far_write_here(0, "inner is not waited for");
        WAIT(outer, 0);
        WAIT(inner, 0);
        GET(read(fd, bytes, 100));
        far_later(gettid(), 0, "asleep in the outer");
        WAIT(outer, 30000);
        GET(recv(fd, bytes, 19, MSG_WAITALL));
        WAIT(outer, 0);
        watch(outer, EPOLL_CTL_DEL, inner, 0, 0);
        far_write_here(0, "alone");
        say("poll: %d, %#x", poll(&one, 1, 0), one.revents);
        say("poll: %d, %#x", poll(&one, 1, 30000), one.revents);
        WAIT(inner, 0);
        GET(read(fd, bytes, 100));
        WAIT(inner, 0);
        far_later(gettid(), 0, "asleep in poll of the set");
        say("poll: %d, %#x", poll(&one, 1, 30000), one.revents);
        WAIT(inner, 30000);
        GET(recv(fd, bytes, 25, MSG_WAITALL));
        far_write(0, "to the set again");
        WAIT(inner, 30000);
        GET(recv(fd, bytes, 16, MSG_WAITALL));
        WAIT(inner, 0);
    }
}

void two_pending_refused(void)
{
    int set = idle_set(EPOLLIN);
    struct epoll_event event = { .events = EPOLLIN, .data.u64 = 0xfedcba9876543210 };
    far_write_here(0, "bytes");
    DO(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
    DO(epoll_ctl(set, EPOLL_CTL_MOD, fd, &event));
    DO(epoll_wait(set, list, 8, 0));
    say("data: %lx", (long)list[0].data.u64);
    DO(epoll_ctl(set, EPOLL_CTL_MOD, 250, &event));
    DO(epoll_ctl(set, EPOLL_CTL_DEL, 250, &event));
    DO(epoll_ctl(set, EPOLL_CTL_ADD, set, &event));
    DO(epoll_ctl(fd, EPOLL_CTL_ADD, set, &event));
    DO(epoll_ctl(set, 77, fd, &event));
    DO(epoll_ctl(set, EPOLL_CTL_ADD, fd, NULL));
    DO(epoll_ctl(set, EPOLL_CTL_MOD, fd, NULL));
    event.events = EPOLLIN | EPOLLEXCLUSIVE;
    DO(epoll_ctl(set, EPOLL_CTL_MOD, fd, &event));
    DO(epoll_wait(set, list, 0, 0));
    volatile int room = -1;
    DO(epoll_wait(set, list, room, 0));
    DO(epoll_wait(fd, list, 8, 0));
    DO(epoll_wait(250, list, 8, 0));
    WAIT(set, -7);
    DO(epoll_ctl(set, EPOLL_CTL_DEL, fd, NULL));
    DO(epoll_ctl(set, EPOLL_CTL_DEL, fd, NULL));
    WAIT(set, 0);
    DO(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
    WAIT(set, 0);
    DO(epoll_ctl(set, EPOLL_CTL_MOD, fd, &event));
    GET(read(fd, bytes, 100));
    WAIT(set, 0);
}

void two_pending_busy(void)
{
    int set = idle_set(EPOLLIN);
    for (int i = 0; i < 20; i++) {
        int count = 0;
        time_t last = time(NULL) + 30;
        if (i & 1)
            far_write(0, "come");
        else
            far_later(0, 0, "come");
        /* A wait with a timeout of 0 reports the bytes, too. */
        while (count == 0 && time(NULL) < last)
            count = epoll_wait(set, list, 1, 0);
        found("found at last", count, list);
        GET(recv(fd, bytes, 4, MSG_WAITALL));
        WAIT(set, 0);
    }
}
