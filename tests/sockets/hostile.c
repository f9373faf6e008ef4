/* Cases: a peer that writes garbage into the memory of its connection, and a program without the
 * library. */
#include "sets.h"
#include <sys/mman.h>
#include <glob.h>
#include <time.h>

enum { GOOD = 4, TURNS = 250, PAGE_BYTES = 4096, RINGS = 128 * 1024, BITS_AT = 65536 };

/* The memory of this connection, in the file that its cookie names; null without the library. */
volatile unsigned long *page_of(int stream)
{
    unsigned long cookie = 0;
    socklen_t length = sizeof cookie;
    const char *home = getenv("M3_RUNTIME_DIR");
    char name[PATH_MAX];
    glob_t all;
    if (!getenv("M3_MATRIX_SHARED") || !home)
        return NULL;
    if (getsockopt(stream, SOL_SOCKET, SO_COOKIE, &cookie, &length) != 0)
        quit("no cookie");
    snprintf(name, sizeof name, "%s/sock-*/%016lx", home, cookie);
    if (glob(name, 0, NULL, &all) != 0)
        quit("this connection has no memory");
    int file = open(all.gl_pathv[0], O_RDWR);
    void *page = mmap(NULL, PAGE_BYTES + RINGS, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (page == MAP_FAILED)
        quit("the memory of this connection");
    close(file);
    return page;
}

/* A lock is given to a living thread now and then: the parent of all, with the time of now. */
unsigned long held_by_another(void)
{
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (unsigned long)getppid() << 42 | (unsigned long)(now.tv_sec * 100 +
        now.tv_nsec / 10000000);
}

static int is_lock(int word)
{
    int at = word * 8 - 512;
    return at >= 0 && (at % 512 == 40 || at % 512 == 152);
}

/* The good connections ask and check. The last one writes garbage anywhere in its own pair. */
long hostile(int seed)
{
    char word[40], back[16];
    unsigned next = seed;
    pid_t child = fork();
    if (child == 0) {
        volatile unsigned long *page = page_of(ends[GOOD + 1]);
        for (int i = 0; i < 20000; i++) {
            next = next * 1103515245 + 12345;
            if (i % 4 == 0 && send(ends[GOOD + 1], bytes, 1 + (next >> 8) % 100,
                MSG_DONTWAIT | MSG_NOSIGNAL) < 0 &&
                errno != EAGAIN && errno != EINTR)
                break;
            int at = 16 + (next >> 12) % (192 - 16);
            unsigned long values[4] = { next, -1ul, 1ul << (next >> 26), page
                ? page[at] + (next >> 28) - 8 : 0 };
            if (page)
                page[at] = is_lock(at) && (next >> 18 & 3) == 0 ? held_by_another()
                    : values[(next >> 20) & 3];
        }
        _exit(0);
    }
    long right = 0;
    for (int turn = 0; turn < TURNS; turn++)
        for (int i = 1; i <= GOOD; i++) {
            snprintf(word, sizeof word, "%03d of %03d......", turn, i);
            if (write(ends[i], word, 12) != 12 || recv(ends[i], back, 12, MSG_WAITALL) != 12)
                return -1;
            right += memcmp(word, back, 12) == 0;
        }
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    return right;
}

void two_hostile_scribbles(void)
{
    for (int try = 0; try < tries(2); try++) {
        mesh(GOOD + 1);
        int set = epoll_create1(0), left = GOOD * TURNS * 12;
        for (int i = 1; i <= GOOD + 1; i++) {
            struct epoll_event one = { .events = EPOLLIN, .data.u32 = i };
            epoll_ctl(set, EPOLL_CTL_ADD, ends[i], &one);
        }
        far_part(PART_HOSTILE, seed_of(try));
        while (left > 0) {
            int count = waited(set, list, 64);
            if (count < 1)
                quit("the good ones starve");
            for (int at = 0; at < count; at++) {
                int i = list[at].data.u32;
                long now = recv(ends[i], bytes, 100, MSG_DONTWAIT);
                if (i <= GOOD) {
                    if (now > 0 && write(ends[i], bytes, now) != now)
                        quit("a good one is gone");
                    left -= now > 0 ? now : 0;
                } else if (now == 0 || (now < 0 && errno != EAGAIN)) {
                    epoll_ctl(set, EPOLL_CTL_DEL, ends[i], NULL);
                }
            }
        }
        say("the good ones were right %ld times", far_ended());
        for (int i = 1; i <= GOOD + 1; i++)
            close(ends[i]);
        close(set);
    }
}

enum { CLEARED = 30 };

/* The bits of the watching side's event loops; null without the library. */
static char *poller_bits(int process)
{
    const char *home = getenv("M3_RUNTIME_DIR");
    char name[PATH_MAX];
    glob_t all;
    if (!getenv("M3_MATRIX_SHARED") || !home)
        return NULL;
    snprintf(name, sizeof name, "%s/sock-*/p%d", home, process);
    if (glob(name, 0, NULL, &all) != 0)
        return NULL;
    int file = open(all.gl_pathv[0], O_RDWR);
    void *bits = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, BITS_AT);
    if (bits == MAP_FAILED)
        quit("the bits of the event loops");
    close(file);
    return bits;
}

/* Writes on all streams, then clears the bits of all. */
long clears(int process)
{
    char *bits = poller_bits(process);
    for (int i = 1; i <= CLEARED; i++)
        if (write(ends[i], "lost", 4) != 4)
            return -1;
    if (bits)
        memset(bits, 0, PAGE_BYTES);
    return 0;
}

/* A sender clears the bits of an event loop. The loop reports the bytes of its other connections
 * all the same, before it sleeps for long. */
void two_hostile_clears(void)
{
    mesh(CLEARED);
    for (int edge = 0; edge < 2; edge++) {
        int set = epoll_create1(0), left;
        for (int i = 1; i <= CLEARED; i++) {
            struct epoll_event one = { .events = EPOLLIN | (edge ? EPOLLET : 0), .data.u32 = i };
            epoll_ctl(set, EPOLL_CTL_ADD, ends[i], &one);
        }
        for (int turn = 0; turn < 6; turn++) {
            if (turn < 5)
                for (int i = 1; i <= CLEARED; i++)
                    far_write(i, "warm");
            else
                far_part(PART_CLEAR, getpid());
            if (turn == 5 && far_ended() != 0)
                quit("the other side cannot write");
            for (left = CLEARED * 4; left > 0;) {
                int count = waited(set, list, 64);
                if (count < 1)
                    quit("bytes are never reported");
                for (int at = 0; at < count; at++) {
                    long now = recv(ends[list[at].data.u32], bytes, 100, MSG_DONTWAIT);
                    if (now < 0 && errno != EAGAIN)
                        quit("cannot receive");
                    left -= now > 0 ? now : 0;
                }
            }
        }
        WAIT(set, 0);
        close(set);
    }
    say("all bytes were reported");
}

/* A program without any library inherits a stream with bytes. It reads the bytes that were sent, or
 * finds an end, and never reads anything else. */
void two_hostile_static(void)
{
    const char *name = getenv("M3_MATRIX_STATIC");
    if (!name)
        leave_out("there is no static program");
    mesh(3);
    for (int i = 1; i <= 3; i++) {
        int outcome = 0, set = epoll_create1(0);
        watch(set, EPOLL_CTL_ADD, ends[i], EPOLLIN, i);
        far_write_here(i, "light");
        WAIT(set, 0);
        GET(read(ends[i], bytes, 100));
        /* Without bytes in the ring the stream goes on natively. */
        if (i > 1)
            far_write_here(i, "0123456789");
        if (i == 3)
            WAIT(set, 0);
        int gate[2];
        if (pipe2(gate, O_CLOEXEC) != 0)
            quit("pipe");
        pid_t child = fork();
        if (child == 0) {
            dup2(ends[i], 0);
            execl(name, name, NULL);
            _exit(127);
        }
        if (i == 1) {
            close(ends[i]);
            close(gate[1]);
            /* Waits until the new program runs. */
            read(gate[0], bytes, 1);
            far_write(i, "0123456789");
        }
        while (waitpid(child, &outcome, 0) < 0 && errno == EINTR)
            ;
        outcome = WEXITSTATUS(outcome);
        if (i == 1)
            say("it ended with %d", outcome);
        else
            say(outcome == 7 || outcome == 1 ? "it read what was sent, or an end"
                : "it ended with %d", outcome);
    }
}
