/*
 * A process copies a block between two other processes.
 *
 *     cc -o copy_between copy_between.c $(pkg-config --cflags --libs m3ipc) && ./copy_between
 *
 * The parent copies. The source lends its block with a request, for reading, until the answer. The
 * destination grants memory for writing until it revokes the grant. Both wait until the parent
 * answers.
 */
#include <m3ipc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define VM_ID     9
#define PARENT_NR 1
#define SOURCE_NR FIRST_USER_NR
#define DEST_NR   (FIRST_USER_NR + 1)
#define BYTES     (8 * 1024 * 1024)

static void check(const char *role, const char *what, int code) {
  if (code >= 0) return;
  fprintf(stderr, "%s: %s: %s (%d)\n", role, what, m3_strerror(code), code);
  exit(EXIT_FAILURE);
}

static unsigned char byte_at(size_t at) { return (unsigned char)(at * 31 + at / 251); }

/* Sends the address of its block to the parent, and waits for the answer. */
static int party(int nr) {
  const char *role = nr == SOURCE_NR ? "source" : "destination";
  unsigned char *block = calloc(1, BYTES);
  message m;

  if (block == NULL) return EXIT_FAILURE;
  for (size_t at = 0; nr == SOURCE_NR && at < BYTES; at++) block[at] = byte_at(at);
  int self = mnx_bind(VM_ID, nr);
  if (!M3_BOUND(self, nr)) check(role, "bind", self);
  memset(&m, 0, sizeof m);
  m.m_type = nr;
  m.m1_p1 = (char *)block;
  if (nr == SOURCE_NR) {
    struct m3_loan loan = {block, BYTES, M3_READ};
    check(role, "sendrec_lent", m3_sendrec_lent_T(PARENT_NR, &m, &loan, 1, 20000));
  } else {
    m3_grant_t grant = 0;
    check(role, "grant", m3_grant(PARENT_NR, block, BYTES, M3_WRITE, &grant));
    check(role, "sendrec", mnx_sendrec_T(PARENT_NR, &m, 20000));
    check(role, "revoke", m3_revoke(grant));
  }
  for (size_t at = 0; at < BYTES; at++) {
    if (block[at] != byte_at(at)) {
      fprintf(stderr, "%s: byte %lu is wrong\n", role, (unsigned long)at);
      return EXIT_FAILURE;
    }
  }
  free(block);
  return EXIT_SUCCESS;
}

int main(void) {
  VM_usr_t vm;
  message asked[2];
  int ended = EXIT_SUCCESS;

  int code = mnx_drvs_init(LOCALNODE, NULL);
  if (code != EMOLDRVSBUSY) check("parent", "drvs_init", code);
  memset(&vm, 0, sizeof vm);
  vm.vm_vmid = VM_ID;
  vm.vm_copy = M3_COPY_GRANTED; /* only lent and granted memory can be copied */
  vm.vm_life = M3_VM_WITH_CREATOR; /* a kill of this process ends the VM and its parties */
  strcpy(vm.vm_name, "between");
  check("parent", "vm_open_or_create", m3_vm_open_or_create(&vm));
  int self = mnx_bind(VM_ID, PARENT_NR);
  if (!M3_BOUND(self, PARENT_NR)) check("parent", "bind", self);

  for (int nr = SOURCE_NR; nr <= DEST_NR; nr++) {
    if (fork() == 0) _exit(party(nr));
  }
  for (int i = 0; i < 2; i++) {
    message m;
    check("parent", "receive", mnx_receive_T(ANY, &m, 20000));
    asked[m.m_type - SOURCE_NR] = m;
  }
  message *source = &asked[0], *dest = &asked[1];
  code = mnx_vcopy(source->m_source, source->m1_p1, dest->m_source, dest->m1_p1, BYTES);
  check("parent", "vcopy", code);
  printf("parent: %ld bytes from endpoint %d to endpoint %d\n", m3_copied(), source->m_source,
         dest->m_source);
  for (int i = 0; i < 2; i++) check("parent", "reply", mnx_reply(asked[i].m_source, &asked[i]));
  for (int i = 0; i < 2; i++) {
    int status = 0;
    wait(&status);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != EXIT_SUCCESS) ended = EXIT_FAILURE;
  }
  check("parent", "unbind", mnx_unbind(VM_ID, self));
  check("parent", "vm_end", mnx_vm_end(VM_ID));
  return ended;
}
