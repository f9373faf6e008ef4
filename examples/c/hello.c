/*
 * hello: a client sends a string to a server, gets an answer, and learns that the server died.
 *
 *     cc -o hello hello.c $(pkg-config --cflags --libs m3ipc) && ./hello
 *
 * The parent is the client. The child is the server; its second request ends it with SIGKILL.
 */
#include <m3ipc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { VM_ID = 7, SERVER = 1, CLIENT = 2 }; /* the endpoint of a server slot is the slot */
enum { GREET = 1, CRASH = 2 };              /* types of requests */

static int check(const char *call, int code) {
  if (code < 0) {
    fprintf(stderr, "%s: %s (%d)\n", call, m3_strerror(code), code);
    exit(1);
  }
  return code;
}

static void serve(void) {
  m3_message request;
  char text[256], answer[300];
  size_t len;

  check("bind", mnx_bind(VM_ID, SERVER));
  for (;;) {
    check("receive", m3_receive_long(M3_ANY, &request, text, sizeof text, &len));
    if (request.m_type == CRASH) raise(SIGKILL);
    int bytes = snprintf(answer, sizeof answer, "%.*s, endpoint %d", (int)len, text,
                         request.m_source);
    int code = m3_reply_long(request.m_source, &request, answer, (size_t)bytes);
    if (code != OK) fprintf(stderr, "client %d is gone: %d\n", request.m_source, code);
  }
}

int main(void) {
  m3_vm_usr_t vm = {0};
  m3_message m = {0};
  char answer[300];
  size_t len;

  int code = mnx_drvs_init(M3_LOCALNODE, NULL);
  if (code != EMOLDRVSBUSY) check("drvs_init", code);
  vm.vm_vmid = VM_ID;
  vm.vm_life = M3_VM_WITH_CREATOR; /* a kill of this process ends the VM and the server */
  strcpy(vm.vm_name, "hello");
  check("vm_open_or_create", m3_vm_open_or_create(&vm));
  pid_t server = fork();
  if (server == 0) serve();
  check("bind", mnx_bind(VM_ID, CLIENT));
  check("wait4bindep", mnx_wait4bindep_T(SERVER, 5000));

  m.m_type = GREET;
  check("sendrec", m3_sendrec_long(SERVER, &m, "hello", 5, answer, sizeof answer, &len));
  printf("the server answered: %.*s\n", (int)len, answer);

  m.m_type = CRASH;
  code = mnx_sendrec(SERVER, &m);
  printf("the server was killed: %s (%d)\n", m3_strerror(code), code);

  waitpid(server, NULL, 0);
  check("vm_end", mnx_vm_end(VM_ID));
  return code == EMOLSRCDIED ? 0 : 1;
}
