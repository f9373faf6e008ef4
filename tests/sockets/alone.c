/*
 * Both ends in one process: a thread accepts, and answers one message on each connection.
 *
 *   alone tcp|unix TRIPS
 *
 * With the test switch `same-process`, connections join at connect and accept: the first message
 * already goes through a ring. Without it, no byte of these connections would.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BYTES = 100 };

static int trips;

static void quit(const char *what)
{
    perror(what);
    exit(3);
}

static void receive_all(int fd, char *bytes)
{
    for (long have = 0, now; have < BYTES; have += now)
        if ((now = read(fd, bytes + have, BYTES - have)) <= 0)
            quit("read");
}

static void *answer(void *from)
{
    char bytes[BYTES];
    for (int trip = 0; trip < trips; trip++) {
        int fd = accept(*(int *)from, NULL, NULL);
        if (fd < 0)
            quit("accept");
        receive_all(fd, bytes);
        if (write(fd, bytes, BYTES) != BYTES)
            quit("answer");
        if (read(fd, bytes, BYTES) != 0)
            quit("the end");
        close(fd);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    int is_tcp = strcmp(argv[1], "tcp") == 0;
    struct sockaddr_storage address = { .ss_family = is_tcp ? AF_INET : AF_UNIX };
    socklen_t length = is_tcp ? sizeof(struct sockaddr_in) : sizeof(sa_family_t);
    char ask[BYTES], got[BYTES];
    pthread_t server;
    trips = atoi(argv[2]);
    if (is_tcp)
        ((struct sockaddr_in *)&address)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int from = socket(address.ss_family, SOCK_STREAM, 0);
    if (bind(from, (struct sockaddr *)&address, length) != 0 || listen(from, 8) != 0)
        quit("listen");
    length = sizeof address;
    getsockname(from, (struct sockaddr *)&address, &length);
    pthread_create(&server, NULL, answer, &from);
    for (int trip = 0; trip < trips; trip++) {
        int fd = socket(address.ss_family, SOCK_STREAM, 0);
        if (connect(fd, (struct sockaddr *)&address, length) != 0)
            quit("connect");
        memset(ask, trip, BYTES);
        if (write(fd, ask, BYTES) != BYTES)
            quit("ask");
        receive_all(fd, got);
        if (memcmp(ask, got, BYTES) != 0) {
            fprintf(stderr, "another answer than was asked for\n");
            return 1;
        }
        close(fd);
    }
    pthread_join(server, NULL);
    return 0;
}
