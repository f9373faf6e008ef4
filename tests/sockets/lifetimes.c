/*
 * The ends of connections, for the memory that they leave: lifetimes tcp|unix NAME
 *
 * Two processes exchange messages until bytes go through rings. Then they end as the name says.
 * `run.sh` checks that no file of a pair is left.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TRIPS = 20, BYTES = 300 };

static const char *self;
static char bytes[BYTES];

static void quit(const char *what)
{
    perror(what);
    exit(3);
}

static void send_all(int fd)
{
    if (write(fd, bytes, BYTES) != BYTES)
        quit("write");
}

static void receive_all(int fd)
{
    for (long have = 0, now; have < BYTES; have += now)
        if ((now = read(fd, bytes, BYTES - have)) <= 0)
            quit("read");
}

static void trips(int fd, int asks)
{
    for (int i = 0; i < TRIPS; i++) {
        if (asks)
            send_all(fd);
        receive_all(fd);
        if (!asks)
            send_all(fd);
    }
}

/* Two connected sockets, by a listener, so that TCP and Unix sockets are alike. */
static void connect_both(int is_tcp, int fds[2])
{
    struct sockaddr_storage address = { .ss_family = is_tcp ? AF_INET : AF_UNIX };
    socklen_t length = is_tcp ? sizeof(struct sockaddr_in) : sizeof(sa_family_t);
    int from = socket(address.ss_family, SOCK_STREAM, 0);
    if (is_tcp)
        ((struct sockaddr_in *)&address)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind(from, (struct sockaddr *)&address, length) != 0 || listen(from, 1) != 0)
        quit("listen");
    length = sizeof address;
    getsockname(from, (struct sockaddr *)&address, &length);
    fds[0] = socket(address.ss_family, SOCK_STREAM, 0);
    if (connect(fds[0], (struct sockaddr *)&address, length) != 0)
        quit("connect");
    fds[1] = accept(from, NULL, NULL);
    close(from);
}

static void wait_for_end(int fd)
{
    while (read(fd, bytes, BYTES) > 0)
        ;
}

/* Another program with the library has the end. */
static void execute(int fd, const char *what)
{
    char number[12];
    snprintf(number, sizeof number, "%d", fd);
    execl(self, self, "after", what, number, NULL);
    quit("exec");
}

static int is(const char *name, const char *other)
{
    return strcmp(name, other) == 0;
}

static void client(int fd, const char *name)
{
    trips(fd, 1);
    if (is(name, "killed_client"))
        raise(SIGKILL);
    if (is(name, "exits"))
        exit(0);
    if (is(name, "executes"))
        execute(fd, "trip");
    if (is(name, "executes_with_bytes")) {
        send_all(fd);
        sleep(1);
        execute(fd, "rest");
    }
    if (is(name, "forks")) {
        pid_t child = fork();
        if (child == 0) {
            send_all(fd);
            receive_all(fd);
            close(fd);
            _exit(0);
        }
        close(fd);
        waitpid(child, NULL, 0);
        return;
    }
    if (is(name, "passes")) {
        int way[2];
        char room[CMSG_SPACE(sizeof(int))] = { 0 }, byte = 0;
        struct iovec run = { &byte, 1 };
        struct msghdr message = { .msg_iov = &run, .msg_iovlen = 1, .msg_control = room,
            .msg_controllen = sizeof room };
        socketpair(AF_UNIX, SOCK_DGRAM, 0, way);
        pid_t child = fork();
        if (child == 0) {
            close(fd);
            if (recvmsg(way[1], &message, 0) != 1)
                quit("recvmsg");
            memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
            send_all(fd);
            receive_all(fd);
            close(fd);
            _exit(0);
        }
        struct cmsghdr *head = CMSG_FIRSTHDR(&message);
        *head = (struct cmsghdr){ .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS,
            .cmsg_len = CMSG_LEN(sizeof fd) };
        memcpy(CMSG_DATA(head), &fd, sizeof fd);
        if (sendmsg(way[0], &message, 0) != 1)
            quit("sendmsg");
        close(fd);
        waitpid(child, NULL, 0);
        return;
    }
    if (is(name, "killed_server") || is(name, "exited_server"))
        wait_for_end(fd);
    close(fd);
}

static void server(int fd, const char *name)
{
    trips(fd, 0);
    if (is(name, "killed_server"))
        raise(SIGKILL);
    if (is(name, "exited_server"))
        exit(0);
    if (is(name, "killed_both")) {
        kill(getppid(), SIGKILL);
        raise(SIGKILL);
    }
    if (is(name, "executes") || is(name, "executes_with_bytes") || is(name, "forks") ||
        is(name, "passes")) {
        receive_all(fd);
        send_all(fd);
    }
    wait_for_end(fd);
    close(fd);
}

int main(int argc, char **argv)
{
    int fds[2], outcome;
    if (argc == 4 && is(argv[1], "after")) {
        int fd = atoi(argv[3]);
        if (is(argv[2], "trip"))
            send_all(fd);
        receive_all(fd);
        close(fd);
        return 0;
    }
    if (argc != 3)
        return 2;
    self = argv[0];
    signal(SIGPIPE, SIG_IGN);
    connect_both(is(argv[1], "tcp"), fds);
    pid_t child = fork();
    if (child == 0) {
        close(fds[0]);
        server(fds[1], argv[2]);
        return 0;
    }
    close(fds[1]);
    if (is(argv[2], "killed_both")) {
        trips(fds[0], 1);
        pause();
    }
    /* The client is a process of its own: this one sees the end of both. It closes its descriptor
       before the client begins, as a process without traffic removes no memory. */
    int closed[2];
    char byte;
    if (pipe(closed) != 0)
        quit("pipe");
    pid_t other = fork();
    if (other == 0) {
        close(closed[1]);
        if (read(closed[0], &byte, 1) != 0)
            quit("read");
        close(closed[0]);
        client(fds[0], argv[2]);
        return 0;
    }
    close(fds[0]);
    close(closed[0]);
    close(closed[1]);
    waitpid(other, &outcome, 0);
    waitpid(child, &outcome, 0);
    return 0;
}
