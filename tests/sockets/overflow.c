/* Two processes with one connection, on which one side sends to a receiver that is slow.
 *
 *   overflow tcp|unix overflows|fits|mixed|long DIRECTORY
 *
 * overflows   each message is larger than the ring
 * fits        each message fits the ring
 * mixed       many small messages before each large one
 * long        small messages alone
 *
 * The receiver checks each byte. The program writes the file `sent` and waits for the file `end`.
 */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LARGE = 200000, FITTING = 20000, SMALL = 100, SMALL_COUNT = 1000, ROUNDS = 40,
    LONG_COUNT = 3000 };
enum { SLOW_US = 5000, STEP_US = 10000, STEPS = 6000 };

static const char *folder;
static int fd;
/* The position in the stream, for the value of each byte. */
static unsigned long at;

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

static const char *file(const char *name)
{
    static char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void await(const char *name)
{
    for (int step = 0; access(file(name), F_OK); step++) {
        if (step > STEPS)
            fail(name);
        usleep(STEP_US);
    }
}

static char value(unsigned long position)
{
    return (char)(position * 31 + position / 251);
}

static void send_whole(size_t size)
{
    static char bytes[LARGE];
    for (size_t i = 0; i < size; i++)
        bytes[i] = value(at++);
    for (size_t done = 0; done < size;) {
        ssize_t sent = write(fd, bytes + done, size - done);
        if (sent <= 0)
            fail("write");
        done += (size_t)sent;
    }
}

static void receive_whole(size_t size)
{
    static char bytes[LARGE];
    for (size_t done = 0; done < size;) {
        ssize_t got = read(fd, bytes + done, size - done);
        if (got <= 0)
            fail("read");
        done += (size_t)got;
    }
    for (size_t i = 0; i < size; i++, at++)
        if (bytes[i] != value(at)) {
            fprintf(stderr, "byte %lu is not what was sent\n", at);
            exit(1);
        }
}

/* A message, and a byte as its answer: the sender finds the connection idle then. The receiver
 * waits before it reads a large message. */
static void trip(int sends, size_t size)
{
    char answer = 'a';
    if (sends) {
        send_whole(size);
        if (read(fd, &answer, 1) != 1)
            fail("answer");
    } else {
        if (size > SMALL)
            usleep(SLOW_US);
        receive_whole(size);
        if (write(fd, &answer, 1) != 1)
            fail("answer");
    }
}

static void talk(int sends, const char *pattern)
{
    int mixed = !strcmp(pattern, "mixed");
    size_t size = strcmp(pattern, "fits") ? LARGE : FITTING;
    int is_long = !strcmp(pattern, "long");
    for (int i = 0; i < (is_long ? LONG_COUNT : SMALL_COUNT); i++)
        trip(sends, SMALL);
    if (is_long)
        return;
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; mixed && i < SMALL_COUNT; i++)
            trip(sends, SMALL);
        trip(sends, size);
    }
}

int main(int count, char **words)
{
    if (count != 4)
        return 2;
    folder = words[3];
    int is_unix = !strcmp(words[1], "unix");
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    struct sockaddr_in host = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr *address = is_unix ? (struct sockaddr *)&name : (struct sockaddr *)&host;
    socklen_t size = is_unix ? sizeof name : sizeof host;
    snprintf(name.sun_path, sizeof name.sun_path, "%s/socket", folder);

    int listener = socket(address->sa_family, SOCK_STREAM, 0);
    if (listener < 0 || bind(listener, address, size) || listen(listener, 1) ||
        getsockname(listener, address, &size))
        fail("listen");
    pid_t child = fork();
    if (child < 0)
        fail("fork");
    if (child == 0) {
        fd = socket(address->sa_family, SOCK_STREAM, 0);
        if (fd < 0 || connect(fd, address, is_unix ? sizeof name : size))
            fail("connect");
        talk(0, words[2]);
        await("end");
        return 0;
    }
    fd = accept(listener, NULL, NULL);
    if (fd < 0)
        fail("accept");
    talk(1, words[2]);
    /* The program never set the option, and finds it as it was. */
    int nodelay = 0;
    socklen_t length = sizeof nodelay;
    if (!is_unix && (getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &nodelay, &length) || nodelay)) {
        fprintf(stderr, "TCP_NODELAY is %d\n", nodelay);
        return 1;
    }
    FILE *sent = fopen(file("sent"), "w");
    if (!sent || fclose(sent))
        fail("sent");
    int status;
    await("end");
    if (waitpid(child, &status, 0) != child || status)
        fail("the receiver");
    return 0;
}
