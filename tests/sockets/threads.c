/* Cases: threads. One thread watches a socket; another waits for it, receives, moves or closes it.
 * */
#include "sets.h"
#include <setjmp.h>

/* Another thread adds or arms a socket with bytes, while the thread of the set sleeps. */
void two_threads_rouse(void)
{
    int set = idle_set(EPOLLIN), second = epoll_create1(0), pipes[2];
    struct sleeper one;
    if (pipe(pipes) != 0)
        quit("pipe");
    watch(second, EPOLL_CTL_ADD, pipes[0], EPOLLIN, 5);
    for (int i = 0; i < 3; i++) {
        far_write_here(0, "there before");
        watch(set, EPOLL_CTL_DEL, fd, 0, 0);
        begin(&one, second, act_wait);
        watch(second, EPOLL_CTL_ADD, fd, EPOLLIN, 2);
        finish(&one, "added");
        GET(read(fd, bytes, 100));
        watch(second, EPOLL_CTL_MOD, fd, 0, 3);
        far_write_here(0, "unwatched");
        begin(&one, second, act_wait);
        watch(second, EPOLL_CTL_MOD, fd, EPOLLIN, 4);
        finish(&one, "modified");
        watch(second, EPOLL_CTL_MOD, fd, EPOLLIN | EPOLLET, 6);
        WAIT(second, 0);
        begin(&one, second, act_wait);
        watch(second, EPOLL_CTL_MOD, fd, EPOLLIN | EPOLLET, 7);
        finish(&one, "armed again");
        watch(second, EPOLL_CTL_MOD, fd, EPOLLIN | EPOLLONESHOT, 8);
        WAIT(second, 0);
        begin(&one, second, act_wait);
        watch(second, EPOLL_CTL_MOD, fd, EPOLLIN | EPOLLONESHOT, 9);
        finish(&one, "armed once more");
        GET(read(fd, bytes, 100));
        watch(second, EPOLL_CTL_MOD, fd, EPOLLIN, 2);
        begin(&one, second, act_wait);
        far_write(0, "asleep");
        finish(&one, "awake");
        GET(recv(fd, bytes, 6, MSG_WAITALL));
        begin(&one, second, act_wait);
        DO(write(pipes[1], "x", 1));
        finish(&one, "the pipe");
        DO(read(pipes[0], bytes, 1));
        watch(second, EPOLL_CTL_DEL, fd, 0, 0);
        watch(set, EPOLL_CTL_ADD, fd, EPOLLIN, 1);
        far_write_here(0, "home");
        WAIT(set, 0);
        GET(read(fd, bytes, 100));
        WAIT(set, 0);
    }
}

/* A thread sleeps in poll, select or recv on a socket of another thread's set, which is awake. */
static void elsewhere(int set)
{
    static long (*const acts[])(struct sleeper *) = { act_poll, act_select, act_peek, act_read };
    static const char *const names[] = { "poll", "select", "peek", "read" };
    struct sleeper one;
    for (int i = 0; i < 12; i++) {
        begin(&one, fd, acts[i % 4]);
        far_write(0, "sixteen bytes ..");
        finish(&one, names[i % 4]);
        if (i % 4 != 3) {
            WAIT(set, 30000);
            until_bytes(fd, 16);
            GET(read(fd, bytes, 100));
        }
        WAIT(set, 0);
    }
}

void two_threads_elsewhere(void)
{
    int set = idle_set(EPOLLIN);
    elsewhere(set);
    watch(set, EPOLL_CTL_MOD, fd, EPOLLIN | EPOLLET, 2);
    elsewhere(set);
    /* All sleep at once: each gets the event. */
    watch(set, EPOLL_CTL_MOD, fd, EPOLLIN, 3);
    for (int i = 0; i < 3; i++) {
        struct sleeper one, two, three;
        begin(&one, set, act_wait);
        begin(&two, fd, act_poll);
        begin(&three, fd, act_select);
        far_write(0, "for all");
        finish(&one, "set");
        finish(&two, "poll");
        finish(&three, "select");
        GET(recv(fd, bytes, 7, MSG_WAITALL));
        WAIT(set, 0);
    }
}

static struct shared {
    int set, taken[2];
    pthread_mutex_t lock;
    pthread_cond_t change;
    int served;
} pool = { .lock = PTHREAD_MUTEX_INITIALIZER, .change = PTHREAD_COND_INITIALIZER };

/* A thread stays busy until the other has got its event, too. */
static long act_serve(struct sleeper *self)
{
    (void)self;
    char word[64];
    struct epoll_event one;
    do {
        if (epoll_wait(pool.set, &one, 1, 30000) != 1)
            return -1;
        /* Both may get the same bytes where they wait for a level. */
    } while (recv(ends[one.data.u32], word, 4, MSG_DONTWAIT) != 4);
    pthread_mutex_lock(&pool.lock);
    pool.served++;
    pool.taken[one.data.u32 - 1]++;
    pthread_cond_broadcast(&pool.change);
    while (pool.served < 2)
        pthread_cond_wait(&pool.change, &pool.lock);
    pthread_mutex_unlock(&pool.lock);
    return 0;
}

void two_threads_pool(void)
{
    mesh(2);
    pool.set = epoll_create1(0);
    for (int i = 1; i <= 2; i++)
        watch(pool.set, EPOLL_CTL_ADD, ends[i], EPOLLIN, i);
    for (int i = 0; i < 15; i++) {
        struct sleeper one, two;
        pool.served = 0;
        for (int j = 1; j <= 2; j++)
            watch(pool.set, EPOLL_CTL_MOD, ends[j], i & 1 ? EPOLLIN : EPOLLIN | EPOLLET, j);
        begin(&one, pool.set, act_serve);
        begin(&two, pool.set, act_serve);
        far_write(1, "work");
        pthread_mutex_lock(&pool.lock);
        while (pool.served < 1)
            pthread_cond_wait(&pool.change, &pool.lock);
        pthread_mutex_unlock(&pool.lock);
        far_write(2, "work");
        finish(&one, "one");
        finish(&two, "two");
        say("served: %d and %d", pool.taken[0], pool.taken[1]);
        int set = pool.set;
        WAIT(set, 0);
    }
}

/* A socket goes from the thread of the set to a worker and back, with bytes at each step. */
static void *worker(void *which)
{
    int how = *(int *)which, own = epoll_create1(0);
    struct pollfd one = { fd, POLLIN, 0 };
    if (how == 0) {
        say("worker: poll %d, %#x", poll(&one, 1, 30000), one.revents);
    } else if (how == 1) {
        watch(own, EPOLL_CTL_ADD, fd, EPOLLIN, 7);
        WAIT(own, 30000);
    } else if (how == 2) {
        watch(own, EPOLL_CTL_ADD, fd, EPOLLIN | EPOLLET, 8);
        WAIT(own, 30000);
        WAIT(own, 0);
    }
    until_bytes(fd, 8);
    GET(read(fd, bytes, 8));
    far_later(gettid(), 0, "answer..");
    if (how == 0)
        say("worker: poll %d, %#x", poll(&one, 1, 30000), one.revents);
    else if (how < 3)
        WAIT(own, 30000);
    GET(recv(fd, bytes, 8, MSG_WAITALL));
    far_write_here(0, "back....");
    close(own);
    return NULL;
}

void two_threads_over(void)
{
    int set = idle_set(EPOLLIN);
    for (int i = 0; i < 12; i++) {
        int how = i % 4;
        pthread_t thread;
        far_write_here(0, "request.");
        WAIT(set, 0);
        if (i < 4)
            watch(set, EPOLL_CTL_DEL, fd, 0, 0);
        else if (i < 8)
            watch(set, EPOLL_CTL_MOD, fd, EPOLLIN | EPOLLONESHOT, 2);
        else
            watch(set, EPOLL_CTL_MOD, fd, 0, 2);
        if (i >= 4 && i < 8)
            WAIT(set, 0);
        if (pthread_create(&thread, NULL, worker, &how) != 0)
            quit("no thread");
        pthread_join(thread, NULL);
        WAIT(set, 0);
        watch(set, i < 4 ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, fd, EPOLLIN, 1);
        WAIT(set, 30000);
        GET(recv(fd, bytes, 8, MSG_WAITALL));
        WAIT(set, 0);
    }
}

/* Another thread closes a socket, removes it, or closes the set, while a thread sleeps. */
void two_threads_closed(void)
{
    mesh(3);
    int set = epoll_create1(0), pipes[2];
    struct sleeper one;
    if (pipe(pipes) != 0)
        quit("pipe");
    watch(set, EPOLL_CTL_ADD, pipes[0], EPOLLIN, 9);
    for (int i = 1; i <= 3; i++) {
        watch(set, EPOLL_CTL_ADD, ends[i], EPOLLIN, i);
        far_write_here(i, "light");
        WAIT(set, 0);
        GET(read(ends[i], bytes, 100));
    }
    begin(&one, set, act_wait);
    DO(close(ends[1]));
    watch(set, EPOLL_CTL_DEL, ends[2], 0, 0);
    far_write_here(2, "not watched");
    DO(write(pipes[1], "x", 1));
    finish(&one, "the pipe alone");
    GET(read(pipes[0], bytes, 1));
    watch(set, EPOLL_CTL_ADD, ends[2], EPOLLIN, 2);
    far_write_here(3, "three");
    WAIT(set, 0);
    GET(read(ends[2], bytes, 100));
    GET(read(ends[3], bytes, 100));
    begin(&one, set, act_wait);
    far_write(3, "asleep");
    finish(&one, "three");
    GET(recv(ends[3], bytes, 6, MSG_WAITALL));
    WAIT(set, 0);
}

/* A thread sleeps in read. Another one closes the socket, and the number becomes that of a socket
 * with bytes: of the kernel, then of a stream that may go through rings. The thread gets the end of
 * its own stream, and no bytes. */
void two_threads_reused(void)
{
    int pair[2];
    for (int how = 0; how < 2; how++) {
        struct sleeper one;
        mesh(2);
        int number = ends[2];
        for (int i = 0; i < 3; i++) {
            far_write_here(2, "light");
            GET(read(number, bytes, 100));
            DO(write(number, "answer", 6));
            far_read(2, 6);
        }
        begin(&one, number, act_read);
        DO(close(number));
        if (how == 0) {
            if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0)
                quit("socketpair");
            DO(write(pair[1], "another's", 9));
            ends[1] = pair[0];
        } else {
            mesh(1);
            far_write_here(1, "another's");
        }
        say("the number is used: %d", dup2(ends[1], number) == number);
        far_close(2);
        finish(&one, "its own stream");
        GET(recv(number, bytes, 9, MSG_WAITALL));
        DO(close(number));
    }
}

/* A thread is cancelled in its wait, leaves it by a jump, or runs a handler. */
void two_threads_cancelled(void)
{
    int set = idle_set(EPOLLIN);
    for (int i = 0; i < 4; i++) {
        struct sleeper one;
        begin(&one, set, act_wait);
        DO(pthread_cancel(one.thread));
        finish(&one, "wait");
        far_write_here(0, "after");
        WAIT(set, 0);
        GET(read(fd, bytes, 100));
        far_later(gettid(), 0, "asleep");
        WAIT(set, 30000);
        GET(recv(fd, bytes, 6, MSG_WAITALL));
        begin(&one, set, act_wait);
        far_write(0, "for another");
        finish(&one, "wait");
        GET(recv(fd, bytes, 11, MSG_WAITALL));
        WAIT(set, 0);
    }
}

static sigjmp_buf back;
static volatile int ticks, jumps;

static void on_tick(int number)
{
    (void)number;
    ticks++;
    if (jumps)
        siglongjmp(back, 1);
}

/* A tick after so long, and more of them where `again` is not 0; none for 0. */
static void tick_after(long microseconds, long again)
{
    struct itimerval when = { { 0, again }, { 0, microseconds } };
    setitimer(ITIMER_REAL, &when, NULL);
}

/* Whether a tick after so long interrupts a wait. Where the CPU is busy, the tick may come before
 * the wait and interrupt nothing. A later tick ends the wait then, and the next turn tries
 * again. */
static int tick_interrupts(int set, long microseconds)
{
    for (int turn = 0; turn < 50; turn++) {
        ticks = 0;
        tick_after(microseconds, 50000);
        int ended = epoll_wait(set, list, 8, 30000), error = errno, came = ticks;
        tick_after(0, 0);
        if (ended != -1 || error != EINTR)
            return 0;
        if (came == 1)
            return 1;
    }
    return 0;
}

void two_threads_jump(void)
{
    struct sigaction how = { .sa_handler = on_tick, .sa_flags = SA_RESTART };
    int set = idle_set(EPOLLIN);
    sigaction(SIGALRM, &how, NULL);
    for (volatile int i = 0; i < 30; i++) {
        jumps = i % 3 != 0;
        if (!jumps) {
            if (tick_interrupts(set, 100 + i * 40))
                say("interrupted");
        } else if (sigsetjmp(back, 1) == 0) {
            tick_after(100 + i * 40, 0);
            for (;;)
                epoll_wait(set, list, 8, 30000);
        } else {
            say("out of it by a jump");
        }
        far_write_here(0, "after");
        WAIT(set, 0);
        GET(read(fd, bytes, 100));
        far_later(gettid(), 0, "asleep");
        WAIT(set, 30000);
        GET(recv(fd, bytes, 6, MSG_WAITALL));
        WAIT(set, 0);
    }
}

/* A handler receives bytes, and the mask of the wait lets it in. */
void two_threads_mask(void)
{
    struct sigaction how = { .sa_handler = on_tick, .sa_flags = 0 };
    sigset_t ours, none;
    int set = idle_set(EPOLLIN);
    jumps = 0;
    sigaction(SIGUSR1, &how, NULL);
    sigemptyset(&none);
    sigemptyset(&ours);
    sigaddset(&ours, SIGUSR1);
    sigprocmask(SIG_BLOCK, &ours, NULL);
    for (int i = 0; i < 5; i++) {
        ticks = 0;
        raise(SIGUSR1);
        DO(epoll_wait(set, list, 8, 1));
        say("handled: %d", ticks);
        DO(epoll_pwait(set, list, 8, 30000, &none));
        say("handled: %d", ticks);
        /* The bytes arrive before the signal. */
        far_write_here(0, "bytes");
        raise(SIGUSR1);
        found("epoll_pwait", epoll_pwait(set, list, 8, 30000, &none), list);
        say("handled: %d", ticks);
        GET(read(fd, bytes, 100));
        DO(epoll_pwait(set, list, 8, 30000, &none));
        say("handled: %d", ticks);
        found("epoll_pwait", epoll_pwait(set, list, 8, 0, &none), list);
        far_later(gettid(), 0, "asleep");
        found("epoll_pwait", epoll_pwait(set, list, 8, 30000, &none), list);
        GET(recv(fd, bytes, 6, MSG_WAITALL));
    }
}

/* A signal that the program ignores interrupts no wait. */
void two_threads_ignored(void)
{
    int set = idle_set(EPOLLIN), interrupted = 0;
    pid_t self = getpid(), child = fork();
    if (child == 0)
        for (;;) {
            kill(self, SIGURG);
            usleep(20);
        }
    for (int i = 0; i < 600 && !interrupted; i++) {
        if (i & 1)
            far_later(0, 0, "x");
        int count = epoll_wait(set, list, 8, i & 1 ? 30000 : 1);
        interrupted = count < 0;
        if (count > 0)
            recv(fd, bytes, 1, MSG_WAITALL);
    }
    kill(child, SIGKILL);
    ended(child);
    say(interrupted ? "a wait was interrupted by an ignored signal" : "no wait was interrupted");
}
