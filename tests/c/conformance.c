/*
 * conformance: tests each row of the contract of m3ipc through the C interface.
 *
 *     cc -o conformance conformance.c $(pkg-config --cflags --libs m3ipc) && ./conformance
 *
 * The program starts a node of its own in the folder M3_RUNTIME_DIR, or in a new folder, and ends
 * it. It prints TAP to standard output and exits with 0 if every case passed.
 */
#include "areas.h"
#include "copies.h"
#include "endpoints.h"
#include "harness.h"
#include "limits.h"
#include "messages.h"
#include "pulses.h"

#include <stddef.h>

/* ---- Numbers and layouts ----------------------------------------------- */

static void numbers(void) {
  message m;
  char text[256];

  group("numbers");
  is(sizeof(message), 48, "a message has 48 bytes");
  is(offsetof(message, m_u), 8, "its payload begins at 8");
  is(sizeof m.m_u, 40, "its payload has 40 bytes");
  is(_ENDPOINT_GENERATION_SIZE, 35570, "G is NR_TASKS + 35535");
  is(_ENDPOINT(2, 30), 2 * 35570 + 30, "endpoint = generation * G + slot");
  is(_ENDPOINT_P(_ENDPOINT(7, -35)), -35, "the slot of an endpoint, of a task");
  is(_ENDPOINT_P(_ENDPOINT(7, 220)), 220, "the slot of an endpoint, of a user");
  is(_ENDPOINT_G(_ENDPOINT(7, -35)), 7, "the generation of an endpoint");
  ok(ANY == 31438 && NONE == 27342 && SELF == 35534, "ANY, NONE, SELF");
  ok(HARDWARE == -1 && SYSTEM == -2 && CLOCK == -35, "HARDWARE, SYSTEM, CLOCK");
  ok(PM_PROC_NR == 0 && FS_PROC_NR == 1 && RS_PROC_NR == 2 && INIT_PROC_NR == 14,
     "PM, FS, RS, INIT");
  ok(EMOLDCNOTRUN == EMOLVMNOTRUN && EDVSDVSINIT == EMOLDRVSINIT, "codes of the later releases");

  memset(&m, 0, sizeof m);
  m.m_source = 4;
  m.m_type = 9;
  m.m1_i3 = 11;
  snprintf(text, sizeof text, MSG1_FORMAT, MSG1_FIELDS(&m));
  ok(strstr(text, "m1_i3=11") != NULL, "MSG1_FORMAT prints with MSG1_FIELDS");
  ok(m3_strerror(EMOLDSTDIED) != NULL && m3_strerror(12345) != NULL, "m3_strerror is never NULL");
  ok(strcmp(m3_strerror(EMOLDSTDIED), m3_strerror(EMOLSRCDIED)) != 0,
     "m3_strerror differs for each code");
  ok(m3_version()[0] != '\0', "m3_version: %s", m3_version());
}

/* ---- The node ---------------------------------------------------------- */

static void node(void) {
  drvs_usr_t d;
  dvs_usr_t later;
  message m;

  group("drvs_init");
  memset(&m, 0, sizeof m);
  is(mnx_getdrvsinfo(&d), EMOLDRVSINIT, "getdrvsinfo before drvs_init");
  is(mnx_drvs_end(), EMOLDRVSINIT, "drvs_end before drvs_init");
  is(mnx_bind(VM, user_nr), EMOLDRVSINIT, "bind before drvs_init");
  is(mnx_send(server_nr, &m), EMOLDRVSINIT, "send before drvs_init");
  is(mnx_receive(ANY, &m), EMOLDRVSINIT, "receive before drvs_init");
  is(mnx_notify(server_nr), EMOLDRVSINIT, "notify before drvs_init");
  is(mnx_wait4bind_T(TIMEOUT_NOWAIT), EMOLDRVSINIT, "wait4bind before drvs_init");
  is(vm_start(VM), EMOLDRVSINIT, "vm_init before drvs_init");
  is(mnx_drvs_init(BIG, NULL), EMOLBADNODEID, "node id out of range");
  memset(&d, 0, sizeof d);
  d.d_nr_vms = -1;
  is(mnx_drvs_init(NODE, &d), EMOLBADRANGE, "negative count");
  d.d_nr_vms = M3_VMS_MAX + 1;
  is(mnx_drvs_init(NODE, &d), EMOLBADRANGE, "count too large");
  memset(&d, 0, sizeof d);
  d.d_max_copybuf = 4096;
  d.d_max_copylen = 1024;
  is(mnx_drvs_init(NODE, &d), EMOLBADVALUE, "d_max_copybuf above d_max_copylen");
  memset(&d, 0, sizeof d);
  memset(d.d_name, 'x', sizeof d.d_name);
  is(mnx_drvs_init(NODE, &d), EMOLBADVALUE, "a name without a zero");
  memset(&d, 0, sizeof d);
  d.d_nr_vms = 16;
  d.d_max_copylen = 1 << 28;
  strcpy(d.d_name, "contract");
  is(mnx_drvs_init(NODE, &d), NODE, "returns the node id");
  is(mnx_drvs_init(NODE, &d), EMOLDRVSBUSY, "a second call");
  memset(&d, 0, sizeof d);
  is(mnx_getdrvsinfo(&d), NODE, "getdrvsinfo returns the node id");
  is(d.d_nr_vms, 16, "getdrvsinfo: the parameter that drvs_init got");
  is(d.d_nr_procs, NR_PROCS, "getdrvsinfo: a default parameter");
  is(d.d_max_copylen, 1 << 28, "getdrvsinfo: the copy limit that drvs_init got");
  ok(strcmp(d.d_name, "contract") == 0, "getdrvsinfo: the name that drvs_init got");
  is(mnx_getdvsinfo(&later), NODE, "getdvsinfo returns the node id");
  is(later.d_nr_dcs, 16, "getdvsinfo: d_nr_dcs is d_nr_vms");
  is(mnx_getdrvsinfo(NULL), EMOLADDRNOTAVAIL, "getdrvsinfo into NULL");
}

/* ---- VMs --------------------------------------------------------------- */

static void vms(void) {
  VM_usr_t vm, info;
  dc_usr_t dc;

  group("vm_init");
  vm = vm_params(BIG, "big");
  is(mnx_vm_init(&vm), EMOLBADVMID, "id out of range");
  vm = vm_params(VM, "");
  memset(vm.vm_name, 'x', sizeof vm.vm_name);
  is(mnx_vm_init(&vm), EMOLNAMESIZE, "name of 16 bytes");
  vm = vm_params(VM, "one");
  vm.vm_nr_procs = NR_PROCS + 1;
  is(mnx_vm_init(&vm), EMOLBADRANGE, "limit above the node's");
  vm = vm_params(VM, "one");
  vm.vm_warn2proc = PM_PROC_NR;
  vm.vm_warnmsg = 5;
  is(mnx_vm_init(&vm), EMOLNOSYS, "a process to warn");
  vm = vm_params(VM, "one");
  vm.vm_nr_tasks = -1;
  is(mnx_vm_init(&vm), EMOLBADRANGE, "negative limit");
  is(mnx_bind(VM, user_nr), EMOLVMNOTRUN, "bind before vm_init");
  vm = vm_params(VM, "one");
  vm.vm_nr_procs = 64;
  is(mnx_vm_init(&vm), NODE, "returns the node id");
  is(mnx_vm_init(&vm), EMOLRSCBUSY, "id in use");
  vm = vm_params(VM + 1, "one");
  is(mnx_vm_init(&vm), EMOLRSCBUSY, "name in use");
  is(mnx_getvminfo(VM, &info), OK, "getvminfo");
  ok(strcmp(info.vm_name, "one") == 0, "getvminfo: the name");
  is(info.vm_nr_procs, 64, "getvminfo: the limit that vm_init got");
  is(info.vm_nr_tasks, NR_TASKS, "getvminfo: the limit of the node");
  is((int)info.vm_uid, (int)geteuid(), "getvminfo: the owner");
  is(mnx_getvminfo(BIG, &info), EMOLBADVMID, "getvminfo: id out of range");
  is(mnx_getvminfo(VM + 1, &info), OK, "getvminfo of a VM that does not run");
  is(info.vm_flags, VM_FREE, "getvminfo of a VM that does not run: VM_FREE");
  is(mnx_getdcinfo(VM, &dc), OK, "getdcinfo");
  ok(strcmp(dc.dc_name, "one") == 0, "getdcinfo: the name");

  struct peer p = bound(VM, user_nr);
  struct order o = order(GETVMINFO);
  o.vm = PROC_NO_PID;
  struct result r = call_order(&p, o);
  is(r.code, OK, "getvminfo of the caller's VM");
  is((int)r.len, VM, "getvminfo of the caller's VM: its id");
  end(&p, SIGKILL);

  group("vm_end");
  is(mnx_vm_end(BIG), EMOLBADVMID, "id out of range");
  is(mnx_vm_end(VM + 1), EMOLVMNOTRUN, "not running");
  struct peer plain = bound(VM, user_nr), stubborn = bound(VM, other_nr);
  call(&stubborn, IGNORE_SIGPIPE, 0, 0, 0);
  is(mnx_vm_end(VM), OK, "ends a VM with members");
  int status = end(&plain, 0);
  ok(WIFSIGNALED(status) && WTERMSIG(status) == SIGPIPE, "a member gets SIGPIPE");
  status = end(&stubborn, 0);
  ok(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL,
     "a member that ignores SIGPIPE gets SIGKILL");
  is(mnx_bind(VM, user_nr), EMOLVMNOTRUN, "bind after vm_end");
  is(mnx_vm_end(VM), EMOLVMNOTRUN, "a second call");
  is(vm_start(VM), NODE, "vm_init with the same id");
  p = bound(VM, user_nr);
  is(call_vm(&p, VM_END, VM, 0, 0), OK, "called by a member");
  end(&p, SIGKILL);
  is(vm_start(VM), NODE, "vm_init after the member ended the VM");
}

/* A VM that ends with its creator, or with its last member; and one call that joins or starts. */
static void lives(void) {
  VM_usr_t vm, other;

  group("lives of VMs");
  vm = vm_params(VM + 1, "lives");
  vm.vm_life = M3_VM_WITH_CREATOR + 2;
  is(mnx_vm_init(&vm), EMOLBADVALUE, "an unknown life");
  vm.vm_life = M3_VM_WITH_MEMBERS;
  vm.vm_reserved = 1;
  is(mnx_vm_init(&vm), EMOLBADVALUE, "a reserved word that is not 0");
  vm.vm_reserved = 0;
  other = vm;
  is(m3_vm_open_or_create(&vm), NODE, "open_or_create starts a VM");
  is((int)vm.vm_life, M3_VM_WITH_MEMBERS, "its life");
  is(vm.vm_pid, (int)getpid(), "the process that made it");
  is(m3_vm_open_or_create(&other), NODE, "open_or_create joins it");
  other = vm_params(VM + 1, "lives");
  is(m3_vm_open_or_create(&other), EMOLRSCBUSY, "with another life");
  other = vm_params(VM, "lives");
  is(m3_vm_open_or_create(&other), EMOLRSCBUSY, "with another number");
  is(m3_vm_open_or_create(NULL), EMOLADDRNOTAVAIL, "without parameters");
  struct peer p = bound(VM + 1, user_nr);
  end(&p, SIGKILL);
  do is(mnx_getvminfo(VM + 1, &vm), OK, "getvminfo");
  while (vm.vm_flags != VM_FREE && poll(NULL, 0, 5) == 0);

  vm = vm_params(VM + 1, "lives");
  vm.vm_life = M3_VM_WITH_CREATOR;
  pid_t pid = fork();
  if (pid == 0) _exit(mnx_vm_init(&vm) < 0);
  int status = 0;
  ok(waitpid(pid, &status, 0) == pid && status == 0, "a child makes a VM and exits");
  is(m3_vm_open_or_create(&vm), NODE, "its end lets another process make it");
  is(vm.vm_pid, (int)getpid(), "the new creator");
  is(mnx_vm_end(VM + 1), OK, "vm_end");
}

/* Each case has two causes of failure; the earlier check must give the result. */
static void order_of_checks(void) {
  message m;

  group("order of checks");
  memset(&m, 0, sizeof m);
  is(mnx_send(ANY, &m), EMOLNOTBIND, "not bound before slot range");
  is(mnx_send(server_nr, NULL) < 0, 1, "not bound, with a NULL message");
  is(mnx_bind(BIG, BIG), EMOLBADVMID, "VM id before slot range");
  is(mnx_bind(VM + 1, BIG), EMOLVMNOTRUN, "VM not running before slot range");
  is(mnx_unbind(BIG, ANY), EMOLBADVMID, "VM id before the endpoint");
  struct peer p = bound(VM, user_nr);
  is(call(&p, SEND, _ENDPOINT(9, 35000), 1, LONG_MS).code, EMOLRANGE,
     "slot range before generation");
  end(&p, SIGKILL);
}

static void not_yet(void) {
  node_usr_t info;
  proc_usr_t sender, receiver;

  group("one node");
  is(mnx_getnodeinfo(NODE, &info), OK, "getnodeinfo of the local node");
  is(info.n_nodeid, NODE, "its number");
  is((int)info.n_flags, NODE_ATTACHED, "its state");
  ok((info.n_vms >> VM & 1) == 1 && info.n_name[0] != '\0', "its VMs and its name");
  is(mnx_getnodeinfo(LOCALNODE, &info), OK, "getnodeinfo of LOCALNODE");
  is(info.n_nodeid, NODE, "its number");
  is(mnx_getnodeinfo(NODE + 1, &info), OK, "getnodeinfo of a node that is not there");
  is((int)info.n_flags, NODE_FREE, "its state");
  is(mnx_getnodeinfo(BIG, &info), EMOLBADNODEID, "getnodeinfo: out of range");
  is(mnx_getnodeinfo(NODE, NULL), EMOLADDRNOTAVAIL, "getnodeinfo into NULL");
  is(info.n_proxies, M3_NO_PROXIES, "no proxy connects it");
  is(mnx_getproxyinfo(NODE + 1, &sender, &receiver), EMOLBADPROXY, "getproxyinfo without proxies");
  is(mnx_getproxyinfo(NODE, &sender, &receiver), EMOLBADPROXY, "getproxyinfo of the local node");
  is(mnx_getproxyinfo(BIG, NULL, NULL), EMOLBADPROXY, "getproxyinfo: out of range");
  group("no meaning here");
  is(mnx_add_node(VM, 1), EMOLNOSYS, "add_node");
  is(mnx_del_node(VM, 1), EMOLNOSYS, "del_node");
  is(mnx_node_up("n", 1, 1), EMOLNOSYS, "node_up");
  is(mnx_node_down(1), EMOLNOSYS, "node_down");
  is(mnx_rmtbind(VM, "p", 40, 1), EMOLNONODE, "rmtbind");
  ok(mnx_rmtbind(VM, "p", 40, 1) < EMOLERRCODE, "rmtbind fails by the test of the contract");
  is(mnx_migr_start(VM, 40), EMOLNOSYS, "migr_start");
  is(mnx_migr_commit(1, VM, 40, 1), EMOLNOSYS, "migr_commit");
  is(mnx_migr_rollback(VM, 40), EMOLNOSYS, "migr_rollback");
}

static void end_of_node(void) {
  drvs_usr_t d;

  group("drvs_end");
  struct peer p = bound(VM, user_nr);
  is(mnx_drvs_end(), OK, "ends the VMs and the node");
  int status = end(&p, 0);
  ok(WIFSIGNALED(status) && WTERMSIG(status) == SIGPIPE, "a member gets SIGPIPE");
  is(mnx_getdrvsinfo(&d), EMOLDRVSINIT, "getdrvsinfo after drvs_end");
  is(mnx_drvs_end(), EMOLDRVSINIT, "a second call");
}

int main(void) {
  char folder[] = "/tmp/m3-conformance-XXXXXX";
  int ours = getenv("M3_RUNTIME_DIR") == NULL;

  if (ours) {
    if (mkdtemp(folder) == NULL || setenv("M3_RUNTIME_DIR", folder, 1) != 0) {
      perror(folder);
      return 3;
    }
  }
  signal(SIGALRM, watchdog_expired);
  signal(SIGPIPE, SIG_IGN);
  alarm(WATCHDOG_S);

  numbers();
  node();
  vms();
  lives();
  binds();
  names();
  sends();
  watches();
  requests();
  notifications();
  longs();
  limits();
  copies();
  pulses();
  blocks();
  plain_forms();
  order_of_checks();
  not_yet();
  end_of_node();

  alarm(0);
  if (ours) nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
  printf("1..%d\n", cases);
  printf("%d passed, %d failed\n", cases - failures, failures);
  return failures == 0 ? 0 : 1;
}
