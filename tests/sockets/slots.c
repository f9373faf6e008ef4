/* Cases: many sets, many changes, sets of several processes, and rare event flags. */
#include "sets.h"
#include <time.h>

enum { SETS = 150 };

/* More sets than the library has room for. */
void two_slots_sets(void)
{
    static int sets[SETS + 1];
    int wrong = 0;
    mesh(SETS);
    for (int turn = 0; turn < 2; turn++) {
        for (int i = 1; i <= SETS; i++) {
            struct epoll_event one = { .events = turn ? EPOLLIN | EPOLLET : EPOLLIN,
                .data.u64 = i * 1000003ul };
            sets[i] = epoll_create1(0);
            epoll_ctl(sets[i], EPOLL_CTL_ADD, ends[i], &one);
        }
        for (int round = 0; round < 3; round++) {
            for (int i = 1; i <= SETS; i++)
                far_write_here(i, "to each");
            for (int i = SETS; i >= 1; i--) {
                wrong += epoll_wait(sets[i], list, 8, 30000) != 1 ||
                    list[0].data.u64 != i * 1000003ul;
                wrong += read(ends[i], bytes, 100) != 7;
                wrong += epoll_wait(sets[i], list, 8, 0) != 0;
            }
        }
        for (int i = 1; i <= SETS; i++)
            close(sets[i]);
    }
    say("wrong: %d", wrong);
}

/* A socket of a set of the library joins a set beyond its room, and so does that set. */
void two_slots_beyond(void)
{
    int set = idle_set(EPOLLIN), inner = -1, outer = -1;
    for (int i = 0; i < SETS; i++) {
        inner = outer;
        outer = epoll_create1(0);
    }
    watch(inner, EPOLL_CTL_ADD, fd, EPOLLIN, 5);
    far_later(gettid(), 0, "asleep");
    WAIT(inner, 30000);
    GET(read(fd, bytes, 100));
    watch(outer, EPOLL_CTL_ADD, set, EPOLLIN, 6);
    far_later(gettid(), 0, "in the set");
    WAIT(outer, 30000);
    WAIT(set, 0);
    GET(read(fd, bytes, 100));
}

/* A set watched a socket that was closed before it had a connection, and not the next one of its
 * number. */
void two_slots_again(void)
{
    struct sockaddr_storage at;
    socklen_t length;
    int go[2], listening = listener(&at, &length, 1);
    char byte;
    if (pipe(go) != 0)
        quit("pipe");
    pid_t child = fork();
    if (child == 0) {
        int stream = accept(listening, NULL, NULL);
        warm(stream, 0);
        _exit(read(go[0], &byte, 1) != 1 || write(stream, "bytes", 5) != 5
            || read(go[0], &byte, 1) != 1);
    }
    close(listening);
    int set = idle_set(EPOLLIN), first = socket(at.ss_family, SOCK_STREAM, 0);
    watch(set, EPOLL_CTL_ADD, first, EPOLLIN, 7);
    close(first);
    int next = socket(at.ss_family, SOCK_STREAM, 0);
    say("the same number: %d", next == first);
    DO(connect(next, (void *)&at, length));
    warm(next, 1);
    WAIT(set, 0);
    DO(write(go[1], "x", 1));
    until_bytes(next, 5);
    WAIT(set, 0);
    GET(read(next, bytes, 100));
    DO(write(go[1], "x", 1));
    ended(child);
}

/* Sockets are added and removed, sets are made and closed, and bytes arrive in between. */
void two_slots_cycles(void)
{
    int set = idle_set(EPOLLIN), wrong = 0;
    mesh(2);
    for (int i = 0; i < 1500; i++) {
        struct epoll_event one = { .events = i & 4 ? EPOLLIN | EPOLLET : EPOLLIN,
            .data.u64 = 1000 + i };
        int stream = 1 + (i & 1), own = i % 3 ? set : epoll_create1(0);
        wrong += epoll_ctl(own, EPOLL_CTL_ADD, ends[stream], &one) != 0;
        wrong += epoll_wait(own, list, 8, 0) != 0;
        if (i % 10 == 0) {
            far_write_here(stream, "x");
            if (i % 20 == 0)
                wrong += epoll_wait(own, list, 8, 0) != 1 || list[0].data.u64 != 1000u + i;
            wrong += read(ends[stream], bytes, 10) != 1;
            wrong += epoll_wait(own, list, 8, 0) != 0;
        }
        if (own != set && i % 2)
            close(own);
        else
            wrong += epoll_ctl(own, EPOLL_CTL_DEL, ends[stream], NULL) != 0 || (own != set &&
                close(own) != 0);
    }
    say("wrong: %d", wrong);
    far_write_here(0, "still");
    WAIT(set, 0);
    GET(read(fd, bytes, 10));
    far_later(gettid(), 0, "asleep");
    WAIT(set, 30000);
}

/* Bytes under the other names of their events, and with flags that mean nothing here. */
void two_slots_names(void)
{
    static const unsigned wanted[] = {
        EPOLLRDNORM, EPOLLIN | EPOLLRDNORM, EPOLLIN | EPOLLPRI, EPOLLRDNORM | EPOLLET | EPOLLOUT,
        EPOLLIN | EPOLLOUT | EPOLLWRNORM, EPOLLIN | EPOLLERR | EPOLLHUP, EPOLLPRI,
            EPOLLIN | EPOLLMSG, EPOLLRDBAND | EPOLLIN,
    };
    int set = idle_set(EPOLLIN);
    for (unsigned i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        watch(set, EPOLL_CTL_MOD, fd, wanted[i], i);
        WAIT(set, 0);
        far_write_here(0, "bytes");
        WAIT(set, 0);
        GET(read(fd, bytes, 2));
        watch(set, EPOLL_CTL_DEL, fd, 0, 0);
        watch(set, EPOLL_CTL_ADD, fd, wanted[i], i);
        WAIT(set, 0);
        GET(read(fd, bytes, 100));
        WAIT(set, 0);
    }
}

/* Parent and child have one set: each sees the changes of the other. */
void two_slots_shared(void)
{
    mesh(3);
    int set = idle_set(EPOLLIN), go[2], back[2];
    struct sleeper one;
    if (pipe(go) != 0 || pipe(back) != 0)
        quit("pipe");
    watch(set, EPOLL_CTL_ADD, ends[3], EPOLLIN, 4);
    far_write_here(0, "held");
    pid_t child = fork();
    if (child == 0) {
        watch(set, EPOLL_CTL_ADD, ends[1], EPOLLIN, 2);
        far_write_here(1, "added by the child");
        WAIT(set, 0);
        watch(set, EPOLL_CTL_DEL, fd, 0, 0);
        WAIT(set, 0);
        write(back[1], "x", 1);
        read(go[0], bytes, 1);
        far_write_here(2, "rouses the parent");
        watch(set, EPOLL_CTL_ADD, ends[2], EPOLLIN, 3);
        write(back[1], "x", 1);
        read(go[0], bytes, 1);
        watch(set, EPOLL_CTL_MOD, ends[3], EPOLLIN | EPOLLET, 5);
        _exit(0);
    }
    read(back[0], bytes, 1);
    WAIT(set, 0);
    GET(read(fd, bytes, 100));
    GET(read(ends[1], bytes, 100));
    WAIT(set, 0);
    begin(&one, set, act_wait);
    write(go[1], "x", 1);
    read(back[0], bytes, 1);
    finish(&one, "roused");
    GET(read(ends[2], bytes, 100));
    far_write_here(3, "of before");
    write(go[1], "x", 1);
    ended(child);
    WAIT(set, 0);
    WAIT(set, 0);
    far_write_here(3, "of after");
    WAIT(set, 0);
    GET(read(ends[3], bytes, 100));
    far_write_here(0, "not watched any more");
    far_write_here(1, "but this");
    WAIT(set, 0);
    GET(read(ends[1], bytes, 100));
    watch(set, EPOLL_CTL_ADD, fd, EPOLLIN, 1);
    WAIT(set, 0);
}

/* A program after an exec waits in the set that it inherits. */
void inherited_after_exec(int stream)
{
    struct epoll_event one;
    int set = atoi(getenv("M3_MATRIX_SET"));
    char word[16];
    for (int i = 0; i < 3; i++) {
        if (epoll_wait(set, &one, 1, 30000) != 1 || one.events != EPOLLIN || one.data.u64 != 1)
            _exit(10 + i);
        if (recv(stream, word, 5, MSG_WAITALL) != 5 || write(stream, "more!", 5) != 5)
            _exit(20 + i);
    }
    _exit(7);
}

void two_slots_exec(void)
{
    int set = idle_set(EPOLLIN);
    char number[16];
    snprintf(number, sizeof number, "%d", set);
    setenv("M3_MATRIX_SET", number, 1);
    for (int turn = 0; turn < 2; turn++) {
        char **words = resume("inherit", fd);
        far_write_here(0, "12345");
        pid_t child = turn ? vfork() : fork();
        if (child == 0) {
            execv(words[0], words);
            _exit(127);
        }
        for (int i = 0; i < 3; i++) {
            far_read(0, 5);
            if (i < 2)
                far_write(0, "again");
        }
        ended(child);
        far_write_here(0, "home");
        WAIT(set, 0);
        GET(read(fd, bytes, 100));
    }
}

/* Two threads never sleep: each arrival is an edge for one of them. */
static volatile int reported, over;

static void *polls(void *which)
{
    struct epoll_event one;
    char word[16];
    while (!over)
        if (epoll_wait(*(int *)which, &one, 1, 0) == 1) {
            while (recv(ends[one.data.u32], word, sizeof word, MSG_DONTWAIT) > 0)
                ;
            __atomic_fetch_add(&reported, 1, __ATOMIC_SEQ_CST);
        } else {
            usleep(50);
        }
    return NULL;
}

void two_slots_polls(void)
{
    mesh(2);
    pthread_t all[2];
    int set = epoll_create1(0);
    for (int i = 1; i <= 2; i++)
        watch(set, EPOLL_CTL_ADD, ends[i], EPOLLIN | EPOLLET, i);
    for (int i = 0; i < 2; i++)
        pthread_create(&all[i], NULL, polls, &set);
    for (int i = 1; i <= 200; i++) {
        far_write(1 + (i & 1), "arrival");
        time_t last = time(NULL) + 30;
        while (reported < i && time(NULL) < last)
            usleep(20);
        if (reported < i)
            quit("an arrival was reported to nobody");
    }
    over = 1;
    for (int i = 0; i < 2; i++)
        pthread_join(all[i], NULL);
    WAIT(set, 0);
    say("200 arrivals were reported");
}
