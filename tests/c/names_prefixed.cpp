// Compiles m3ipc.h in C++ without its short names, beside a program that uses those names for
// itself. Never run.
#define M3_NO_SHORT_NAMES
#include <m3ipc.h>
#include <m3ipc/ica.h>
#include <m3ipc/sock.h>

#include <cstdio>
#include <string>

enum class Status { OK, NONE, ANY, SELF };
enum { SENDING, RECEIVING, REMOTE, CLOCK, SLOTS, KERNEL, SYSTEM, NR_TASKS };

class message {
public:
  explicit message(std::string text) : text_(std::move(text)) {}
  const std::string &m1_i1() const { return text_; }

private:
  std::string text_;
};

struct drvs_usr {
  std::string proc_usr, VM_usr_t;
};

int main() {
  m3_message m{};
  m3_vm_usr_t vm{};
  m3_drvs_usr_t node{};
  m3_proc_usr_t process{};
  m3_priv_usr_t privileges{};
  message own("text");
  Status status = own.m1_i1().empty() ? Status::NONE : Status::OK;

  m.m3_m1_i1 = M3_NR_PROCS;
  m.m3_m3_i1 = M3_M3_STRING;
  vm.vm_warn2proc = M3_NONE;
  M3_MAP_SET(privileges.s_ipc_to, M3_PM_PROC_NR);
  if (mnx_drvs_init(M3_LOCALNODE, &node) < 0 || mnx_vm_init(&vm) < 0) return 1;
  int self = mnx_bind(vm.vm_vmid, M3_FIRST_USER_NR);
  if (!M3_BOUND(self, M3_FIRST_USER_NR)) return 1;
  if (mnx_receive_T(M3_ANY, &m, M3_TIMEOUT_NOWAIT) == M3_OK && M3_IS_NOTIFY(&m))
    std::printf(M3_MSG9_FORMAT, M3_MSG9_FIELDS(&m));
  if (mnx_getprocinfo(vm.vm_vmid, M3_ENDPOINT_P(self), &process) != M3_OK) return 1;
  if (process.p_rts_flags & (M3_SENDING | M3_RECEIVING)) return 1;
  return status == Status::OK && mnx_vcopy(M3_SELF, &m, self, &m, sizeof m) < 0 ? 0 : 1;
}
