/*
 * Many connections between two processes: requests and answers on each in turn, the server in
 * epoll.
 *
 *   crowd tcp|unix COUNT
 *
 * Under `m3 sock run --counters` the last line is the share of the bytes that went through rings,
 * in a hundredth of a percent, after a few trips on each connection; and the shared memory of each.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BYTES = 48, WARM_LAPS = 16, LAPS = 4 };
/* Rows of counters in a file: the first one, and 15 more, of 128 bytes each. */
enum { COUNTS_AT = 520, ROWS_AT = 896, ROW = 128, ROWS = 15 };

static struct sockaddr_storage address;
static socklen_t length = sizeof address;

static void quit(const char *what)
{
    perror(what);
    exit(3);
}

static int listener(int is_tcp)
{
    int fd = socket(is_tcp ? AF_INET : AF_UNIX, SOCK_STREAM, 0);
    struct sockaddr_in tcp = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    struct sockaddr_un local = { .sun_family = AF_UNIX };
    struct sockaddr *at = is_tcp ? (struct sockaddr *)&tcp : (struct sockaddr *)&local;
    /* A Unix socket without a name gets an abstract one. */
    if (bind(fd, at, is_tcp ? sizeof tcp : sizeof local.sun_family) != 0 || listen(fd, 4096) != 0)
        quit("listen");
    getsockname(fd, (struct sockaddr *)&address, &length);
    return fd;
}

static void serve(int from, int count)
{
    static char bytes[1 << 16];
    int set = epoll_create1(0);
    for (int i = 0; i < count; i++) {
        struct epoll_event one = { .events = EPOLLIN, .data.fd = accept(from, NULL, NULL) };
        if (one.data.fd < 0 || fcntl(one.data.fd, F_SETFL, O_NONBLOCK) != 0 ||
            epoll_ctl(set, EPOLL_CTL_ADD, one.data.fd, &one) != 0)
            quit("accept");
    }
    while (count > 0) {
        struct epoll_event some[64];
        int ready = epoll_wait(set, some, 64, -1);
        for (int at = 0; at < ready; at++) {
            int fd = some[at].data.fd;
            long now = read(fd, bytes, sizeof bytes);
            if (now < 0 && errno == EAGAIN)
                continue;
            if (now <= 0) {
                close(fd);
                count--;
            } else if (write(fd, bytes, now) != now) {
                quit("answer");
            }
        }
    }
}

static void trip(int fd, int number)
{
    char ask[BYTES], answer[BYTES];
    memset(ask, number, BYTES);
    if (write(fd, ask, BYTES) != BYTES)
        quit("ask");
    for (long have = 0, now; have < BYTES; have += now)
        if ((now = read(fd, answer + have, BYTES - have)) <= 0)
            quit("the answer");
    if (memcmp(ask, answer, BYTES) != 0) {
        fprintf(stderr, "another answer than was asked for\n");
        exit(1);
    }
}

/* Bytes through rings, and through the kernel. */
static void counted(unsigned long counts[2])
{
    const char *name = getenv("M3_MATRIX_COUNTS");
    int file = name ? open(name, O_RDONLY) : -1;
    if (file >= 0 && pread(file, counts, 16, COUNTS_AT) != 16)
        quit("the counters");
    for (int row = 0; file >= 0 && row < ROWS; row++) {
        unsigned long more[2];
        if (pread(file, more, 16, ROWS_AT + row * ROW) != 16)
            quit("the counters");
        counts[0] += more[0];
        counts[1] += more[1];
    }
    close(file);
}

/* The shared memory of all connections, in KiB. */
static long memory(void)
{
    const char *home = getenv("M3_RUNTIME_DIR");
    char name[4096];
    struct stat one;
    glob_t all = { 0 };
    long blocks = 0;
    snprintf(name, sizeof name, "%s/sock-*/????????????????", home ? home : "");
    glob(name, 0, NULL, &all);
    for (size_t at = 0; at < all.gl_pathc; at++)
        if (stat(all.gl_pathv[at], &one) == 0)
            blocks += one.st_blocks / one.st_nlink;
    globfree(&all);
    return blocks / 2;
}

int main(int argc, char **argv)
{
    struct rlimit files;
    if (argc != 3)
        return 2;
    int count = atoi(argv[2]), outcome;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    if (files.rlim_cur < (rlim_t)count + 32) {
        fprintf(stderr, "a process may have %lu descriptors\n", (unsigned long)files.rlim_cur);
        return 77;
    }
    int *fds = calloc(count, sizeof *fds), from = listener(strcmp(argv[1], "tcp") == 0);
    pid_t server = fork();
    if (server == 0) {
        serve(from, count);
        _exit(0);
    }
    close(from);
    for (int i = 0; i < count; i++) {
        fds[i] = socket(address.ss_family, SOCK_STREAM, 0);
        if (connect(fds[i], (struct sockaddr *)&address, length) != 0)
            quit("connect");
    }
    unsigned long before[2] = { 0 }, after[2] = { 0 };
    for (int lap = 0; lap < WARM_LAPS + LAPS; lap++) {
        if (lap == WARM_LAPS)
            counted(before);
        for (int i = 0; i < count; i++)
            trip(fds[i], lap + i);
    }
    counted(after);
    unsigned long ring = after[0] - before[0], all = ring + after[1] - before[1];
    long kilobytes = memory();
    for (int i = 0; i < count; i++)
        close(fds[i]);
    waitpid(server, &outcome, 0);
    if (after[0] > 0)
        printf("%lu %ld\n", all ? ring * 10000 / all : 0, kilobytes / count);
    return WEXITSTATUS(outcome);
}
