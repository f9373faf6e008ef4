/* What a process finds out about itself: its access to an address, its bind after a fork. */

/* The access that this process has to an address: ICA_READ, ICA_WRITE. The kernel looks, so that a
 * forbidden access ends nothing. */
static int access_of(char *address) {
  int ends[2];
  char byte = 0;
  if (pipe(ends) != 0) return -1;
  int reads = write(ends[1], address, 1) == 1 && read(ends[0], &byte, 1) == 1;
  int writes = write(ends[1], &byte, 1) == 1 && read(ends[0], address, 1) == 1;
  close(ends[0]);
  close(ends[1]);
  return (reads ? ICA_READ : 0) | (writes ? ICA_WRITE : 0);
}

static int fork_is_unbound(void) {
  int status = 0;
  pid_t pid = fork();
  if (pid == 0) _exit(mnx_wait4bind_T(TIMEOUT_NOWAIT) == EMOLTIMEDOUT ? 0 : 1);
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}
