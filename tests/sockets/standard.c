/*
 * Cases: sockets in the places of the standard streams, whose bytes the C library moves by itself,
 * and programs without the library over sockets that their starter never used.
 */
#include "sets.h"
#include <spawn.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <wordexp.h>

static int kept[3];

/* Puts the stream in the place of a standard stream, and back. */
static void place(int number)
{
    kept[number] = dup(number);
    if (kept[number] < 0 || dup2(fd, number) != number)
        quit("dup2");
}

static void put_back(int number)
{
    if (dup2(kept[number], number) != number)
        quit("dup2");
    close(kept[number]);
}

/* Ten writes, then lines of stdio, then writes again: in order, and each byte once. */
void one_standard_output(void)
{
    for (int i = 0; i < 10; i++)
        DO(write(fd, "a write\n", 8));
    place(1);
    for (int i = 0; i < 10; i++)
        DO(write(1, "by number 1\n", 12));
    printf("a line of printf %d\n", 7);
    fflush(stdout);
    DO(write(fd, "by its own number\n", 18));
    puts("another line");
    fflush(stdout);
    put_back(1);
    place(2);
    DO(write(2, "by number 2\n", 12));
    errno = ENOENT;
    perror("perror");
    DO(write(2, "the last\n", 9));
    put_back(2);
    DO(shutdown(fd, SHUT_WR));
    GET(recv(fd, bytes, 100, MSG_WAITALL));
}

void two_standard_output(void)
{
    long all = 0, count;
    /* A late reader sees what an early one sees. */
    until_bytes(fd, 8 * 10 + 12 * 10);
    while ((count = read(fd, bytes + all, 4096)) > 0)
        all += count;
    got("all", all);
    say("%.*s", (int)all, bytes);
    DO(write(fd, "answer", 6));
    close(fd);
}

/* read(2) and stdio on the standard input, with bytes that came before it was one. */
void one_standard_input(void)
{
    char line[100];
    await_next();
    until_bytes(fd, 34);
    place(0);
    GET(read(0, bytes, 6));
    say("fgets: %s", fgets(line, sizeof line, stdin) ? line : "nothing");
    allow_next();
    say("fgets: %s", fgets(line, sizeof line, stdin) ? line : "nothing");
    say("fgets: %s", fgets(line, sizeof line, stdin) ? line : "nothing");
    say("fgets: %s", fgets(line, sizeof line, stdin) ? line : "nothing");
    say("getc: %d", getchar());
    put_back(0);
    DO(write(fd, "done", 4));
    DO(read(fd, bytes, 100));
}

void two_standard_input(void)
{
    DO(write(fd, "first\nsecond line\n", 18));
    DO(write(fd, "the third line\n\n", 16));
    allow_next();
    await_next();
    DO(write(fd, "late\n", 5));
    DO(shutdown(fd, SHUT_WR));
    GET(recv(fd, bytes, 4, MSG_WAITALL));
}

/* A standard input that has read ahead becomes the stream: its bytes come first, and its child by
 * vfork changes nothing of it. */
void one_standard_ahead(void)
{
    char line[100];
    int ahead[2], null = open("/dev/null", O_RDONLY);
    await_next();
    until_bytes(fd, 34);
    if (pipe(ahead) != 0 || write(ahead[1], "ahead\nread ahead\n", 17) != 17)
        quit("pipe");
    kept[0] = dup(0);
    DO(dup2(ahead[0], 0));
    say("fgets: %s", fgets(line, sizeof line, stdin) ? line : "nothing");
    DO(dup2(fd, 0));
    FILE *now = stdin;
    pid_t child = vfork();
    if (child == 0) {
        dup2(null, 0);
        dup2(fd, 0);
        _exit(stdin == now ? 0 : 3);
    }
    say("stdin is %s", stdin == now ? "the same" : "another");
    DO(dup2(fd, 0));
    say("stdin is %s", stdin == now ? "the same" : "another");
    allow_next();
    while (fgets(line, sizeof line, stdin))
        say("fgets: %s", line);
    put_back(0);
    DO(write(fd, "done", 4));
    DO(read(fd, bytes, 100));
    waitpid(child, NULL, 0);
}

void two_standard_ahead(void)
{
    two_standard_input();
}

/* The program of the next cases: stdio and calls over sockets as standard streams. */
static void talk_by_stdio(void)
{
    char line[100];
    for (int i = 0; i < 10; i++) {
        if (write(1, "one write of ten\n", 17) != 17)
            _exit(8);
        printf("line %d\n", i);
        fflush(stdout);
    }
    if (read(0, line, 6) != 6 || memcmp(line, "begin\n", 6) != 0)
        _exit(9);
    for (int i = 0; i < 5; i++) {
        if (!fgets(line, sizeof line, stdin))
            _exit(10);
        printf("heard %s", line);
        fflush(stdout);
    }
    fprintf(stderr, "%d is the end\n", 5);
}

static void start(int how)
{
    int outcome = 0;
    char **words = resume("stdio", fd);
    pid_t child = how ? vfork() : fork();
    if (child == 0) {
        for (int number = 0; number < 3; number++)
            if (dup2(fd, number) != number)
                _exit(126);
        execv(words[0], words);
        _exit(127);
    }
    close(fd);
    waitpid(child, &outcome, 0);
    say("the program ended with %d", WEXITSTATUS(outcome));
}

void one_standard_exec(void)
{
    start(0);
}

void one_standard_vfork(void)
{
    start(1);
}

void two_standard_exec(void)
{
    char line[100];
    snprintf(line, sizeof line, "begin\n");
    GET(recv(fd, bytes, 10 * (17 + 7), MSG_WAITALL));
    DO(write(fd, line, 6));
    for (int i = 0; i < 5; i++) {
        int length = snprintf(line, sizeof line, "number %d\n", i);
        DO(write(fd, line, length));
        GET(recv(fd, bytes, length + 6, MSG_WAITALL));
    }
    GET(recv(fd, bytes, 16, MSG_WAITALL));
    DO(read(fd, bytes, 100));
}

/* Starts the static program over the stream, which has no number of its own in it. */
static pid_t start_static(int how)
{
    const char *name = getenv("M3_MATRIX_STATIC");
    char *words[] = { "static", NULL };
    pid_t child;
    if (!name)
        quit("there is no static program");
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    if (how == 2) {
        posix_spawn_file_actions_t actions;
        posix_spawn_file_actions_init(&actions);
        posix_spawn_file_actions_adddup2(&actions, fd, 0);
        if (posix_spawn(&child, name, &actions, NULL, words, environ) != 0)
            quit("posix_spawn");
        posix_spawn_file_actions_destroy(&actions);
        return child;
    }
    int gate[2];
    if (pipe2(gate, O_CLOEXEC) != 0)
        quit("pipe");
    child = how ? vfork() : fork();
    if (child == 0) {
        if (dup2(fd, 100) != 100 || dup2(100, 0) != 0)
            _exit(126);
        execv(name, words);
        _exit(127);
    }
    close(gate[1]);
    /* Waits until the new program runs. */
    read(gate[0], bytes, 1);
    close(gate[0]);
    return child;
}

/* The standard input is a file that this program has used. */
static void use_input(void)
{
    int null = open("/dev/null", O_RDONLY);
    if (dup2(null, 0) != 0 || read(0, bytes, 1) != 0)
        quit("/dev/null");
    close(null);
}

static int code_of(pid_t child)
{
    int outcome = 0;
    while (waitpid(child, &outcome, 0) < 0 && errno == EINTR)
        ;
    return WIFEXITED(outcome) ? WEXITSTATUS(outcome) : -1;
}

/* A program without the library reads while its starter begins to use the stream. */
static void starter(int how)
{
    use_input();
    pid_t child = start_static(how);
    for (int i = 0; i < 20; i++) {
        recv(fd, bytes, 100, MSG_DONTWAIT);
        if (write(fd, "0123456789", 10) != 10)
            quit("write");
    }
    allow_next();
    say("the static program ended with %d", code_of(child));
    DO(write(fd, "after", 5));
    GET(recv(fd, bytes, 5, MSG_WAITALL));
}

void one_unused_fork(void)
{
    starter(0);
}

void one_unused_vfork(void)
{
    starter(1);
}

void one_unused_spawn(void)
{
    starter(2);
}

void two_unused(void)
{
    for (int i = 0; i < 20; i++)
        GET(recv(fd, bytes, 10, MSG_WAITALL));
    await_next();
    DO(write(fd, "01234", 5));
    DO(write(fd, "56789", 5));
    GET(recv(fd, bytes, 5, MSG_WAITALL));
    DO(write(fd, "after", 5));
}

/* The starter is a program that inherited the stream, and another one uses it at the same time. */
static void starter_after_exec(int stream, int how, int gate)
{
    fd = stream;
    use_input();
    pid_t child = start_static(how);
    /* The static program runs now. */
    if (write(gate, "x", 1) != 1)
        _exit(125);
    _exit(code_of(child));
}

static void inherited(int how)
{
    char what[32];
    snprintf(what, sizeof what, "unused%d%d", how, to_other[1]);
    char **words = resume(what, fd);
    pid_t child = fork();
    if (child == 0) {
        execv(words[0], words);
        _exit(127);
    }
    say("the starter ended with %d", code_of(child));
    DO(write(fd, "after", 5));
    GET(recv(fd, bytes, 5, MSG_WAITALL));
}

void one_inherited_vfork(void)
{
    inherited(1);
}

void one_inherited_spawn(void)
{
    inherited(2);
}

void two_inherited(void)
{
    await_next();
    DO(write(fd, "0123456789", 10));
    GET(recv(fd, bytes, 5, MSG_WAITALL));
    DO(write(fd, "after", 5));
}

/* Messages with room for control data, while bytes lie in a ring. */
static long receive_with_room(size_t count, int flags)
{
    char room[256];
    struct iovec parts[2] = { { bytes, count / 3 }, { bytes + count / 3, count - count / 3 } };
    struct msghdr message = { .msg_iov = parts, .msg_iovlen = 2, .msg_control = room,
        .msg_controllen = sizeof room };
    long come = recvmsg(fd, &message, flags);
    if (come >= 0)
        say("control %zu, flags %#x", (size_t)message.msg_controllen, message.msg_flags);
    return come;
}

void one_room(void)
{
    await_next();
    until_bytes(fd, 100);
    GET(receive_with_room(100, 0));
    allow_next();
    GET(receive_with_room(120, MSG_WAITALL));
    GET(receive_with_room(100, 0));
}

void two_room(void)
{
    fill(bytes, 400, 3);
    DO(write(fd, bytes, 60));
    DO(write(fd, bytes + 60, 40));
    allow_next();
    await_next();
    DO(write(fd, bytes + 100, 60));
    usleep(20000);
    DO(write(fd, bytes + 160, 60));
    DO(shutdown(fd, SHUT_WR));
}

/* The same with bytes on both sides of the pin, for a call that wants all of them. */
void one_room_all(void)
{
    await_next();
    until_bytes(fd, 100);
    allow_next();
    GET(receive_with_room(220, MSG_WAITALL));
    GET(receive_with_room(100, 0));
}

void two_room_all(void)
{
    two_room();
}

/* A reset behind bytes is an error of the next call, also where the message had room. */
void one_room_reset(void)
{
    DO(write(fd, "unread", 6));
    await_next();
    until_bytes(fd, 40);
    allow_next();
    say("events: %#x", until_ready(fd, POLLHUP | POLLRDHUP) & (POLLHUP | POLLERR));
    GET(receive_with_room(100, 0));
    DO(read(fd, bytes, 100));
    DO(read(fd, bytes, 100));
}

void two_room_reset(void)
{
    until_bytes(fd, 6);
    DO(write(fd, bytes, 40));
    until_taken(fd);
    allow_next();
    await_next();
    DO(close(fd));
}

static pid_t sleeper;

static void on_wakeup(int number)
{
    (void)number;
}

static atomic_int interrupted;

/* Interrupts the sleeping call. A signal that came before its sleep is repeated. */
static void *interrupt(void *unused)
{
    char name[64], line[512];
    snprintf(name, sizeof name, "/proc/self/task/%d/stat", (int)sleeper);
    for (int turn = 0; turn < 30000; turn++) {
        FILE *file = fopen(name, "r");
        char *state = file && fgets(line, sizeof line, file) ? strrchr(line, ')') : NULL;
        if (file)
            fclose(file);
        if (state && state[2] == 'S')
            break;
        usleep(1000);
    }
    while (!interrupted) {
        syscall(SYS_tgkill, getpid(), sleeper, SIGUSR1);
        usleep(10000);
    }
    return unused;
}

/* A signal ends a call for all bytes, which returns those that came. */
void one_room_signal(void)
{
    struct sigaction action = { .sa_handler = on_wakeup };
    pthread_t thread;
    sigaction(SIGUSR1, &action, NULL);
    await_next();
    until_bytes(fd, 40);
    sleeper = gettid();
    if (pthread_create(&thread, NULL, interrupt, NULL) != 0)
        quit("a thread");
    GET(receive_with_room(100, MSG_WAITALL));
    interrupted = 1;
    pthread_join(thread, NULL);
    allow_next();
    GET(recv(fd, bytes, 60, MSG_WAITALL));
}

void two_room_signal(void)
{
    DO(write(fd, bytes, 40));
    allow_next();
    await_next();
    DO(write(fd, bytes, 60));
}

/* Words without commands start no shell, whatever its environment would be. */
void one_words(void)
{
    wordexp_t words;
    await_next();
    until_bytes(fd, 10);
    unsetenv("LD_PRELOAD");
    DO(wordexp("one two", &words, WRDE_NOCMD));
    say("%zu words", words.we_wordc);
    wordfree(&words);
    DO(write(fd, "answer", 6));
    GET(recv(fd, bytes, 10, MSG_WAITALL));
    DO(read(fd, bytes, 100));
}

void two_words(void)
{
    DO(write(fd, "0123456789", 10));
    allow_next();
    GET(recv(fd, bytes, 6, MSG_WAITALL));
    DO(shutdown(fd, SHUT_WR));
}

void standard_after_exec(const char *what, int stream)
{
    if (strcmp(what, "stdio") == 0)
        talk_by_stdio();
    if (strncmp(what, "unused", 6) == 0)
        starter_after_exec(stream, what[6] - '0', atoi(what + 7));
}
