/* Cases: descriptors, processes, threads, signals, death. */
#include "sets.h"
#include <sys/syscall.h>
#include <spawn.h>

void one_dup(void)
{
    int second = dup(fd), third = fcntl(fd, F_DUPFD_CLOEXEC, 100), fourth = dup2(fd, 150);
    DO(write(second, "second", 6));
    DO(close(fd));
    DO(write(third, "third", 5));
    DO(close(second));
    DO(write(fourth, "fourth", 6));
    DO(dup2(third, fourth) == fourth);
    DO(close(third));
    await_next();
    GET(read(fourth, bytes, 100));
    DO(write(fourth, "last", 4));
    int null = open("/dev/null", O_RDWR);
    DO(dup2(null, fourth) == fourth);
    DO(write(fourth, "into nothing", 12));
    allow_next();
}

void two_dup(void)
{
    until_bytes(fd, 17);
    GET(read(fd, bytes, 17));
    DO(write(fd, "answer", 6));
    allow_next();
    await_next();
    until_ready(fd, POLLRDHUP);
    GET(read(fd, bytes, 100));
    DO(read(fd, bytes, 100));
}

void one_fork(void)
{
    int outcome;
    DO(write(fd, "parent ", 7));
    pid_t child = fork();
    if (child == 0) {
        if (write(fd, "child ", 6) != 6)
            _exit(1);
        await_next();
        char back[16];
        _exit(recv(fd, back, 4, MSG_WAITALL) == 4 && memcmp(back, "back", 4) == 0 ? 7 : 8);
    }
    waitpid(child, &outcome, 0);
    say("the child ended with %d", WEXITSTATUS(outcome));
    DO(write(fd, "parent again", 12));
    DO(close(fd));
}

void two_fork(void)
{
    GET(recv(fd, bytes, 13, MSG_WAITALL));
    DO(write(fd, "back", 4));
    allow_next();
    GET(recv(fd, bytes, 12, MSG_WAITALL));
    DO(read(fd, bytes, 10));
}

static char number[16], log_number[16], kind[4];

char **resume(const char *what, int stream)
{
    static char *words[7];
    static char name[PATH_MAX];
    if (readlink("/proc/self/exe", name, sizeof name - 1) < 0)
        quit("no name of our own");
    snprintf(number, sizeof number, "%d", stream);
    /* The log of the next program does not matter: the other side sees its work. */
    snprintf(log_number, sizeof log_number, "%d", open("/dev/null", O_WRONLY));
    snprintf(kind, sizeof kind, "%d", is_unix);
    char *all[7] = { name, "--resume", (char *)what, number, log_number, kind, NULL };
    memcpy(words, all, sizeof all);
    return words;
}

void resumed(const char *what, int stream)
{
    char word[16];
    standard_after_exec(what, stream);
    if (strcmp(what, "watch") == 0)
        watched_after_exec(stream);
    if (strcmp(what, "inherit") == 0)
        inherited_after_exec(stream);
    if (strcmp(what, "hand") == 0) {
        pass(atoi(getenv("M3_MATRIX_OVER")), stream);
        _exit(7);
    }
    if (strcmp(what, "take") == 0) {
        stream = take(stream);
        if (write(stream, "0123456789", 10) != 10)
            _exit(9);
        _exit(recv(stream, word, 6, MSG_WAITALL) == 6 && memcmp(word, "answer", 6) == 0 ? 7 : 8);
    }
    if (strcmp(what, "talk") == 0) {
        if (write(stream, "after exec", 10) != 10 || recv(stream, word, 5, MSG_WAITALL) != 5)
            _exit(9);
        for (int i = 0; i < 20; i++)
            if (write(stream, "0123456789", 10) != 10 || recv(stream, word, 5, MSG_WAITALL) != 5)
                _exit(9);
    }
}

char **large_environment(void)
{
    enum { VARIABLES = 600 };
    static char *all[VARIABLES + 1], texts[VARIABLES][16];
    for (int i = 0; i < VARIABLES; i++) {
        snprintf(texts[i], sizeof texts[i], "MANY%d=x", i);
        all[i] = texts[i];
    }
    return all;
}

static void by_exec(int how)
{
    int outcome = 0;
    DO(write(fd, "before exec", 11));
    char **words = resume("talk", fd);
    pid_t child = how == 0 || how == 3 || how == 5 ? fork() : how == 1 ? vfork() : -2;
    if (child == 0) {
        /* By its number, and without the library in the environment. */
        char *none[] = { NULL };
        if (how == 3)
            syscall(SYS_execveat, AT_FDCWD, words[0], words, none, 0);
        execve(words[0], words, how == 5 ? large_environment() : environ);
        _exit(127);
    }
    /* A null environment is an empty one. */
    char **environment = how == 4 ? NULL : environ;
    if (child == -2 && posix_spawn(&child, words[0], NULL, NULL, words, environment) != 0)
        quit("posix_spawn");
    waitpid(child, &outcome, 0);
    say("the program ended with %d", WEXITSTATUS(outcome));
    DO(write(fd, "parent again", 12));
    await_next();
    GET(read(fd, bytes, 100));
    DO(close(fd));
}

void one_exec(void)
{
    by_exec(0);
}

void one_exec_number(void)
{
    by_exec(3);
}

void one_vfork(void)
{
    by_exec(1);
}

void one_spawn(void)
{
    by_exec(2);
}

void one_spawn_null(void)
{
    by_exec(4);
}

void one_exec_large(void)
{
    by_exec(5);
}

void two_exec(void)
{
    GET(recv(fd, bytes, 21, MSG_WAITALL));
    DO(write(fd, "heard", 5));
    for (int i = 0; i < 20; i++) {
        if (recv(fd, bytes, 10, MSG_WAITALL) != 10 || write(fd, "heard", 5) != 5)
            quit("the program does not talk");
    }
    GET(recv(fd, bytes, 12, MSG_WAITALL));
    DO(write(fd, "to the parent", 13));
    allow_next();
    DO(read(fd, bytes, 10));
}

void pass(int over, int stream)
{
    char room[CMSG_SPACE(sizeof(int))] = { 0 }, byte = 'x';
    struct iovec part = { &byte, 1 };
    struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = room,
        .msg_controllen = sizeof room };
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(head), &stream, sizeof stream);
    DO(sendmsg(over, &message, 0));
}

int take(int over)
{
    char room[CMSG_SPACE(sizeof(int))], byte;
    struct iovec part = { &byte, 1 };
    struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = room,
        .msg_controllen = sizeof room };
    if (recvmsg(over, &message, 0) != 1)
        return -1;
    int stream = -1;
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    if (head)
        memcpy(&stream, CMSG_DATA(head), sizeof stream);
    return stream;
}

void one_passed(void)
{
    int pair[2], outcome;
    socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
    DO(write(fd, "owner ", 6));
    await_next();
    pid_t child = fork();
    if (child == 0) {
        close(fd);
        int stream = take(pair[1]);
        char word[16];
        if (write(stream, "receiver ", 9) != 9)
            _exit(1);
        allow_next();
        _exit(recv(stream, word, 6, MSG_WAITALL) == 6 && memcmp(word, "answer", 6) == 0 ? 7 : 8);
    }
    pass(pair[0], fd);
    waitpid(child, &outcome, 0);
    say("the receiver ended with %d", WEXITSTATUS(outcome));
    DO(write(fd, "owner again", 11));
    DO(close(fd));
}

void two_passed(void)
{
    GET(recv(fd, bytes, 6, MSG_WAITALL));
    allow_next();
    await_next();
    GET(recv(fd, bytes, 9, MSG_WAITALL));
    DO(write(fd, "answer", 6));
    GET(recv(fd, bytes, 11, MSG_WAITALL));
    DO(read(fd, bytes, 10));
}

void one_stdio(void)
{
    char line[100];
    DO(write(fd, "first line\n", 11));
    until_bytes(fd, 11);
    FILE *stream = fdopen(fd, "r+");
    say("fgets: %s", fgets(line, sizeof line, stream) ? line : "nothing");
    DO(fprintf(stream, "%s line %d\n", "second", 2));
    DO(fflush(stream));
    say("fgets: %s", fgets(line, sizeof line, stream) ? line : "nothing");
    DO(fclose(stream));
}

void two_stdio(void)
{
    GET(recv(fd, bytes, 11, MSG_WAITALL));
    DO(write(fd, "answer one\n", 11));
    GET(recv(fd, bytes, 14, MSG_WAITALL));
    DO(dprintf(fd, "%s %d %.1f\n", "answer", 2, 2.5));
    DO(read(fd, bytes, 100));
}

void one_range(void)
{
    int second = dup(fd);
    DO(write(fd, "before", 6));
    DO(close_range(fd, fd, 0));
    DO(write(fd, "x", 1));
    DO(write(second, "between", 7));
    DO(close_range(second, second, CLOSE_RANGE_CLOEXEC));
    DO(write(second, "still", 5));
    DO(close_range(second, second, 0));
    DO(write(second, "x", 1));
    int file = open("/dev/null", O_RDWR);
    DO(file == fd || file == second);
    DO(write(file, "nothing", 7));
}

void two_range(void)
{
    GET(recv(fd, bytes, 18, MSG_WAITALL));
    DO(read(fd, bytes, 100));
}

#define THREADS 4
#define RECORDS 500

static void *write_records(void *which)
{
    char record[24];
    for (int i = 0; i < RECORDS; i++) {
        memset(record, 'a' + (int)(long)which, sizeof record);
        memcpy(record, &i, sizeof i);
        if (write(fd, record, sizeof record) != sizeof record)
            quit("thread write");
    }
    return NULL;
}

void one_threads(void)
{
    pthread_t all[THREADS];
    for (long i = 0; i < THREADS; i++)
        pthread_create(&all[i], NULL, write_records, (void *)i);
    for (int i = 0; i < THREADS; i++)
        pthread_join(all[i], NULL);
    DO(shutdown(fd, SHUT_WR));
    await_next();
}

void two_threads(void)
{
    int next[THREADS] = { 0 }, wrong = 0;
    char record[24];
    while (recv(fd, record, sizeof record, MSG_WAITALL) == sizeof record) {
        int number, who = record[4] - 'a';
        memcpy(&number, record, sizeof number);
        if (who < 0 || who >= THREADS || number != next[who])
            wrong++;
        else
            next[who]++;
        for (size_t i = 5; i < sizeof record; i++)
            wrong += record[i] != record[4];
    }
    say("%d %d %d %d, wrong: %d", next[0], next[1], next[2], next[3], wrong);
    allow_next();
}

static void *read_some(void *sink)
{
    long *all = sink, now;
    char piece[100];
    while ((now = read(fd, piece, sizeof piece)) > 0)
        *all += now;
    return NULL;
}

void one_readers(void)
{
    fill(bytes, 100000, 12);
    for (int i = 0; i < 1000; i++)
        if (write(fd, bytes + i * 100, 100) != 100)
            quit("write");
    DO(shutdown(fd, SHUT_WR));
    await_next();
}

void two_readers(void)
{
    pthread_t all[3];
    long counts[3] = { 0 };
    for (int i = 0; i < 3; i++)
        pthread_create(&all[i], NULL, read_some, &counts[i]);
    for (int i = 0; i < 3; i++)
        pthread_join(all[i], NULL);
    say("all readers together: %ld", counts[0] + counts[1] + counts[2]);
    allow_next();
}

static volatile long by_handler, refused;

static void send_one(int signal)
{
    int code = errno;
    (void)signal;
    if (send(fd, "h", 1, MSG_NOSIGNAL) == 1)
        by_handler++;
    else
        refused++;
    errno = code;
}

void one_handler(void)
{
    struct sigaction how = { .sa_handler = send_one, .sa_flags = SA_RESTART };
    struct itimerval often = { { 0, 300 }, { 0, 300 } }, never = { { 0, 0 }, { 0, 0 } };
    long sent = 0;
    sigaction(SIGALRM, &how, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
    fill(bytes, 1000, 13);
    memset(bytes, 'm', 1000);
    for (int i = 0; i < 3000; i++) {
        long now = send(fd, bytes, 1 + i % 700, MSG_NOSIGNAL);
        if (now < 0 && errno != EINTR)
            quit("send");
        sent += now > 0 ? now : 0;
    }
    setitimer(ITIMER_REAL, &never, NULL);
    DO(shutdown(fd, SHUT_WR));
    long counted[2];
    if (recv(fd, counted, sizeof counted, MSG_WAITALL) != sizeof counted)
        quit("no answer");
    if (counted[0] == sent && counted[1] == by_handler)
        say("all came, of the handler and of the rest");
    else
        say("%ld and %ld sent, %ld and %ld came", sent, by_handler, counted[0], counted[1]);
}

void two_handler(void)
{
    long counted[2] = { 0, 0 }, now;
    while ((now = read(fd, bytes, 5000)) > 0)
        for (long i = 0; i < now; i++)
            counted[bytes[i] == 'h']++;
    DO(write(fd, counted, sizeof counted));
}

static void *sleeper(void *unused)
{
    (void)unused;
    char piece[10];
    read(fd, piece, sizeof piece);
    return NULL;
}

static void spend(long rounds)
{
    for (volatile long left = rounds; left > 0; left--)
        ;
}

static void *late_sleeper(void *rounds)
{
    int before;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    spend((long)rounds);
    pthread_setcancelstate(before, &before);
    return sleeper(NULL);
}

void one_cancelled(void)
{
    pthread_t thread;
    void *end;
    pthread_create(&thread, NULL, sleeper, NULL);
    usleep(20000);
    DO(pthread_cancel(thread));
    DO(pthread_join(thread, &end));
    say(end == PTHREAD_CANCELED ? "cancelled in its read" : "not cancelled");
    int cancelled = 0;
    for (long moment = 0; moment < 1000; moment++) {
        pthread_create(&thread, NULL, late_sleeper, (void *)(moment % 25 * 1500));
        spend(moment / 25 * 2000);
        pthread_cancel(thread);
        pthread_join(thread, &end);
        cancelled += end == PTHREAD_CANCELED;
    }
    say("cancelled %d times, before its read, at its begin or within", cancelled);
    allow_next();
    GET(read(fd, bytes, 10));
}

void two_cancelled(void)
{
    await_next();
    DO(write(fd, "after", 5));
}

void one_killed_sender(void)
{
    await_next();
    int outcome;
    siginfo_t how;
    kill(other, SIGKILL);
    waitid(P_PID, other, &how, WEXITED | WNOWAIT);
    (void)outcome;
    until_ready(fd, POLLRDHUP);
    GET(read(fd, bytes, 100));
    GET(read(fd, bytes, 1000));
    DO(read(fd, bytes, 100));
    say("events: %#x", until_ready(fd, POLLIN));
}

void two_killed_sender(void)
{
    fill(bytes, 400, 14);
    DO(write(fd, bytes, 400));
    until_taken(fd);
    allow_next();
    pause();
}

void one_killed_receiver(void)
{
    fill(bytes, 400, 15);
    DO(write(fd, bytes, 400));
    await_next();
    siginfo_t how;
    kill(other, SIGKILL);
    waitid(P_PID, other, &how, WEXITED | WNOWAIT);
    say("events: %#x", until_ready(fd, POLLHUP | POLLRDHUP));
    DO(read(fd, bytes, 100));
    DO(read(fd, bytes, 100));
    DO(write(fd, bytes, 100));
}

void two_killed_receiver(void)
{
    until_bytes(fd, 400);
    GET(read(fd, bytes, 100));
    allow_next();
    pause();
}

void one_killed_asleep(void)
{
    await_next();
    siginfo_t how;
    kill(other, SIGKILL);
    waitid(P_PID, other, &how, WEXITED | WNOWAIT);
    DO(read(fd, bytes, 100));
    DO(read(fd, bytes, 100));
}

void two_killed_asleep(void)
{
    allow_next();
    read(fd, bytes, 100);
}

/* One side is killed while bytes stream: the bytes that arrived are the first bytes that were sent.
 * */
void one_killed_streaming(void)
{
    long come = 0, now, wrong = 0;
    while (come < 3000000 && (now = read(fd, bytes, 10000)) > 0) {
        for (long i = 0; i < now; i++)
            wrong += (unsigned char)bytes[i] != (unsigned char)((come + i) % 251);
        come += now;
    }
    kill(other, SIGKILL);
    while ((now = read(fd, bytes, 10000)) > 0) {
        for (long i = 0; i < now; i++)
            wrong += (unsigned char)bytes[i] != (unsigned char)((come + i) % 251);
        come += now;
    }
    say("wrong: %ld, %s", wrong, now == 0 || errno == ECONNRESET ? "then an end" : "then an error");
}

void two_killed_streaming(void)
{
    long sent = 0;
    for (;;) {
        for (int i = 0; i < 7000; i++)
            bytes[i] = (char)((sent + i) % 251);
        long now = write(fd, bytes, 7000);
        if (now < 0)
            quit("write");
        sent += now;
    }
}

void one_pair(void)
{
    int pair[2], outcome;
    socketpair(is_unix ? AF_UNIX : AF_UNIX, SOCK_STREAM, 0, pair);
    pid_t child = fork();
    if (child == 0) {
        close(pair[0]);
        char word[8];
        for (int i = 0; i < 100; i++)
            if (recv(pair[1], word, 8, MSG_WAITALL) != 8 || write(pair[1], word, 8) != 8)
                _exit(1);
        _exit(read(pair[1], word, 8) == 0 ? 5 : 6);
    }
    close(pair[1]);
    int good = 0;
    for (int i = 0; i < 100; i++) {
        long there = i, back = -1;
        if (write(pair[0], &there, 8) == 8 && recv(pair[0], &back, 8, MSG_WAITALL) == 8)
            good += back == there;
    }
    DO(good);
    DO(shutdown(pair[0], SHUT_WR));
    waitpid(child, &outcome, 0);
    say("the child ended with %d", WEXITSTATUS(outcome));
    DO(read(pair[0], bytes, 10));
}
