// Compiles m3ipc.h in C++ with its short names, as programs of M3-IPC use them. Never run.
#include <m3ipc.h>
#include <m3ipc/ica.h>
#include <m3ipc/sock.h>

#include <cstdio>

int main() {
  message m{};
  VM_usr_t vm{};
  struct drvs_usr node = {};
  proc_usr_t process{};
  priv_usr_t privileges{};

  m.m1_i1 = NR_PROCS;
  m.m3_i1 = M3_STRING;
  vm.vm_warn2proc = NONE;
  M3_MAP_SET(privileges.s_ipc_to, PM_PROC_NR);
  if (mnx_drvs_init(LOCALNODE, &node) < 0 || mnx_vm_init(&vm) < 0) return 1;
  int self = mnx_bind(vm.vm_vmid, FIRST_USER_NR);
  if (!M3_BOUND(self, FIRST_USER_NR)) return 1;
  if (mnx_receive_T(ANY, &m, TIMEOUT_NOWAIT) == OK) std::printf(MSG1_FORMAT, MSG1_FIELDS(&m));
  if (mnx_getprocinfo(vm.vm_vmid, _ENDPOINT_P(self), &process) != OK) return 1;
  if (process.p_rts_flags & (SENDING | RECEIVING)) return 1;
  return dvk_vcopy(SELF, &m, self, &m, sizeof m) == EDVSENDPOINT ? 0 : 1;
}
