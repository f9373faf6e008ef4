/* Cases: event masks, and the order of ready descriptors. */
#include "sets.h"
#include <sys/eventfd.h>
#include <sys/timerfd.h>

void two_event_mask_ends(void)
{
    int set = idle_set(EPOLLIN | EPOLLRDHUP);
    /* Bytes and an end arrive at once. */
    far_write(0, "last words");
    far_shutdown(0);
    until_mask(set, EPOLLIN | EPOLLRDHUP);
    GET(read(fd, bytes, 4));
    WAIT(set, 0);
    GET(read(fd, bytes, 100));
    WAIT(set, 0);
    DO(read(fd, bytes, 100));
    WAIT(set, 0);
    watch(set, EPOLL_CTL_MOD, fd, EPOLLIN | EPOLLOUT, 2);
    WAIT(set, 0);
    DO(write(fd, "answer", 6));
    DO(shutdown(fd, SHUT_WR));
    far_read(0, 6);
    far_read(0, 6);
    until_mask(set, EPOLLIN | EPOLLHUP);
    far_close(0);
    DO(read(fd, bytes, 100));
}

void two_event_mask_close(void)
{
    mesh(4);
    int set = epoll_create1(0);
    for (int i = 1; i <= 4; i++) {
        watch(set, EPOLL_CTL_ADD, ends[i], EPOLLIN | EPOLLRDHUP | (i & 1 ? EPOLLET : 0), i);
        far_write_here(i, "light");
        WAIT(set, 0);
        GET(read(ends[i], bytes, 100));
        WAIT(set, 0);
    }
    for (int i = 1; i <= 4; i++) {
        if (i > 2)
            far_write(i, "and good bye");
        far_close(i);
        until_mask(set, EPOLLIN | EPOLLRDHUP);
        GET(read(ends[i], bytes, 5));
        GET(read(ends[i], bytes, 100));
        DO(read(ends[i], bytes, 100));
        DO(close(ends[i]));
        WAIT(set, 0);
    }
}

void two_event_mask_both(void)
{
    int set = idle_set(EPOLLIN);
    watch(set, EPOLL_CTL_MOD, fd, EPOLLIN | EPOLLOUT, 2);
    WAIT(set, 30000);
    far_write_here(0, "level");
    WAIT(set, 0);
    WAIT(set, 0);
    GET(read(fd, bytes, 100));
    WAIT(set, 0);
    watch(set, EPOLL_CTL_MOD, fd, EPOLLIN | EPOLLOUT | EPOLLET, 3);
    WAIT(set, 0);
    WAIT(set, 0);
    far_write_here(0, "edge");
    WAIT(set, 0);
    WAIT(set, 0);
    far_write_here(0, "again");
    GET(read(fd, bytes, 100));
    far_write_here(0, "third");
    WAIT(set, 0);
    GET(read(fd, bytes, 100));
    WAIT(set, 0);
    /* This side ends its own directions. */
    watch(set, EPOLL_CTL_MOD, fd, EPOLLIN | EPOLLRDHUP, 4);
    far_write_here(0, "still there");
    DO(shutdown(fd, SHUT_RD));
    WAIT(set, 30000);
    GET(read(fd, bytes, 5));
    WAIT(set, 0);
    DO(shutdown(fd, SHUT_WR));
    until_mask(set, EPOLLIN | EPOLLRDHUP | EPOLLHUP);
    GET(read(fd, bytes, 100));
    DO(read(fd, bytes, 100));
}

void two_event_mask_data(void)
{
    struct epoll_event event = { .events = EPOLLIN };
    int set = epoll_create1(0), copy;
    mesh(3);
    static const unsigned long data[4] = { 0xffffffffffffffff, 0x8000000000000001, 5, 5 };
    for (int i = 0; i < 4; i++) {
        event.data.u64 = data[i];
        DO(epoll_ctl(set, EPOLL_CTL_ADD, ends[i], &event));
    }
    for (int turn = 0; turn < 3; turn++) {
        for (int i = 0; i < 4; i++)
            far_write_here(i, "bytes");
        int count = epoll_wait(set, list, 64, 30000);
        found("all four", count, list);
        for (int i = 0; i < count; i++)
            say("data %lx", (long)list[i].data.u64);
        for (int i = 0; i < 4; i++)
            GET(read(ends[i], bytes, 100));
        WAIT(set, 0);
    }
    event.data.ptr = &event;
    DO(epoll_ctl(set, EPOLL_CTL_MOD, ends[1], &event));
    far_write_here(1, "pointer");
    int count = epoll_wait(set, list, 64, 0);
    say("%d, the pointer: %d", count, list[0].data.ptr == &event);
    /* Two descriptors of one socket give two events. */
    copy = dup(ends[1]);
    event.data.u64 = 77;
    DO(epoll_ctl(set, EPOLL_CTL_ADD, copy, &event));
    count = epoll_wait(set, list, 64, 0);
    say("%d, both: %d", count, list[0].data.u64 != list[1].data.u64);
    say("%d with room for one", epoll_wait(set, list, 1, 0));
    DO(epoll_ctl(set, EPOLL_CTL_DEL, ends[1], &event));
    WAIT(set, 0);
    GET(read(copy, bytes, 100));
    WAIT(set, 0);
    far_write_here(1, "through the copy");
    WAIT(set, 0);
    DO(close(copy));
    WAIT(set, 0);
    event.data.u64 = 78;
    DO(epoll_ctl(set, EPOLL_CTL_ADD, ends[1], &event));
    WAIT(set, 0);
    GET(read(ends[1], bytes, 100));
}

void two_event_mask_dup(void)
{
    int set = idle_set(EPOLLIN), copy;
    far_write_here(0, "before");
    copy = dup(fd);
    DO(close(fd));
    /* The set watches the open socket, not its number. */
    WAIT(set, 0);
    watch(set, EPOLL_CTL_DEL, fd, 0, 0);
    ends[0] = copy;
    GET(read(copy, bytes, 3));
    WAIT(set, 0);
    GET(read(copy, bytes, 100));
    WAIT(set, 0);
    far_write_here(0, "through the copy");
    WAIT(set, 0);
    far_later(gettid(), 0, "asleep");
    GET(recv(copy, bytes, 22, MSG_WAITALL));
    far_later(gettid(), 0, "asleep");
    WAIT(set, 30000);
    /* The old number stands for another socket now. */
    int pipes[2];
    if (pipe(pipes) != 0 || dup2(pipes[0], fd) != fd)
        quit("pipe");
    watch(set, EPOLL_CTL_ADD, fd, EPOLLIN, 2);
    WAIT(set, 0);
    DO(write(pipes[1], "x", 1));
    WAIT(set, 0);
    DO(close(copy));
    WAIT(set, 0);
    DO(close(fd));
}

void two_event_mask_reused(void)
{
    mesh(3);
    int set = idle_set(EPOLLIN), pipes[2];
    if (pipe(pipes) != 0)
        quit("pipe");
    for (int i = 1; i <= 2; i++) {
        watch(set, EPOLL_CTL_ADD, ends[i], EPOLLIN, i + 1);
        far_write_here(i, "light");
        WAIT(set, 0);
        far_write_here(i, "left behind");
    }
    DO(dup2(pipes[0], ends[1]) == ends[1]);
    int number = ends[2];
    DO(close(ends[2]));
    DO(dup2(ends[3], number) == number);
    WAIT(set, 0);
    DO(write(pipes[1], "x", 1));
    far_write_here(3, "another stream");
    WAIT(set, 0);
    watch(set, EPOLL_CTL_ADD, ends[1], EPOLLIN, 8);
    watch(set, EPOLL_CTL_ADD, number, EPOLLIN, 9);
    WAIT(set, 0);
    GET(read(number, bytes, 100));
    GET(read(ends[1], bytes, 1));
    far_write(3, "and more");
    WAIT(set, 30000);
    GET(recv(ends[3], bytes, 8, MSG_WAITALL));
    far_write_here(0, "of the first");
    WAIT(set, 0);
}

/* Each ready descriptor is reported in its turn. */
void two_event_mask_turns(void)
{
    mesh(6);
    int set = epoll_create1(0), pipes[2], number = eventfd(1, 0),
        timer = timerfd_create(CLOCK_MONOTONIC, 0);
    struct itimerspec soon = { { 0, 0 }, { 0, 1 } };
    struct sockaddr_storage at;
    socklen_t length;
    int listening = listener(&at, &length, 8), seen[12], most = 0;
    if (pipe(pipes) != 0)
        quit("pipe");
    for (int i = 1; i <= 6; i++) {
        watch(set, EPOLL_CTL_ADD, ends[i], EPOLLIN, i);
        far_write_here(i, "light");
        WAIT(set, 0);
        GET(read(ends[i], bytes, 100));
    }
    watch(set, EPOLL_CTL_ADD, pipes[0], EPOLLIN, 7);
    watch(set, EPOLL_CTL_ADD, number, EPOLLIN, 8);
    watch(set, EPOLL_CTL_ADD, timer, EPOLLIN, 9);
    watch(set, EPOLL_CTL_ADD, listening, EPOLLIN, 10);
    int late = connected(&at, length);
    timerfd_settime(timer, 0, &soon, NULL);
    DO(write(pipes[1], "x", 1));
    for (int i = 1; i <= 6; i++)
        far_write_here(i, "ready");
    until_ready(timer, POLLIN);
    until_ready(listening, POLLIN);
    WAIT(set, 0);
    for (int room = 1; room <= 4; room++) {
        int wrong = 0, none = 0;
        memset(seen, 0, sizeof seen);
        for (int turn = 0; turn < 200; turn++) {
            int count = epoll_wait(set, list, room, turn & 1 ? 0 : -1);
            wrong += count < 1 || count > room;
            for (int i = 0; i < count; i++)
                for (int j = 0; j < i; j++)
                    wrong += list[i].data.u64 == list[j].data.u64;
            for (int i = 0; i < count; i++)
                seen[list[i].data.u64]++;
        }
        for (int i = 1; i <= 10; i++)
            none += seen[i] < 5;
        say("room for %d: wrong %d, without a fair turn %d", room, wrong, none);
    }
    /* A descriptor that is always ready does not hide another one: neither a kernel event a ring
     * event, nor the reverse. */
    for (int i = 1; i <= 6; i++)
        GET(read(ends[i], bytes, 100));
    DO(read(number, bytes, 8));
    DO(read(timer, bytes, 8));
    close(accept(listening, NULL, NULL));
    close(late);
    for (int turn = 0; turn < 20; turn++) {
        int hidden = turn & 1 ? 7 : 2, first = 0;
        if (turn & 1)
            GET(read(pipes[0], bytes, 1));
        far_write_here(2, "x");
        if (turn & 1)
            DO(write(pipes[1], "x", 1));
        while (first < 1000 && (epoll_wait(set, list, 1, 30000) != 1 ||
            (int)list[0].data.u64 != hidden))
            first++;
        most = first > most ? first : most;
        GET(read(ends[2], bytes, 100));
    }
    say(most < 1000 ? "nobody is hidden" : "one is hidden by another");
}

/* The set watches a socket before it is connected. */
void two_event_mask_early(void)
{
    struct sockaddr_storage at;
    socklen_t length;
    int set = epoll_create1(0), listening = listener(&at, &length, 8), one = socket(at.ss_family,
        SOCK_STREAM, 0);
    fcntl(one, F_SETFL, O_NONBLOCK);
    fcntl(listening, F_SETFL, O_NONBLOCK);
    watch(set, EPOLL_CTL_ADD, one, EPOLLIN | EPOLLOUT, 1);
    watch(set, EPOLL_CTL_ADD, listening, EPOLLIN, 2);
    say("connect: %d", connect(one, (void *)&at, length) == 0 || errno == EINPROGRESS);
    until_ready(listening, POLLIN);
    until_ready(one, POLLOUT);
    WAIT(set, 0);
    int other_end = accept(listening, NULL, NULL);
    watch(set, EPOLL_CTL_ADD, other_end, EPOLLIN | EPOLLET, 3);
    watch(set, EPOLL_CTL_MOD, one, EPOLLIN, 1);
    WAIT(set, 0);
    for (int i = 0; i < 20; i++) {
        DO(write(one, "request", 7));
        WAIT(set, 30000);
        until_bytes(other_end, 7);
        GET(read(other_end, bytes, 100));
        WAIT(set, 0);
        DO(write(other_end, "answer", 6));
        WAIT(set, 30000);
        GET(recv(one, bytes, 6, MSG_WAITALL));
    }
    DO(close(other_end));
    until_mask(set, EPOLLIN);
    DO(read(one, bytes, 10));
}
