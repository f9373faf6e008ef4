/* Cases: a process that gives up root keeps its own connections and no memory of others. A lock
 * that a living thread seems to hold delays its own connection alone, for a while. */
#include "sets.h"
#include <grp.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

enum { NOBODY = 65534, KEPT = 1, OTHERS = 3 };

/* Mappings of shared memory that is not the memory of this stream. Each is read and written. */
static int foreign(int stream)
{
    unsigned long cookie = 0, start, end, offset;
    socklen_t length = sizeof cookie;
    char line[PATH_MAX + 200], rights[8];
    int count = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    if (!maps || getsockopt(stream, SOL_SOCKET, SO_COOKIE, &cookie, &length) != 0)
        quit("the mappings");
    while (fgets(line, sizeof line, maps)) {
        if (!strstr(line, "/sock-") || sscanf(line, "%lx-%lx %7s %lx", &start, &end, rights,
            &offset) != 4)
            continue;
        volatile unsigned long *words = (unsigned long *)start;
        if (offset == 0 && (words[0] == cookie || words[1] == cookie))
            continue;
        fprintf(stderr, "foreign: %s", line);
        words[1] = words[1];
        count++;
    }
    fclose(maps);
    return count;
}

static void give_up(int way)
{
    int failed = setgroups(0, NULL);
    switch (way) {
    case 0: failed |= setgid(NOBODY) | setuid(NOBODY); break;
    case 1: failed |= setegid(NOBODY) | seteuid(NOBODY); break;
    case 2: failed |= setresgid(NOBODY, NOBODY, NOBODY) | setresuid(NOBODY, NOBODY, NOBODY); break;
    case 3: failed |= setregid(NOBODY, NOBODY) | setreuid(NOBODY, NOBODY); break;
    case 4: setfsgid(NOBODY), setfsuid(NOBODY); break;
    /* Past the C library, and so past any hook. */
    case 5: failed |= syscall(SYS_setresuid, NOBODY, NOBODY, NOBODY); break;
    default: failed |= prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    }
    if (failed)
        quit("root cannot be given up");
}

static void keep_one(void)
{
    close(fd);
    for (int i = 1; i <= OTHERS; i++)
        if (i != KEPT)
            close(ends[i]);
}

static void talk(void)
{
    far_write_here(KEPT, "to the child");
    GET(read(ends[KEPT], bytes, 100));
    DO(write(ends[KEPT], "and back", 8));
    far_read(KEPT, 8);
}

void two_rights(void)
{
    if (geteuid() != 0)
        leave_out("root alone can give up root");
    mesh(OTHERS);
    for (int way = 0; way <= 6; way++)
        CHILD {
            keep_one();
            give_up(way);
            say("way %d reaches %d foreign mappings", way, foreign(ends[KEPT]));
            talk();
            if (way == 1) {
                DO(seteuid(0));
                say("root again reaches %d", foreign(ends[KEPT]));
                talk();
            }
        }
    talk();
}

/* The next program has no rights to the memory of a connection that its predecessor used as root.
 */
void two_rights_exec(void)
{
    if (geteuid() != 0 || access("/bin/cat", X_OK) != 0)
        leave_out("root alone can give up root");
    int gate[2];
    mesh(OTHERS);
    if (pipe2(gate, O_CLOEXEC) != 0)
        quit("pipe");
    pid_t child = fork();
    if (child == 0) {
        close(gate[0]);
        keep_one();
        give_up(0);
        dup2(ends[KEPT], 0);
        dup2(ends[KEPT], 1);
        close(ends[KEPT]);
        execl("/bin/cat", "cat", NULL);
        _exit(127);
    }
    close(ends[KEPT]);
    close(gate[1]);
    /* Waits until the new program runs: bytes of before would be in the ring. */
    read(gate[0], bytes, 1);
    far_write(KEPT, "through the exec");
    far_read(KEPT, 16);
    far_shutdown(KEPT);
    ended(child);
    for (int i = KEPT + 1; i <= OTHERS; i++) {
        far_write_here(i, "another");
        GET(read(ends[i], bytes, 100));
    }
}

void two_locks(void)
{
    static const int words[4] = { 512 + 40, 512 + 152, 1024 + 40, 1024 + 152 };
    struct timeval limit = { .tv_usec = 50000 };
    mesh(2);
    int locked = ends[1];
    volatile unsigned long *page = page_of(locked);
    for (int i = 0; page && i < 4; i++)
        page[words[i] / 8] = held_by_another();
    DO(recv(locked, bytes, 10, MSG_DONTWAIT));
    setsockopt(locked, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    DO(recv(locked, bytes, 10, 0));
    far_write_here(2, "an old one");
    GET(read(ends[2], bytes, 100));
    mesh(1);
    far_write_here(1, "a new one");
    GET(read(ends[1], bytes, 100));
    DO(write(ends[1], "answer", 6));
    far_read(1, 6);
    DO(close(locked));
}
