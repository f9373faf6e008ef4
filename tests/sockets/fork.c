/* Cases: processes. A watched socket with bytes is inherited, passed, taken over after an exec, or
 * left by a process that dies. */
#include "sets.h"
#include <spawn.h>

/* The child receives the bytes that the parent's set has not reported, by each kind of wait. Then
 * the parent receives. */
void two_fork_child(void)
{
    int set = idle_set(EPOLLIN);
    struct pollfd one = { fd, POLLIN, 0 };
    far_write_here(0, "0123456789abcdef");
    CHILD {
        WAIT(set, 30000);
        GET(read(fd, bytes, 2));
        say("poll: %d, %#x", poll(&one, 1, 30000), one.revents);
        GET(read(fd, bytes, 2));
        int own = epoll_create1(0);
        watch(own, EPOLL_CTL_ADD, fd, EPOLLIN, 2);
        WAIT(own, 30000);
        GET(read(fd, bytes, 2));
        WAIT(set, 0);
    }
    WAIT(set, 0);
    GET(read(fd, bytes, 4));
    WAIT(set, 0);
    GET(read(fd, bytes, 100));
    WAIT(set, 0);
    /* The child sleeps while the parent is awake, in each kind of wait. */
    for (int how = 0; how < 4; how++)
        CHILD {
            int own = how == 0 ? set : epoll_create1(0);
            if (how == 1)
                watch(own, EPOLL_CTL_ADD, fd, EPOLLIN, 3);
            far_later(gettid(), 0, "for the child");
            if (how < 2)
                WAIT(own, 30000);
            else if (how == 2)
                say("poll: %d, %#x", poll(&one, 1, 30000), one.revents);
            GET(recv(fd, bytes, 13, MSG_WAITALL));
        }
    WAIT(set, 0);
    /* The parent sleeps while a child lives. */
    int gate[2];
    if (pipe(gate) != 0)
        quit("pipe");
    pid_t child = fork();
    if (child == 0)
        _exit(read(gate[0], bytes, 1) == 1 ? 0 : 1);
    for (int i = 0; i < 3; i++) {
        far_write_here(0, "for the parent");
        WAIT(set, 0);
        GET(read(fd, bytes, 100));
        far_later(gettid(), 0, "asleep");
        WAIT(set, 30000);
        GET(recv(fd, bytes, 6, MSG_WAITALL));
        WAIT(set, 0);
    }
    DO(write(gate[1], "x", 1));
    ended(child);
    far_write_here(0, "alone");
    WAIT(set, 0);
}

/* The parent watches and reports; children serve. */
void two_fork_prefork(void)
{
    mesh(4);
    int set = epoll_create1(0);
    for (int i = 1; i <= 4; i++) {
        watch(set, EPOLL_CTL_ADD, ends[i], EPOLLIN, i);
        far_write_here(i, "light");
        WAIT(set, 0);
        GET(read(ends[i], bytes, 100));
    }
    for (int i = 1; i <= 4; i++) {
        far_write_here(i, "request");
        WAIT(set, 0);
        if (i & 1)
            watch(set, EPOLL_CTL_DEL, ends[i], 0, 0);
        CHILD {
            struct pollfd one = { ends[i], POLLIN, 0 };
            int own = epoll_create1(0);
            if (i & 2) {
                say("poll: %d, %#x", poll(&one, 1, 30000), one.revents);
            } else {
                watch(own, EPOLL_CTL_ADD, ends[i], EPOLLIN | EPOLLET, i);
                WAIT(own, 30000);
            }
            GET(read(ends[i], bytes, 100));
            DO(write(ends[i], "answer", 6));
            far_later(gettid(), i, "another");
            if (i & 2)
                say("poll: %d, %#x", poll(&one, 1, 30000), one.revents);
            else
                WAIT(own, 30000);
            GET(recv(ends[i], bytes, 7, MSG_WAITALL));
            DO(write(ends[i], "answers", 7));
        }
        far_read(i, 6);
        far_read(i, 7);
        DO(close(ends[i]));
        far_read(i, 1);
        WAIT(set, 0);
    }
}

void two_fork_passed(void)
{
    int pair[2], back[2], go[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0 || pipe(back) != 0 || pipe(go) != 0)
        quit("socketpair");
    pid_t child = fork();
    if (child == 0) {
        close(fd);
        close(pair[0]);
        for (int how = 0; how < 4; how++) {
            int got_it = take(pair[1]), own = epoll_create1(0);
            struct pollfd one = { got_it, POLLIN, 0 };
            if (read(go[0], bytes, 1) != 1)
                _exit(2);
            /* The last descriptor is an epoll set. */
            if (how == 3) {
                found("the set", epoll_wait(got_it, list, 8, 30000), list);
            } else {
                if (how == 0)
                    say("poll: %d, %#x", poll(&one, 1, 30000), one.revents);
                if (how == 1) {
                    watch(own, EPOLL_CTL_ADD, got_it, EPOLLIN, 3);
                    WAIT(own, 30000);
                }
                GET(recv(got_it, bytes, 4, MSG_WAITALL));
                ends[0] = got_it;
                far_later(gettid(), 0, "late");
                if (how == 0)
                    say("poll: %d, %#x", poll(&one, 1, 30000), one.revents);
                if (how == 1)
                    WAIT(own, 30000);
                GET(recv(got_it, bytes, 4, MSG_WAITALL));
            }
            close(got_it);
            close(own);
            if (write(back[1], "x", 1) != 1)
                _exit(1);
        }
        /* The other side ends first: this end would send it a signal. */
        _exit((int)read(pair[1], bytes, 1));
    }
    close(pair[1]);
    int set = idle_set(EPOLLIN);
    for (int how = 0; how < 4; how++) {
        far_write_here(0, "here");
        pass(pair[0], how == 3 ? set : fd);
        if (write(go[1], "x", 1) != 1 || read(back[0], bytes, 1) != 1)
            quit("the receiver has ended");
        WAIT(set, 0);
        if (how == 3)
            GET(read(fd, bytes, 100));
        far_write_here(0, "home");
        WAIT(set, 0);
        GET(read(fd, bytes, 100));
        far_later(gettid(), 0, "asleep");
        WAIT(set, 30000);
        GET(recv(fd, bytes, 6, MSG_WAITALL));
        WAIT(set, 0);
    }
    close(pair[0]);
    ended(child);
}

/* The part of the program that exec starts: its exit status says whether all was right. */
void watched_after_exec(int stream)
{
    struct epoll_event one = { .events = EPOLLIN, .data.u32 = 6 };
    int set = epoll_create1(0);
    char word[16];
    if (epoll_ctl(set, EPOLL_CTL_ADD, stream, &one) != 0 || epoll_wait(set, &one, 1, 30000) != 1)
        _exit(10);
    if (one.events != EPOLLIN || one.data.u32 != 6)
        _exit(11);
    if (recv(stream, word, 10, MSG_WAITALL) != 10 || memcmp(word, "0123456789", 10) != 0)
        _exit(12);
    if (epoll_wait(set, &one, 1, 0) != 0)
        _exit(13);
    if (write(stream, "ready", 5) != 5 || epoll_wait(set, &one, 1, 30000) != 1)
        _exit(14);
    _exit(recv(stream, word, 5, MSG_WAITALL) == 5 && memcmp(word, "again", 5) == 0 ? 7 : 15);
}

void two_fork_exec(void)
{
    int set = idle_set(EPOLLIN);
    for (int how = 0; how < 3; how++) {
        char **words = resume("watch", fd);
        pid_t child = -1;
        far_write_here(0, "0123456789");
        if (how == 0)
            child = fork();
        else if (how == 1)
            child = vfork();
        else if (posix_spawn(&child, words[0], NULL, NULL, words, environ) != 0)
            quit("posix_spawn");
        if (child == 0) {
            execv(words[0], words);
            _exit(127);
        }
        far_read(0, 5);
        far_write(0, "again");
        ended(child);
        WAIT(set, 0);
        far_write_here(0, "home");
        WAIT(set, 0);
        GET(read(fd, bytes, 100));
        far_later(gettid(), 0, "asleep");
        WAIT(set, 30000);
        GET(recv(fd, bytes, 6, MSG_WAITALL));
        WAIT(set, 0);
    }
}

/* The set itself is polled, which may add a descriptor of the library to it. A child by fork has a
 * copy of that one, and pauses. */
void two_fork_polled(void)
{
    mesh(1);
    int set = epoll_create1(0), gate[2];
    struct pollfd one = { set, POLLIN, 0 };
    if (pipe(gate) != 0)
        quit("pipe");
    watch(set, EPOLL_CTL_ADD, ends[1], EPOLLIN, 1);
    for (int i = 0; i < 3; i++) {
        far_write_here(1, "light");
        WAIT(set, 0);
        GET(read(ends[1], bytes, 100));
        WAIT(set, 0);
    }
    far_write_here(1, "held");
    say("poll: %d, %#x", poll(&one, 1, 30000), one.revents);
    pid_t child = fork();
    if (child == 0)
        _exit(read(gate[0], bytes, 1) == 1 ? 0 : 1);
    WAIT(set, 30000);
    GET(read(ends[1], bytes, 100));
    WAIT(set, 0);
    WAIT(set, 0);
    say("poll: %d, %#x", poll(&one, 1, 0), one.revents);
    far_later(gettid(), 1, "asleep");
    WAIT(set, 30000);
    GET(recv(ends[1], bytes, 6, MSG_WAITALL));
    WAIT(set, 0);
    DO(write(gate[1], "x", 1));
    ended(child);
}

/* A process that shares the end is killed in its wait. The other process goes on. */
void two_fork_killed(void)
{
    int set = idle_set(EPOLLIN);
    for (int how = 0; how < 4; how++) {
        int gate[2];
        if (pipe(gate) != 0)
            quit("pipe");
        pid_t child = fork();
        if (child == 0) {
            int own = how & 1 ? epoll_create1(0) : set;
            if (how & 1)
                watch(own, EPOLL_CTL_ADD, fd, EPOLLIN, 2);
            if (write(gate[1], "x", 1) == 1 && how < 2)
                epoll_wait(own, list, 8, -1);
            for (;;)
                epoll_wait(own, list, 8, 0);
        }
        if (read(gate[0], bytes, 1) != 1)
            quit("no child");
        if (how < 2)
            until_asleep(child);
        kill(child, SIGKILL);
        ended(child);
        far_write_here(0, "after the death");
        WAIT(set, 0);
        GET(read(fd, bytes, 100));
        WAIT(set, 0);
        far_later(gettid(), 0, "asleep");
        WAIT(set, 30000);
        GET(recv(fd, bytes, 6, MSG_WAITALL));
        WAIT(set, 0);
    }
}

/* Waits until the other side is gone. Whether an error is among the events depends on a wakeup byte
 * (docs/sockets.md). */
static void until_gone(int set)
{
    struct epoll_event one = { 0 };
    while (!(one.events & EPOLLRDHUP))
        if (epoll_wait(set, &one, 1, 30000) < 1)
            quit("the end never came");
}

/* The other side is killed in its wait: this side gets an end, or a reset where bytes were left. */
static void killed(int with_bytes)
{
    siginfo_t how;
    int set = idle_set(EPOLLIN | EPOLLRDHUP);
    far_part(PART_ASLEEP, with_bytes);
    if (with_bytes)
        DO(write(fd, "unread", 6));
    await_next();
    until_asleep(other);
    kill(other, SIGKILL);
    waitid(P_PID, other, &how, WEXITED | WNOWAIT);
    if (with_bytes)
        until_gone(set);
    else
        until_mask(set, EPOLLRDHUP);
    DO(read(fd, bytes, 100));
    DO(read(fd, bytes, 100));
    if (!with_bytes)
        WAIT(set, 0);
}

void one_fork_peer(void)
{
    killed(0);
}

void one_fork_peer_left(void)
{
    killed(1);
}

/* A socket is closed with unread bytes: the other side gets a reset. */
void two_fork_left(void)
{
    mesh(3);
    int set = epoll_create1(0), gate[2];
    for (int i = 1; i <= 3; i++) {
        watch(set, EPOLL_CTL_ADD, ends[i], EPOLLIN, i);
        far_write_here(i, "light");
        WAIT(set, 0);
        GET(read(ends[i], bytes, 100));
        WAIT(set, 0);
    }
    far_write_here(1, "never read");
    DO(close(ends[1]));
    far_read(1, 1);
    far_write_here(2, "read in part");
    WAIT(set, 0);
    GET(read(ends[2], bytes, 4));
    DO(close(ends[2]));
    far_read(2, 1);
    /* The only process that has the socket dies. */
    if (pipe(gate) != 0)
        quit("pipe");
    pid_t child = fork();
    if (child == 0) {
        int own = epoll_create1(0);
        watch(own, EPOLL_CTL_ADD, ends[3], EPOLLIN, 3);
        for (int i = 0; i < 3; i++) {
            far_write_here(3, "light");
            WAIT(own, 0);
            GET(read(ends[3], bytes, 100));
            WAIT(own, 0);
        }
        far_write_here(3, "never read");
        if (write(gate[1], "x", 1) == 1)
            pause();
    }
    close(ends[3]);
    if (read(gate[0], bytes, 1) != 1)
        quit("no child");
    kill(child, SIGKILL);
    ended(child);
    far_read(3, 1);
}
