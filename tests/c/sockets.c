/*
 * The same program over the sockets of the kernel (AF_INET on this host) and, with -DCOM, over
 * com-sockets. It prints one line for the result of each call, and run.sh compares the two outputs.
 * Where com-sockets differ on purpose, each build checks its own value and the line says so.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <unistd.h>

#ifdef COM
#include <m3ipc.h>
#include <m3ipc/sock.h>
#define CALL(name) m3_##name
#define PICK(kernel, com) (com)
#else
#define CALL(name) name
#define PICK(kernel, com) (kernel)
#endif

static char bytes[1 << 20];
static int failed;

/* Prints a result: the number, or the name of errno if it is -1. */
static long say(const char *what, long result)
{
    if (result < 0)
        printf("%s: %s\n", what, strerrorname_np(errno));
    else
        printf("%s: %ld\n", what, result);
    return result;
}

/* Checks a result that differs on purpose: the value of each build, and the reason. */
static void differs(const char *what, long result, long kernel, long com, const char *why)
{
    long got = result < 0 ? -errno : result;
    if (got != PICK(kernel, com)) {
        printf("%s: %ld in this build, against the expected value (%s)\n", what, got,
               PICK("kernel", "com"));
        failed = 1;
    } else {
        printf("%s: kernel %ld, com-socket %ld: %s\n", what, kernel, com, why);
    }
}

static void events(const char *what, int fd)
{
    struct pollfd one = { fd, POLLIN | POLLOUT | POLLRDHUP, 0 };
    poll(&one, 1, 0);
    printf("%s:%s%s%s%s%s\n", what, one.revents & POLLIN ? " in" : "",
           one.revents & POLLOUT ? " out" : "", one.revents & POLLRDHUP ? " rdhup" : "",
           one.revents & POLLHUP ? " hup" : "", one.revents & POLLERR ? " err" : "");
}

static struct sockaddr_in here(int port)
{
    struct sockaddr_in name = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
    return name;
}

static int port_of(int fd)
{
    struct sockaddr_in name;
    socklen_t length = sizeof name;
    if (CALL(getsockname)(fd, (struct sockaddr *)&name, &length) < 0)
        return 0;
    return ntohs(name.sin_port);
}

static int bind_at(int fd, int port)
{
    struct sockaddr_in name = here(port);
    return CALL(bind)(fd, (struct sockaddr *)&name, sizeof name);
}

static int connect_at(int fd, int port)
{
    struct sockaddr_in name = here(port);
    return CALL(connect)(fd, (struct sockaddr *)&name, sizeof name);
}

/* Makes a connection within this process. */
static void both(int end[2])
{
    int listener = CALL(socket)(AF_INET, SOCK_STREAM, 0);
    bind_at(listener, 0);
    CALL(listen)(listener, 4);
    end[0] = CALL(socket)(AF_INET, SOCK_STREAM, 0);
    connect_at(end[0], port_of(listener));
    end[1] = CALL(accept)(listener, NULL, NULL);
    CALL(close)(listener);
}

/* TCP delivers sent bytes later: waits until count bytes, or the end of the stream, are there. */
static void arrive(int fd, int count)
{
    struct pollfd one = { fd, POLLIN | POLLRDHUP, 0 };
    int there = 0;
    for (int i = 0; i < 5000 && there < count; i++) {
        poll(&one, 1, 10);
        if (CALL(ioctl)(fd, FIONREAD, &there) < 0 || (one.revents & (POLLRDHUP | POLLHUP)))
            break;
    }
}

static void making(void)
{
    puts("-- making");
    int fd;
    say("socket of an unknown family", CALL(socket)(AF_APPLETALK, SOCK_STREAM, 0) < 0 ? -1 : 0);
    say("socket of the wrong protocol", CALL(socket)(AF_INET, SOCK_STREAM, IPPROTO_UDP));
    say("socket", (fd = CALL(socket)(AF_INET, SOCK_STREAM, 0)) < 0 ? -1 : 0);
    say("accept before listen", CALL(accept)(fd, NULL, NULL));
    say("getpeername without a peer",
        CALL(getpeername)(fd, (struct sockaddr *)bytes, &(socklen_t){ 16 }));
    int none = CALL(socket)(AF_INET, SOCK_STREAM, 0);
    say("shutdown without a connection", CALL(shutdown)(none, SHUT_RDWR));
    CALL(close)(none);
    say("send without a connection", CALL(send)(fd, "x", 1, MSG_NOSIGNAL));
    say("recv without a connection", CALL(recv)(fd, bytes, 1, 0));
    say("bind to a short address", CALL(bind)(fd, (struct sockaddr *)bytes, 3));
    struct sockaddr_in name = here(0);
    name.sin_family = AF_UNIX;
    say("bind to another family", CALL(bind)(fd, (struct sockaddr *)&name, sizeof name));
    name = here(0);
    name.sin_addr.s_addr = htonl(0x01020304);
    say("bind to a foreign address", CALL(bind)(fd, (struct sockaddr *)&name, sizeof name));
    say("bind", bind_at(fd, 0));
    say("bind again", bind_at(fd, 0));
    int other = CALL(socket)(AF_INET, SOCK_STREAM, 0);
    say("bind to a port in use", bind_at(other, port_of(fd)));
    say("connect to a port that is only bound", connect_at(other, port_of(fd)));
    say("listen", CALL(listen)(fd, 2));
    say("listen again", CALL(listen)(fd, 3));
    events("a listener", fd);
    CALL(fcntl)(fd, F_SETFL, O_NONBLOCK);
    say("accept without a connection", CALL(accept)(fd, NULL, NULL));
    say("connect", connect_at(other, port_of(fd)));
    events("a listener with a connection", fd);
    say("connect again", connect_at(other, port_of(fd)));
    socklen_t length = sizeof name;
    int taken = CALL(accept4)(fd, (struct sockaddr *)&name, &length, SOCK_NONBLOCK);
    say("accept4", taken < 0 ? -1 : (long)length);
    say("the peer is the connecting socket", ntohs(name.sin_port) == port_of(other));
    say("its flags", CALL(fcntl)(taken, F_GETFL, 0) & O_NONBLOCK ? 1 : 0);
    say("recv without bytes", CALL(recv)(taken, bytes, 1, 0));
    say("listen of a connection", CALL(listen)(taken, 1));
    say("accept of a connection", CALL(accept)(taken, NULL, NULL));
    int value = 0;
    length = sizeof value;
    CALL(getsockopt)(fd, SOL_SOCKET, SO_ACCEPTCONN, &value, &length);
    say("SO_ACCEPTCONN", value);
    CALL(getsockopt)(taken, SOL_SOCKET, SO_TYPE, &value, &length);
    say("SO_TYPE", value);
    say("SO_ERROR",
        CALL(getsockopt)(taken, SOL_SOCKET, SO_ERROR, &value, &length) < 0 ? -1 : value);
    value = 1;
    say("TCP_NODELAY", CALL(setsockopt)(taken, IPPROTO_TCP, TCP_NODELAY, &value, sizeof value));
    value = 0;
    CALL(getsockopt)(taken, IPPROTO_TCP, TCP_NODELAY, &value, &length);
    say("TCP_NODELAY is", value);
    say("an option of an unknown level",
        CALL(setsockopt)(taken, 4711, 1, &value, sizeof value) < 0 ? -1 : 0);
    CALL(close)(fd), CALL(close)(other), CALL(close)(taken);
    say("close again", CALL(close)(taken));
    say("send when closed", CALL(send)(taken, "x", 1, MSG_NOSIGNAL));
    say("a file is no socket", CALL(send)(1, "x", 1, MSG_NOSIGNAL));
}

static void talking(void)
{
    puts("-- talking");
    int end[2];
    both(end);
    events("idle", end[0]);
    say("send", CALL(send)(end[0], "hello", 5, 0));
    arrive(end[1], 5);
    events("with bytes", end[1]);
    int there = 0;
    CALL(ioctl)(end[1], FIONREAD, &there);
    say("FIONREAD", there);
    say("peek", CALL(recv)(end[1], bytes, 3, MSG_PEEK));
    say("recv of some", CALL(recv)(end[1], bytes, 2, 0));
    say("recv of the rest", CALL(recv)(end[1], bytes, 100, 0));
    printf("it is %.3s\n", bytes);
    events("after recv", end[1]);
    say("recv, not waiting", CALL(recv)(end[1], bytes, 100, MSG_DONTWAIT));
    say("peek, not waiting", CALL(recv)(end[1], bytes, 100, MSG_DONTWAIT | MSG_PEEK));
    say("send of 0 bytes", CALL(send)(end[0], "", 0, 0));
    differs("recv into nothing", CALL(recv)(end[1], bytes, 0, MSG_DONTWAIT), -EAGAIN, 0,
            "the program asked for no bytes");
    say("send from a bad address", CALL(send)(end[0], (void *)8, 5, 0));
    CALL(send)(end[0], "abc", 3, 0);
    CALL(send)(end[0], "defg", 4, 0);
    say("recv with MSG_WAITALL", CALL(recv)(end[1], bytes, 7, MSG_WAITALL));
    struct iovec out[3] = { { "one", 3 }, { "", 0 }, { "three", 5 } };
    struct msghdr message = { .msg_iov = out, .msg_iovlen = 3 };
    say("sendmsg of three", CALL(sendmsg)(end[0], &message, 0));
    arrive(end[1], 8);
    struct iovec in[2] = { { bytes, 2 }, { bytes + 2, 100 } };
    message = (struct msghdr){ .msg_iov = in, .msg_iovlen = 2 };
    say("recvmsg into two", CALL(recvmsg)(end[1], &message, 0));
    printf("it is %.8s, flags %d\n", bytes, message.msg_flags);
    CALL(write)(end[0], "w", 1);
    say("read", CALL(read)(end[1], bytes, 10));
    struct timeval soon = { 0, 20000 };
    say("SO_RCVTIMEO", CALL(setsockopt)(end[1], SOL_SOCKET, SO_RCVTIMEO, &soon, sizeof soon));
    say("recv with a limit", CALL(recv)(end[1], bytes, 1, 0));
    say("out-of-band recv", CALL(recv)(end[1], bytes, 1, MSG_OOB | MSG_DONTWAIT));
    CALL(close)(end[0]), CALL(close)(end[1]);
}

static volatile sig_atomic_t pipes;
static void piped(int number) { (void)number; pipes++; }

static void ending(void)
{
    puts("-- ending");
    int end[2];
    both(end);
    CALL(send)(end[0], "last", 4, 0);
    say("shutdown of sending", CALL(shutdown)(end[0], SHUT_WR));
    say("send after it", CALL(send)(end[0], "x", 1, MSG_NOSIGNAL));
    arrive(end[1], 5);
    events("the other side", end[1]);
    say("recv", CALL(recv)(end[1], bytes, 100, 0));
    say("recv of the end", CALL(recv)(end[1], bytes, 100, 0));
    say("recv of the end again", CALL(recv)(end[1], bytes, 100, 0));
    say("send the other way", CALL(send)(end[1], "still", 5, 0));
    say("recv the other way", CALL(recv)(end[0], bytes, 100, 0));
    say("shutdown how", CALL(shutdown)(end[1], 7));
    CALL(close)(end[1]);
    arrive(end[0], 1);
    say("recv when closed", CALL(recv)(end[0], bytes, 1, 0));
    events("both ended", end[0]);
    signal(SIGPIPE, piped);
    say("send after both ends", CALL(send)(end[0], "x", 1, 0));
    say("SIGPIPE", pipes);
    CALL(close)(end[0]);

    both(end);
    CALL(send)(end[1], "for you", 7, 0);
    CALL(send)(end[0], "never read", 10, 0);
    arrive(end[1], 10);
    arrive(end[0], 7);
    CALL(close)(end[1]);
    arrive(end[0], 100);
    say("recv before the reset", CALL(recv)(end[0], bytes, 100, 0));
    say("recv of the reset", CALL(recv)(end[0], bytes, 100, 0));
    say("recv after the reset", CALL(recv)(end[0], bytes, 100, 0));
    say("send after the reset", CALL(send)(end[0], "x", 1, MSG_NOSIGNAL));
    CALL(close)(end[0]);

    both(end);
    CALL(close)(end[1]);
    arrive(end[0], 1);
    differs("send after the other closed", CALL(send)(end[0], "x", 1, MSG_NOSIGNAL), 1, -EPIPE,
            "a stream without a peer takes no bytes, as a Unix socket");
    CALL(close)(end[0]);
}

static void *drain(void *fd)
{
    long all = 0, got;
    while ((got = CALL(recv)(*(int *)fd, malloc(70000), 70000, 0)) > 0)
        all += got;
    return (void *)all;
}

static void filling(void)
{
    puts("-- filling");
    int end[2];
    both(end);
    CALL(fcntl)(end[0], F_SETFL, O_NONBLOCK);
    long sent = 0, count;
    while ((count = CALL(send)(end[0], bytes, 50000, 0)) > 0)
        sent += count;
    say("send to a full stream", count);
    events("full", end[0]);
    pthread_t reader;
    pthread_create(&reader, NULL, drain, &end[1]);
    struct pollfd one = { end[0], POLLOUT, 0 };
    say("the stream becomes writable", poll(&one, 1, 20000));
    CALL(fcntl)(end[0], F_SETFL, 0);
    say("send that waits", CALL(send)(end[0], bytes, sizeof bytes, 0));
    CALL(shutdown)(end[0], SHUT_WR);
    void *all;
    pthread_join(reader, &all);
    say("all of it arrived", (long)all == sent + (long)sizeof bytes);
    CALL(close)(end[0]), CALL(close)(end[1]);
}

static void edges(void)
{
    puts("-- edges");
    int end[2], set = epoll_create1(0);
    both(end);
    CALL(fcntl)(end[1], F_SETFL, O_NONBLOCK);
    struct epoll_event event = { .events = EPOLLIN | EPOLLET }, got;
    epoll_ctl(set, EPOLL_CTL_ADD, end[1], &event);
    say("no edge", epoll_wait(set, &got, 1, 0));
    CALL(send)(end[0], "abcd", 4, 0);
    say("an edge", epoll_wait(set, &got, 1, 20000));
    CALL(recv)(end[1], bytes, 1, 0);
    say("no edge for the rest", epoll_wait(set, &got, 1, 0));
    CALL(send)(end[0], "e", 1, 0);
    say("an edge for the next bytes", epoll_wait(set, &got, 1, 20000));
    arrive(end[1], 4);
    say("recv of all bytes", CALL(recv)(end[1], bytes, 100, 0));
    event.events = EPOLLIN | EPOLLONESHOT;
    epoll_ctl(set, EPOLL_CTL_MOD, end[1], &event);
    CALL(send)(end[0], "f", 1, 0);
    say("one-shot event", epoll_wait(set, &got, 1, 20000));
    CALL(send)(end[0], "g", 1, 0);
    arrive(end[1], 2);
    say("no second one-shot event", epoll_wait(set, &got, 1, 0));
    close(set), CALL(close)(end[0]), CALL(close)(end[1]);
}

/* Waits in a set, and prints how many events came and those of the first one. */
static void loops(const char *what, int set, int limit)
{
    struct epoll_event got = { 0 };
    long count = CALL(epoll_wait)(set, &got, 1, limit);
    printf("%s: %ld%s%s, data %d\n", what, count < 0 ? -(long)errno : count,
           got.events & EPOLLIN ? " in" : "", got.events & EPOLLOUT ? " out" : "",
           count > 0 ? got.data.fd : 0);
}

static void sets(void)
{
    puts("-- sets");
    int end[2], set = CALL(epoll_create1)(EPOLL_CLOEXEC), line[2];
    both(end);
    CALL(fcntl)(end[1], F_SETFL, O_NONBLOCK);
    struct epoll_event event = { .events = EPOLLIN, .data.fd = 7 };
    say("add", CALL(epoll_ctl)(set, EPOLL_CTL_ADD, end[1], &event));
    say("add again", CALL(epoll_ctl)(set, EPOLL_CTL_ADD, end[1], &event));
    loops("nothing", set, 0);
    for (int i = 0; i < 3; i++) {
        CALL(send)(end[0], "abcd", 4, 0);
        loops("bytes", set, 20000);
        say("recv", CALL(recv)(end[1], bytes, 1, 0));
        loops("the rest", set, 0);
        say("recv", CALL(recv)(end[1], bytes, 100, 0));
        say("recv of nothing", CALL(recv)(end[1], bytes, 100, 0));
        loops("no bytes", set, 0);
    }
    event.events = EPOLLOUT, event.data.fd = 8;
    say("modify", CALL(epoll_ctl)(set, EPOLL_CTL_MOD, end[1], &event));
    loops("room", set, 0);
    event.events = EPOLLIN | EPOLLET;
    say("modify", CALL(epoll_ctl)(set, EPOLL_CTL_MOD, end[1], &event));
    CALL(send)(end[0], "e", 1, 0);
    loops("an edge", set, 20000);
    loops("no edge", set, 0);
    say("recv", CALL(recv)(end[1], bytes, 100, 0));
    say("remove", CALL(epoll_ctl)(set, EPOLL_CTL_DEL, end[1], &event));
    say("remove again", CALL(epoll_ctl)(set, EPOLL_CTL_DEL, end[1], &event));
    CALL(send)(end[0], "f", 1, 0);
    loops("removed", set, 0);
    struct pollfd one = { end[1], POLLIN, 0 };
    say("poll reports it", poll(&one, 1, 20000));
    say("recv", CALL(recv)(end[1], bytes, 100, 0));

    if (pipe(line) < 0)
        exit(2);
    event.events = EPOLLIN, event.data.fd = 9;
    say("add a pipe", CALL(epoll_ctl)(set, EPOLL_CTL_ADD, line[0], &event));
    if (write(line[1], "x", 1) != 1)
        exit(2);
    loops("the pipe", set, 20000);
    say("remove the pipe", CALL(epoll_ctl)(set, EPOLL_CTL_DEL, line[0], &event));
    say("modify what is not there", CALL(epoll_ctl)(set, EPOLL_CTL_MOD, line[0], &event));
    close(line[0]), close(line[1]);

    say("a command of no use", CALL(epoll_ctl)(set, 77, end[1], &event));
    say("add at the end", CALL(epoll_ctl)(set, EPOLL_CTL_ADD, end[1], &event));
    CALL(close)(end[0]);
    loops("the end", set, 20000);
    say("recv at the end", CALL(recv)(end[1], bytes, 100, 0));
    CALL(close)(end[1]);
    loops("a closed socket", set, 0);
    say("no room for events", CALL(epoll_wait)(set, &event, 0, 0));
    say("flags of no use", CALL(epoll_create1)(1));
    say("close", CALL(close)(set));
    say("closed", CALL(epoll_wait)(set, &event, 1, 0));
}

/* A child that closes its copy of a socket, and stays, does not keep the connection open. */
static void forking(void)
{
    puts("-- forking");
    int end[2], closed[2] = { -1, -1 };
    both(end);
    say("pipe", pipe(closed));
    pid_t child = fork();
    if (child == 0) {
        CALL(close)(end[0]);
        if (write(closed[1], "x", 1) == 1)
            pause();
        _exit(0);
    }
    say("the child has closed its copy", read(closed[0], bytes, 1));
    CALL(close)(end[0]);
    struct timeval limit = { 60, 0 };
    CALL(setsockopt)(end[1], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    say("recv after both are closed", CALL(recv)(end[1], bytes, 10, 0));
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    CALL(close)(end[1]);
}

static void datagrams(void)
{
    puts("-- datagrams");
    int one = CALL(socket)(AF_INET, SOCK_DGRAM, 0);
    int two = CALL(socket)(AF_INET, SOCK_DGRAM, IPPROTO_UDP);
    say("send without a connection", CALL(send)(one, "x", 1, 0));
    say("bind", bind_at(two, 0));
    struct sockaddr_in to = here(port_of(two)), from;
    to.sin_addr.s_addr = htonl(PICK(INADDR_LOOPBACK, INADDR_ANY));
    say("sendto", CALL(sendto)(one, "hello", 5, 0, (struct sockaddr *)&to, sizeof to));
    events("with a datagram", two);
    socklen_t length = sizeof from;
    say("recvfrom", CALL(recvfrom)(two, bytes, 100, 0, (struct sockaddr *)&from, &length));
    say("the source of the datagram", length == 16 && ntohs(from.sin_port) == port_of(one));
    CALL(sendto)(one, "first", 5, 0, (struct sockaddr *)&to, sizeof to);
    CALL(sendto)(one, "", 0, 0, (struct sockaddr *)&to, sizeof to);
    CALL(sendto)(one, "third", 5, 0, (struct sockaddr *)&to, sizeof to);
    say("recv of a part", CALL(recv)(two, bytes, 2, MSG_TRUNC));
    say("recv of an empty one", CALL(recv)(two, bytes, 2, 0));
    struct iovec in[2] = { { bytes, 2 }, { bytes + 2, 1 } };
    struct msghdr message = { .msg_iov = in, .msg_iovlen = 2 };
    say("recvmsg of a part", CALL(recvmsg)(two, &message, 0));
    say("MSG_TRUNC is set", message.msg_flags & MSG_TRUNC ? 1 : 0);
    say("recv without a datagram", CALL(recv)(two, bytes, 2, MSG_DONTWAIT));
    say("too long", CALL(sendto)(one, bytes, 70000, 0, (struct sockaddr *)&to, sizeof to));
    say("connect", CALL(connect)(one, (struct sockaddr *)&to, sizeof to));
    say("send", CALL(send)(one, "y", 1, 0));
    say("listen", CALL(listen)(one, 1));
    say("accept", CALL(accept)(one, NULL, NULL));
    CALL(close)(two);
    int gone = CALL(socket)(AF_INET, SOCK_DGRAM, 0);
    differs("sendto to a free port",
            CALL(sendto)(gone, "x", 1, 0, (struct sockaddr *)&to, sizeof to), 1, -ECONNREFUSED,
            "the sender learns at once that no socket is bound");
    to.sin_addr.s_addr = htonl(PICK(INADDR_BROADCAST, 0xc0a800ff));
    say("broadcast without SO_BROADCAST",
        CALL(sendto)(one, "x", 1, 0, (struct sockaddr *)&to, sizeof to));
    CALL(close)(one), CALL(close)(gone);
}

#ifdef COM
static void must(const char *what, int is_so)
{
    if (!is_so) {
        printf("%s: not so (errno %s)\n", what, strerrorname_np(errno));
        failed = 1;
    }
}

struct connecting { int fd, port, errno_of; _Atomic int is_done; };

static void *connects(void *of)
{
    struct connecting *it = of;
    do {
        it->errno_of = connect_at(it->fd, it->port) < 0 ? errno : 0;
    } while (it->errno_of == EALREADY);
    it->is_done = 1;
    return NULL;
}

static void nothing(int number) { (void)number; }

/* A connect that waits for room in the listener's queue: other calls on its socket do not wait. */
static void waiting(void)
{
    int listener = CALL(socket)(AF_INET, SOCK_STREAM, 0), full[64], count = 0;
    bind_at(listener, 0);
    CALL(listen)(listener, 1);
    int port = port_of(listener), got = 0;
    while (got == 0 && count < 64) {
        full[count] = CALL(socket)(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        got = connect_at(full[count++], port);
    }
    must("the queue is full", got < 0 && errno == EAGAIN);
    struct connecting one = { .fd = CALL(socket)(AF_INET, SOCK_STREAM, 0), .port = port };
    bind_at(one.fd, 0);
    int bound = port_of(one.fd);
    pthread_t thread;
    pthread_create(&thread, NULL, connects, &one);
    /* Until the thread is in its connect. */
    do {
        must("a second connect", connect_at(one.fd, 1) < 0);
    } while (errno != EALREADY && usleep(1000) == 0);
    must("getsockname", port_of(one.fd) == bound);
    must("shutdown", CALL(shutdown)(one.fd, SHUT_RDWR) < 0 && errno == ENOTCONN);
    must("close", CALL(close)(one.fd) == 0);
    pthread_join(thread, NULL);
    must("a connect ends with its socket", one.errno_of == EBADF);

    struct sigaction action = { .sa_handler = nothing };
    sigaction(SIGUSR1, &action, NULL);
    struct connecting two = { .fd = CALL(socket)(AF_INET, SOCK_STREAM, 0), .port = port };
    must("bind to the port again", bind_at(two.fd, bound) == 0);
    pthread_create(&thread, NULL, connects, &two);
    while (!two.is_done && usleep(1000) == 0)
        pthread_kill(thread, SIGUSR1);
    pthread_join(thread, NULL);
    must("a signal ends a connect", two.errno_of == EINTR);
    must("the socket stays bound", port_of(two.fd) == bound);
    while (count-- > 0)
        CALL(close)(full[count]);
    CALL(close)(two.fd), CALL(close)(listener);
}

/* What was moved before a bad address counts. */
static void bad_pieces(void)
{
    int end[2];
    both(end);
    struct iovec pieces[2] = { { "one", 3 }, { (void *)8, 5 } };
    struct msghdr message = { .msg_iov = pieces, .msg_iovlen = 2 };
    must("sendmsg of a good and a bad piece", CALL(sendmsg)(end[0], &message, 0) == 3);
    CALL(send)(end[0], "more", 4, 0);
    pieces[0] = (struct iovec){ bytes, 2 };
    must("recvmsg into a good and a bad piece", CALL(recvmsg)(end[1], &message, 0) == 2);
    must("recv of the rest", CALL(recv)(end[1], bytes, 10, 0) == 5 && !memcmp(bytes, "emore", 5));
    CALL(close)(end[0]), CALL(close)(end[1]);
}

/* Starts a node and a VM and binds the process, so that its first socket joins a domain. */
static int begin(void)
{
    VM_usr_t vm;
    memset(&vm, 0, sizeof vm);
    vm.vm_vmid = 8;
    vm.vm_warn2proc = NONE;
    strcpy(vm.vm_name, "sockets");
    int code = mnx_drvs_init(LOCALNODE, NULL);
    if (code < 0 && code != EMOLDRVSBUSY)
        return code;
    code = mnx_vm_init(&vm);
    return code < 0 ? code : mnx_bind(8, 5);
}
#else
static int begin(void) { return 5; }
#endif

int main(void)
{
    if (begin() != 5) {
        puts("the node, the VM or the endpoint is missing");
        return 2;
    }
#ifdef COM
    struct in_addr there;
    if (m3_domain_named(8, "nowhere") >= 0 || errno != EADDRNOTAVAIL ||
        m3_domain_named(8, NULL) >= 0 || errno != EFAULT ||
        m3_domain_named(8, "sixteen bytes is") >= 0 || errno != ENAMETOOLONG ||
        m3_domain_address(8, "nowhere", &there) >= 0 || errno != EADDRNOTAVAIL) {
        puts("a call with a bad domain name succeeds, or sets another errno");
        return 2;
    }
    if (m3_close(m3_socket(AF_INET, SOCK_STREAM, 0)) < 0 || m3_domain(8, 40) >= 0 ||
        errno != EISCONN) {
        puts("the first socket does not join a domain");
        return 2;
    }
    waiting();
    bad_pieces();
#endif
    making();
    talking();
    ending();
    filling();
    edges();
    sets();
    datagrams();
    forking();
    return failed;
}
