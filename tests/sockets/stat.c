/* Two processes with one connection, which obey the files of a directory: for `m3 sock stat`.
 *
 *   stat tcp|unix DIRECTORY    `ready` names the listener; then the program waits for the files
 *                              `pour` (sends until it would block), `pin` (fdopen) and `end`
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TRIPS = 2000, BYTES = 100, STEP_US = 10000, STEPS = 6000 };

static const char *folder;

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

/* Another process may read the file as soon as it exists. */
static void say(const char *name, const char *text)
{
    char part[512];
    snprintf(part, sizeof part, "%s/part", folder);
    FILE *out = fopen(part, "w");
    if (!out || fputs(text, out) < 0 || fclose(out) || rename(part, file(name)))
        fail(name);
}

static void await(const char *name)
{
    for (int step = 0; access(file(name), F_OK); step++) {
        if (step > STEPS)
            fail(name);
        usleep(STEP_US);
    }
}

static void whole(int fd, int sends)
{
    char bytes[BYTES] = {0};
    for (size_t done = 0; done < BYTES;) {
        ssize_t got = sends ? write(fd, bytes + done, BYTES - done) : read(fd, bytes + done,
            BYTES - done);
        if (got <= 0)
            fail(sends ? "write" : "read");
        done += (size_t)got;
    }
}

/* Options that fail, or that set what is set: the connection must stay in its ring. */
static void set_nothing(int fd)
{
    int none = 12345, wrong = -1, off = 0;
    unsigned rate;
    socklen_t size = sizeof rate;
    if (!setsockopt(fd, SOL_SOCKET, none, &wrong, sizeof wrong) ||
        !setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPING, &wrong, sizeof wrong))
        fail("a wrong option is set");
    if (getsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &rate, &size) ||
        setsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &rate, size) ||
        setsockopt(fd, SOL_SOCKET, SO_TIMESTAMP, &off, sizeof off))
        fail("setsockopt");
}

int main(int count, char **words)
{
    if (count != 3)
        return 2;
    folder = words[2];
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
        int fd = socket(address->sa_family, SOCK_STREAM, 0);
        if (fd < 0 || connect(fd, address, is_unix ? sizeof name : size))
            fail("connect");
        for (int trip = 0; trip < TRIPS; trip++) {
            whole(fd, 1);
            whole(fd, 0);
            if (trip == 0)
                set_nothing(fd);
        }
        await("end");
        return 0;
    }
    int fd = accept(listener, NULL, NULL);
    if (fd < 0)
        fail("accept");
    for (int trip = 0; trip < TRIPS; trip++) {
        whole(fd, 0);
        if (trip == 0)
            set_nothing(fd);
        whole(fd, 1);
    }
    char where[128];
    snprintf(where, sizeof where, "%d\n", is_unix ? 0 : ntohs(host.sin_port));
    say("ready", where);

    static char much[1 << 20];
    await("pour");
    while (send(fd, much, sizeof much, MSG_DONTWAIT) > 0)
        ;
    if (errno != EAGAIN)
        fail("send");
    say("poured", "");
    await("pin");
    if (!fdopen(fd, "w"))
        fail("fdopen");
    say("pinned", "");
    await("end");
    if (waitpid(child, NULL, 0) != child)
        fail("waitpid");
    return 0;
}
