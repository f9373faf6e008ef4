/*
 * Sockets that a program without the library inherits:
 *
 *   inherit tcp|unix passes|leaks|full
 *
 * Two processes exchange messages until bytes go through rings. Then one of them passes its socket
 * on to a program that moves the bytes by itself, or starts programs that inherit it by oversight
 * while bytes wait. With `full` both have no free descriptor. Writes the same natively and under
 * the library.
 */
#define _GNU_SOURCE
#include <netinet/in.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TRIPS = 40, BYTES = 100, LOAD = 1000000, PARTS = 20, NUMBER = 9 };

static char bytes[LOAD], back[LOAD];
static int go[2], is_full;

static void quit(const char *what)
{
    perror(what);
    _exit(3);
}

static void send_all(int fd, const char *from, long count)
{
    for (long sent = 0, now; sent < count; sent += now)
        if ((now = write(fd, from + sent, count - sent)) <= 0)
            quit("write");
}

/* The bytes up to `count`, or up to an end. */
static long receive_all(int fd, char *to, long count)
{
    long come = 0, now;
    while (come < count && (now = read(fd, to + come, count - come)) != 0) {
        if (now < 0) {
            perror("read");
            break;
        }
        come += now;
    }
    return come;
}

static void ends_of(pid_t child)
{
    int status;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
        quit("a child");
}

static void allow(void) { send_all(go[1], "x", 1); }
static void await(void) { receive_all(go[0], back, 1); }

/* The program that gets the socket reads and writes it past any library. */
static void pass_on(int fd)
{
    if (dup2(fd, NUMBER) != NUMBER)
        quit("dup2");
    allow();
    pid_t child = fork();
    if (child == 0) {
        execl("/bin/sh", "sh", "-c", "exec cat <&9 >&9", NULL);
        _exit(3);
    }
    close(fd);
    close(NUMBER);
    ends_of(child);
}

/* Programs inherit the socket by each way of a start, and nobody there uses it. */
static void leak(int fd)
{
    extern char **environ;
    char *words[] = { "true", NULL };
    int waiting = 0;
    pid_t child;
    allow();
    while (waiting < PARTS * BYTES)
        if (ioctl(fd, FIONREAD, &waiting) != 0)
            quit("ioctl");
    if (system("true") != 0 || pclose(popen("true", "r")) != 0)
        quit("the shell");
    if (posix_spawnp(&child, "true", NULL, NULL, words, environ) != 0)
        quit("posix_spawnp");
    ends_of(child);
    if ((child = vfork()) == 0) {
        execvp("true", words);
        _exit(3);
    }
    ends_of(child);
    if ((child = fork()) == 0) {
        execvp("true", words);
        _exit(3);
    }
    ends_of(child);
    long come = receive_all(fd, back, PARTS * BYTES);
    printf("%ld bytes, %s\n", come, memcmp(back, bytes, come) == 0 ? "equal" : "not equal");
    fflush(stdout);
    send_all(fd, "answered", 8);
}

/* No call finds a free descriptor from now on. */
static void fill(void)
{
    struct rlimit limit;
    int last = 0;
    while (last < 100)
        if ((last = dup(0)) < 0)
            quit("dup");
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        quit("getrlimit");
    limit.rlim_cur = last + 1;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0 || dup(0) >= 0)
        quit("setrlimit");
}

static void serve(int from, int passes)
{
    int fd = accept4(from, NULL, NULL, passes ? SOCK_CLOEXEC : 0);
    close(from);
    if (is_full)
        fill();
    for (int i = 0; i < TRIPS; i++) {
        receive_all(fd, back, BYTES);
        send_all(fd, back, BYTES);
    }
    if (passes)
        pass_on(fd);
    else if (!is_full)
        leak(fd);
    _exit(0);
}

int main(int count, char **words)
{
    int is_tcp = count == 3 && strcmp(words[1], "tcp") == 0;
    int passes = count == 3 && strcmp(words[2], "passes") == 0;
    is_full = count == 3 && strcmp(words[2], "full") == 0;
    struct sockaddr_storage address = { .ss_family = is_tcp ? AF_INET : AF_UNIX };
    socklen_t length = is_tcp ? sizeof(struct sockaddr_in) : sizeof(sa_family_t);
    int from = socket(address.ss_family, SOCK_STREAM, 0);
    if (is_tcp)
        ((struct sockaddr_in *)&address)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (count != 3 || pipe(go) != 0 || bind(from, (struct sockaddr *)&address, length) != 0
        || listen(from, 1) != 0)
        quit("listen");
    length = sizeof address;
    getsockname(from, (struct sockaddr *)&address, &length);
    for (int i = 0; i < LOAD; i++)
        bytes[i] = (char)(i * 7 + i / 251);
    pid_t other = fork();
    if (other == 0)
        serve(from, passes);
    close(from);
    int fd = socket(address.ss_family, SOCK_STREAM, 0);
    if (connect(fd, (struct sockaddr *)&address, length) != 0)
        quit("connect");
    if (is_full)
        fill();
    for (int i = 0; i < TRIPS; i++) {
        send_all(fd, bytes, BYTES);
        receive_all(fd, back, BYTES);
    }
    if (is_full) {
        puts("all trips");
        ends_of(other);
        return 0;
    }
    await();
    if (passes) {
        pid_t sender = fork();
        if (sender == 0) {
            send_all(fd, bytes, LOAD);
            shutdown(fd, SHUT_WR);
            _exit(0);
        }
        long come = receive_all(fd, back, LOAD);
        int is_equal = memcmp(back, bytes, come) == 0;
        printf("%ld bytes, %s, then %ld\n", come, is_equal ? "equal" : "not equal",
            receive_all(fd, back, 1));
        ends_of(sender);
    } else {
        for (int i = 0; i < PARTS; i++)
            send_all(fd, bytes + i * BYTES, BYTES);
        printf("%.8s\n", receive_all(fd, back, 8) == 8 ? back : "nothing.");
    }
    ends_of(other);
    return 0;
}
