/*
 * A child with the memory of its parent, whose thread-local storage is a block of zeros: the
 * sandbox of Chromium makes one in its zygote. The child makes calls that cannot fail, so the C
 * library sets no errno. Exit 0 where the child ended by itself.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static char stack[1 << 18] __attribute__((aligned(16)));
static char storage[1 << 14] __attribute__((aligned(64)));
static int ends[2];

static int child(void *name)
{
    char word[8];
    struct sigaction action = { .sa_handler = SIG_DFL };
    char *words[] = { name, "", NULL };
    if (chdir("/") != 0 || sigaction(SIGUSR2, &action, NULL) != 0)
        _exit(1);
    /* Calls on a stream of the parent, and on descriptors that the parent does not have. */
    for (int i = 0; i < 40; i++)
        if (write(ends[0], "question", 8) != 8 || read(ends[1], word, 8) != 8)
            _exit(2);
    int copy = dup2(ends[0], 77), file = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (copy != 77 || file < 0 || close(file) != 0 || close(77) != 0 || close(ends[1]) != 0)
        _exit(3);
    if (name != NULL)
        execv(name, words);
    _exit(name != NULL ? 4 : 0);
}

/* What the parent has is as before. */
static int is_whole(void)
{
    char word[8];
    return write(ends[0], "question", 8) == 8 && read(ends[1], word, 8) == 8;
}

int main(int count, char **names)
{
    int shares = CLONE_FS | CLONE_VM | CLONE_SETTLS | SIGCHLD, status;
    if (count > 1)
        return 0;
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0 || !is_whole())
        return 3;
    for (int turn = 0; turn < 4; turn++) {
        int flags = shares | (turn < 3 ? CLONE_VFORK : 0);
        void *name = turn == 2 ? names[0] : NULL;
        pid_t pid = clone(child, stack + sizeof stack, flags, name, NULL, storage + 8192, NULL);
        if (pid < 0 || waitpid(pid, &status, 0) != pid)
            return 3;
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0 || !is_whole()) {
            fprintf(stderr, "turn %d: status %x\n", turn, status);
            return 1;
        }
    }
    puts("four children ended by themselves");
    return 0;
}
