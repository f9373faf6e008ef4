/*
 * matrix KIND CASE      one case over tcp or unix; the logs of both sides on standard output
 * matrix --list         the names of the cases; `-` before a case that needs no ring
 */
#include "matrix.h"

int fd = -1, is_unix;
char bytes[MOST];
pid_t other;

static FILE *log_file;
int to_other[2], from_other[2];
static char place[108];

void quit(const char *why)
{
    fprintf(stderr, "matrix: %s: %s\n", why, strerror(errno));
    if (other > 0)
        kill(other, SIGKILL);
    _exit(3);
}

void say(const char *form, ...)
{
    va_list list;
    va_start(list, form);
    vfprintf(log_file, form, list);
    va_end(list);
    fputc('\n', log_file);
    fflush(log_file);
}

long result(const char *what, long value)
{
    int code = errno;
    if (value < 0)
        say("%s: %s", what, strerrorname_np(code));
    else
        say("%s: %ld", what, value);
    errno = code;
    return value;
}

unsigned long sum(const char *from, size_t count)
{
    unsigned long all = 5381;
    for (size_t i = 0; i < count; i++)
        all = all * 33 + (unsigned char)from[i];
    return all;
}

long got(const char *what, long count)
{
    int code = errno;
    if (count < 0)
        say("%s: %s", what, strerrorname_np(code));
    else
        say("%s: %ld bytes, sum %lx", what, count, sum(bytes, count));
    errno = code;
    return count;
}

void fill(char *to, size_t count, unsigned seed)
{
    for (size_t i = 0; i < count; i++)
        to[i] = (char)(seed = seed * 1103515245 + 12345, seed >> 16);
}

void allow_next(void)
{
    if (write(to_other[1], "x", 1) != 1)
        quit("the other side is gone");
}

void await_next(void)
{
    char one;
    long count;
    while ((count = read(from_other[0], &one, 1)) < 0 && errno == EINTR)
        ;
    if (count != 1)
        quit("the other side has ended");
}

short until_ready(int stream, short events)
{
    struct pollfd one = { stream, events, 0 };
    int found;
    while ((found = poll(&one, 1, 30000)) < 0 && errno == EINTR)
        ;
    if (found != 1)
        quit("what a case waits for never came");
    return one.revents;
}

void until_bytes(int stream, int count)
{
    int there = 0;
    for (int turn = 0; turn < 30000; turn++) {
        if (ioctl(stream, FIONREAD, &there) != 0)
            quit("FIONREAD");
        if (there >= count)
            return;
        usleep(1000);
    }
    quit("the bytes never came");
}

void until_taken(int stream)
{
    int left = 1;
    for (int turn = 0; turn < 30000 && left > 0; turn++) {
        if (is_unix || ioctl(stream, TIOCOUTQ, &left) != 0)
            return;
        if (left > 0)
            usleep(1000);
    }
}

unsigned seed_of(unsigned which)
{
    const char *text = getenv("SEED");
    return (text ? (unsigned)atoi(text) : 1) * 2654435761u + which * 40503u + 1;
}

int tries(int usual)
{
    const char *text = getenv("TRIES");
    return text ? atoi(text) : usual;
}

void events(const char *what, int count, const struct epoll_event *list)
{
    if (count < 0) {
        result(what, count);
        return;
    }
    say("%s: %d", what, count);
    for (int i = 0; i < count; i++)
        say("    %#x for %u", list[i].events, list[i].data.u32);
}

int listener(struct sockaddr_storage *at, socklen_t *length, int backlog)
{
    int made = socket(is_unix ? AF_UNIX : AF_INET, SOCK_STREAM, 0);
    memset(at, 0, sizeof *at);
    if (is_unix) {
        struct sockaddr_un *name = (void *)at;
        name->sun_family = AF_UNIX;
        strcpy(name->sun_path, place);
        unlink(place);
        *length = sizeof *name;
    } else {
        struct sockaddr_in *name = (void *)at;
        name->sin_family = AF_INET;
        name->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        *length = sizeof *name;
    }
    if (made < 0 || bind(made, (void *)at, *length) != 0)
        quit("cannot bind");
    if (backlog >= 0 && listen(made, backlog) != 0)
        quit("cannot listen");
    if (!is_unix && getsockname(made, (void *)at, length) != 0)
        quit("no name");
    return made;
}

int connected(const struct sockaddr_storage *at, socklen_t length)
{
    int made = socket(at->ss_family, SOCK_STREAM, 0);
    if (made < 0 || connect(made, (const void *)at, length) != 0)
        quit("cannot connect");
    return made;
}

void warm(int stream, int first)
{
    char word[8];
    for (int turn = 0; turn < 12; turn++) {
        if (first ? (write(stream, "warm up!", 8) != 8 || recv(stream, word, 8, MSG_WAITALL) != 8)
                  : (recv(stream, word, 8, MSG_WAITALL) != 8 || write(stream, "warm up!", 8) != 8))
            quit("cannot warm up");
    }
}

static const struct made *find(const char *name)
{
    for (const struct made *one = cases; one->name; one++)
        if (strcmp(one->name, name) == 0)
            return one;
    fprintf(stderr, "matrix: no case %s\n", name);
    exit(2);
}

int main(int count, char **words)
{
    if (count == 2 && strcmp(words[1], "--list") == 0) {
        for (const struct made *one = cases; one->name; one++)
            printf("%s%s\n", one->plain > 0 ? "-" : "", one->name);
        return 0;
    }
    if (count == 6 && strcmp(words[1], "--resume") == 0) {
        log_file = fdopen(atoi(words[4]), "a");
        is_unix = atoi(words[5]);
        fd = atoi(words[3]);
        resumed(words[2], fd);
        return 0;
    }
    if (count != 3) {
        fprintf(stderr, "usage: matrix tcp|unix CASE\n");
        return 2;
    }
    is_unix = strcmp(words[1], "unix") == 0;
    const struct made *made = find(words[2]);
    int first[2], second[2], outcome;
    struct sockaddr_storage at;
    socklen_t length;
    snprintf(place, sizeof place, "%s/m3-matrix.%d", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp",
        (int)getpid());
    FILE *log_files[2] = { tmpfile(), tmpfile() };
    signal(SIGPIPE, SIG_IGN);
    if (!log_files[0] || !log_files[1] || pipe(first) != 0 || pipe(second) != 0)
        quit("cannot begin");
    int listening = made->plain >= 0 && made->plain < 2 ? listener(&at, &length, 8) : -1;
    other = fork();
    if (other < 0)
        quit("fork");
    log_file = log_files[other == 0];
    memcpy(to_other, other ? first : second, sizeof first);
    memcpy(from_other, other ? second : first, sizeof first);
    close(to_other[0]);
    close(from_other[1]);
    if (other == 0) {
        if (listening >= 0) {
            fd = accept(listening, NULL, NULL);
            close(listening);
            if (fd < 0)
                quit("cannot accept");
            if (!made->plain)
                warm(fd, 0);
        }
        other = getppid();
        made->two();
        fflush(log_file);
        _exit(0);
    }
    if (listening >= 0) {
        fd = connected(&at, length);
        close(listening);
        if (!made->plain)
            warm(fd, 1);
    }
    made->one();
    while (waitpid(other, &outcome, 0) < 0 && errno == EINTR)
        ;
    unlink(place);
    for (int side = 0; side < 2; side++) {
        char line[4096];
        printf("side %d\n", side + 1);
        rewind(log_files[side]);
        while (fgets(line, sizeof line, log_files[side]))
            fputs(line, stdout);
    }
    if (WIFSIGNALED(outcome))
        printf("side 2 ended by signal %d\n", WTERMSIG(outcome));
    else
        printf("side 2 ended with %d\n", WEXITSTATUS(outcome));
    return WIFEXITED(outcome) && WEXITSTATUS(outcome) ? WEXITSTATUS(outcome) : 0;
}
