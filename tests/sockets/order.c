/*
 * Cases: a side sends on two connections, one send after the other has returned. An event loop sees
 * the first one first, whatever way their bytes go.
 */
#include "sets.h"

enum { TURNS = 1500, FIFO = 4 };

/* In place of end 2 a FIFO, which both sides open by the number of the process that watches. */
static void open_fifo(pid_t watcher, int flags)
{
    char name[PATH_MAX];
    snprintf(name, sizeof name, "%s/m3-fifo.%d", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp",
        (int)watcher);
    if (watcher == getpid() && mkfifo(name, 0600) != 0)
        quit("mkfifo");
    if ((ends[2] = open(name, flags)) < 0)
        quit("a FIFO");
    if (watcher != getpid())
        unlink(name);
}

/* A connection with owner signals stays in the kernel; the signals never come. */
static void keep_in_kernel(int stream)
{
    fcntl(stream, F_SETOWN, 0);
}

/* Sends on ends 1 and 2 in a random order, then awaits the answer on end 3. `kind` is the number of
 * the connection that stays in the kernel, or 0. */
long send_in_order(int kind)
{
    unsigned seed = seed_of(kind);
    char answer;
    if (kind == FIFO)
        open_fifo(other, O_WRONLY);
    else if (kind)
        keep_in_kernel(ends[kind]);
    for (int turn = 0; turn < TURNS; turn++) {
        int first = 1 + (rand_r(&seed) & 1);
        /* The event loop is asleep, about to sleep, or at work. */
        for (int i = rand_r(&seed) % 300; i > 0; i--)
            sched_yield();
        if (rand_r(&seed) % 4 == 0)
            usleep(rand_r(&seed) % 400);
        if (write(ends[first], "F", 1) != 1 || write(ends[3 - first], "S", 1) != 1
            || recv(ends[3], &answer, 1, 0) != 1)
            return 1;
    }
    return 0;
}

/* Reads what events tell, and counts the turns in which the second send was seen first. */
static void see(int kind, unsigned wanted)
{
    int late = 0, turns = 0;
    mesh(3);
    if (kind == FIFO)
        open_fifo(getpid(), O_RDWR | O_NONBLOCK);
    else if (kind)
        keep_in_kernel(ends[kind]);
    int set = epoll_create1(0);
    for (int i = 1; i <= 2; i++) {
        struct epoll_event one = { .events = EPOLLIN | wanted, .data.u32 = i };
        epoll_ctl(set, EPOLL_CTL_ADD, ends[i], &one);
    }
    far_part(PART_ORDER, kind);
    for (; turns < TURNS; turns++) {
        char seen[3] = "";
        for (int come = 0; come < 2;) {
            int count = epoll_wait(set, list, 64, 20000);
            if (count <= 0)
                quit("no event came");
            for (int at = 0; at < count && come < 2; at++) {
                int end = list[at].data.u32;
                come += kind == FIFO && end == 2 ? read(ends[2], seen + come, 1) == 1
                    : recv(ends[end], seen + come, 1, MSG_DONTWAIT) == 1;
            }
        }
        late += seen[0] == 'S';
        if (write(ends[3], "x", 1) != 1)
            quit("write");
    }
    say("%ld, ended after %d turns", far_ended(), turns);
    /* The kernel itself delivers a TCP segment late now and then. It also keeps a level-triggered
       socket in its list after the event, and may look at it before the one that came first. */
    if (late <= (is_unix && wanted ? 0 : TURNS / 100))
        late = 0;
    say("second before first: %d", late);
}

void two_order_level(void)
{
    see(0, 0);
}

void two_order_edge(void)
{
    see(0, EPOLLET);
}

void two_order_kernel(void)
{
    see(1, 0);
}

void two_order_kernel_edge(void)
{
    see(2, EPOLLET);
}

void two_order_fifo(void)
{
    see(FIFO, EPOLLET);
}
