/* Cases: one report for one arrival, and orderly ends with unread bytes. */
#include "sets.h"
#include <sys/eventfd.h>
#include <time.h>

/* The other side reads the end of this side, which has not read all its bytes: an orderly end. */
void two_once_half(void)
{
    mesh(2);
    int set = epoll_create1(0);
    for (int i = 1; i <= 2; i++) {
        watch(set, EPOLL_CTL_ADD, ends[i], EPOLLIN, i);
        for (int turn = 0; turn < 3; turn++) {
            far_write_here(i, "light");
            WAIT(set, 0);
            GET(read(ends[i], bytes, 100));
        }
        far_write_here(i, "not read yet");
        if (i == 2)
            WAIT(set, 0);
        DO(write(ends[i], "answer", 6));
        DO(shutdown(ends[i], SHUT_WR));
        far_read(i, 6);
        far_read(i, 6);
        far_write_here(i, ", and more");
        far_read(i, 6);
        WAIT(set, 0);
        GET(recv(ends[i], bytes, 22, MSG_WAITALL));
        WAIT(set, 0);
        far_shutdown(i);
        until_mask(set, EPOLLIN | EPOLLHUP);
        DO(read(ends[i], bytes, 10));
        watch(set, EPOLL_CTL_DEL, ends[i], 0, 0);
    }
}

/* An edge is reported once where there is room for one event. */
void two_once_room(void)
{
    int set = idle_set(EPOLLIN | EPOLLET);
    for (int i = 0; i < 3; i++) {
        far_later(gettid(), 0, "asleep");
        found("room for one", epoll_wait(set, list, 1, 30000), list);
        until_bytes(fd, 6);
        found("room for one", epoll_wait(set, list, 1, 0), list);
        found("room for one", epoll_wait(set, list, 1, 1), list);
        watch(set, EPOLL_CTL_MOD, fd, EPOLLIN | EPOLLET, 2);
        found("room for one", epoll_wait(set, list, 1, 0), list);
        found("room for one", epoll_wait(set, list, 1, 0), list);
        watch(set, EPOLL_CTL_DEL, fd, 0, 0);
        watch(set, EPOLL_CTL_ADD, fd, EPOLLIN | EPOLLET, 3);
        found("room for one", epoll_wait(set, list, 1, 0), list);
        found("room for one", epoll_wait(set, list, 1, 0), list);
        far_write_here(0, "more");
        found("room for one", epoll_wait(set, list, 1, 0), list);
        found("room for one", epoll_wait(set, list, 1, 0), list);
        watch(set, EPOLL_CTL_MOD, fd, EPOLLIN | EPOLLONESHOT, 4);
        found("room for one", epoll_wait(set, list, 1, 0), list);
        found("room for one", epoll_wait(set, list, 1, 0), list);
        watch(set, EPOLL_CTL_MOD, fd, EPOLLIN | EPOLLET, 1);
        found("room for one", epoll_wait(set, list, 1, 0), list);
        GET(read(fd, bytes, 100));
        found("room for one", epoll_wait(set, list, 1, 0), list);
    }
}

/* Threads sleep, poll, and wait for a short time in one set: one of them gets an arrival. */
enum { WORKERS = 4, STREAMS = 3, ARRIVALS = 400 };
static int all_set, over, busy[STREAMS + 1], reported, doubled_up, arms, tids[WORKERS];
static pthread_barrier_t together;

static void *works(void *which)
{
    static const int times[] = { 30, 0, 1, 30 };
    struct epoll_event one;
    char word[16];
    long me = (long)which;
    /* When a second thread begins to wait, both may get the arrival of that moment
         * (docs/sockets.md). So all wait before the first arrival, until an event wakes them. */
    tids[me] = gettid();
    pthread_barrier_wait(&together);
    epoll_wait(all_set, &one, 1, 30000);
    pthread_barrier_wait(&together);
    /* The event goes out of the set meanwhile. */
    pthread_barrier_wait(&together);
    while (!__atomic_load_n(&over, __ATOMIC_SEQ_CST)) {
        if (epoll_wait(all_set, &one, 1, times[me % 4]) != 1) {
            if (times[me % 4] == 0)
                usleep(30);
            continue;
        }
        int i = one.data.u32;
        if (__atomic_exchange_n(&busy[i], 1, __ATOMIC_SEQ_CST))
            __atomic_fetch_add(&doubled_up, 1, __ATOMIC_SEQ_CST);
        /* Gives another thread time to get the same arrival. */
        usleep(40);
        while (recv(ends[i], word, sizeof word, MSG_DONTWAIT) > 0)
            ;
        __atomic_store_n(&busy[i], 0, __ATOMIC_SEQ_CST);
        __atomic_fetch_add(&reported, 1, __ATOMIC_SEQ_CST);
        if (arms) {
            one.events = EPOLLIN | EPOLLONESHOT;
            epoll_ctl(all_set, EPOLL_CTL_MOD, ends[i], &one);
        }
    }
    return NULL;
}

static void to_one(unsigned how)
{
    pthread_t all[WORKERS];
    arms = !!(how & EPOLLONESHOT);
    all_set = epoll_create1(0);
    over = reported = doubled_up = 0;
    memset(busy, 0, sizeof busy);
    for (int i = 1; i <= STREAMS; i++)
        watch(all_set, EPOLL_CTL_ADD, ends[i], how, i);
    pthread_barrier_init(&together, NULL, WORKERS + 1);
    for (long i = 0; i < WORKERS; i++)
        pthread_create(&all[i], NULL, works, (void *)i);
    int all_wait = eventfd(0, 0);
    watch(all_set, EPOLL_CTL_ADD, all_wait, EPOLLIN, 0);
    pthread_barrier_wait(&together);
    for (int i = 0; i < WORKERS; i++)
        until_asleep(tids[i]);
    eventfd_write(all_wait, 1);
    pthread_barrier_wait(&together);
    watch(all_set, EPOLL_CTL_DEL, all_wait, 0, 0);
    close(all_wait);
    pthread_barrier_wait(&together);
    for (int i = 1; i <= ARRIVALS; i++) {
        time_t last = time(NULL) + 30;
        far_write(1 + i % STREAMS, "arrival");
        while (__atomic_load_n(&reported, __ATOMIC_SEQ_CST) < i && time(NULL) < last)
            usleep(10);
        if (reported < i)
            quit("no thread got an arrival");
    }
    __atomic_store_n(&over, 1, __ATOMIC_SEQ_CST);
    for (int i = 0; i < WORKERS; i++)
        pthread_join(all[i], NULL);
    close(all_set);
    say(doubled_up ? "two had one stream at a time" : "each stream was one's at a time");
    if (reported != ARRIVALS || doubled_up)
        fprintf(stderr, "%d arrivals reported %d times, %d at the same time\n", ARRIVALS, reported,
            doubled_up);
    say(reported == ARRIVALS ? "each arrival was reported once"
                             : "some arrivals were reported more than once");
}

void two_once_edge(void)
{
    mesh(STREAMS);
    to_one(EPOLLIN | EPOLLET);
}

void two_once_oneshot(void)
{
    mesh(STREAMS);
    to_one(EPOLLIN | EPOLLONESHOT);
}

/* A grandchild still has the socket after the child has ended. */
void two_once_grandchild(void)
{
    int set = idle_set(EPOLLIN), ready[2], go[2], back[2];
    if (pipe(ready) != 0 || pipe(go) != 0 || pipe(back) != 0)
        quit("pipe");
    pid_t child = fork();
    if (child == 0) {
        if (fork() > 0)
            _exit(0);
        for (int i = 0; i < 3; i++) {
            struct pollfd one = { fd, POLLIN, 0 };
            int own = gettid();
            write(ready[1], &own, sizeof own);
            read(go[0], bytes, 1);
            int value = i == 1 ? (int)recv(fd, bytes, 10, MSG_PEEK) : poll(&one, 1, 10000);
            write(back[1], &value, sizeof value);
        }
        _exit(0);
    }
    ended(child);
    for (int i = 0; i < 3; i++) {
        int own = 0, value = 0;
        for (int turn = 0; turn < 300; turn++)
            epoll_wait(set, list, 8, 0);
        far_write_here(0, "x");
        WAIT(set, 0);
        GET(read(fd, bytes, 1));
        if (read(ready[0], &own, sizeof own) != sizeof own)
            quit("no grandchild");
        write(go[1], "x", 1);
        usleep(1000);
        until_asleep(own);
        far_write(0, "for both");
        if (read(back[0], &value, sizeof value) != sizeof value)
            quit("no grandchild");
        say("the grandchild saw %d", value);
        WAIT(set, 30000);
        GET(recv(fd, bytes, 8, MSG_WAITALL));
    }
}
