/*
 * The node and its VMs. Part of m3ipc.h; see there for results, threads and signals.
 */
#ifndef M3IPC_NODE_H
#define M3IPC_NODE_H

#include "records.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- The node ---------------------------------------------------------- */

/*
 * Starts the node, and the node daemon m3d if none runs.
 *
 *   nodeid  number of the node; M3_LOCALNODE takes it from the configuration
 *   params  parameters, or NULL. A field of 0 takes the value of M3_DRVS_PARAMETERS, then of the
 *           configuration file, then of the environment, then the default. Receives the values in
 *           force.
 *
 * The environment variable M3_DRVS_PARAMETERS names words, a file or a program: see
 * mnx_drvs_init(3).
 *
 * Returns the node id, or:
 *   EMOLDRVSBUSY      the node is initialised already; the caller may go on
 *   EMOLBADNODEID     nodeid is below 0, or not below the count of nodes
 *   EMOLBADRANGE      a count of params is out of its range
 *   EMOLBADVALUE      a copy limit is negative, d_max_copybuf is above d_max_copylen, or d_name has
 *                     no zero or is no UTF-8; or M3_DRVS_PARAMETERS gives no parameters
 *   EMOLPRIVILEGES    the caller does not own the node
 *   EMOLVERSION       the running daemon does not match this library
 *   EMOLADDRNOTAVAIL  params cannot be read and written
 * Blocks until the daemon answers. The node stays until mnx_drvs_end, also without VMs.
 *
 *   int node = mnx_drvs_init(M3_LOCALNODE, NULL);
 *   if (node < 0 && node != EMOLDRVSBUSY) errx(1, "node: %s", m3_strerror(node));
 */
int mnx_drvs_init(int nodeid, m3_drvs_usr_t *params);

/*
 * Ends every VM as mnx_vm_end does, then the node.
 *
 * Returns 0, or:
 *   EMOLDRVSINIT    the node is not initialised
 *   EMOLPRIVILEGES  the caller does not own the node
 * Blocks until the last member of the last VM has left.
 */
int mnx_drvs_end(void);

/*
 * Reads the parameters of the node.
 *
 *   info  receives the parameters in force
 *
 * Returns the node id, or:
 *   EMOLDRVSINIT      the node is not initialised
 *   EMOLADDRNOTAVAIL  info cannot be written
 * Blocks until the daemon answers.
 */
int mnx_getdrvsinfo(m3_drvs_usr_t *info);

/* ---- VMs --------------------------------------------------------------- */

/*
 * Starts a VM, which the user of the caller then owns.
 *
 *   params  number, name, limits and mode of the VM. A field of 0 takes the value of
 *           M3_VM_PARAMETERS. A limit of 0 takes the limit of the node; an empty name stands for
 *           "VM" and the number. Receives the values in force.
 *
 * The environment variable M3_VM_PARAMETERS names words, a file, a program, or a directory: see
 * mnx_vm_init(3).
 *
 * Returns the node id, or:
 *   EMOLDRVSINIT      the node is not initialised
 *   EMOLBADVMID       vm_vmid is out of range
 *   EMOLRSCBUSY       the number or the name is in use
 *   EMOLNAMESIZE      vm_name has no zero within M3_MAXVMNAME bytes
 *   EMOLBADRANGE      a limit is negative or above the limit of the node
 *   EMOLNOVMNODE      vm_nodes is not empty and this node is not in it
 *   EMOLBADVALUE      another field has no valid value, or M3_VM_PARAMETERS gives no parameters
 *   EMOLNOSYS         vm_warn2proc names a process: m3_watch reports deaths instead
 *   EMOLPRIVILEGES    the daemon does not let the caller start VMs
 *   EMOLADDRNOTAVAIL  params cannot be read and written
 * Blocks until the daemon answers.
 *
 *   m3_vm_usr_t vm;
 *   memset(&vm, 0, sizeof vm);
 *   vm.vm_vmid = 3;
 *   strcpy(vm.vm_name, "files");
 *   int code = mnx_vm_init(&vm);
 */
int mnx_vm_init(m3_vm_usr_t *params);

/*
 * Joins the VM of a name as mnx_vm_init would start it, or starts it. Programs that start in any
 * order, and again after a crash, so share one VM.
 *
 * If a VM of this name is ending, the call waits for its end and starts the VM.
 *
 *   params  as in mnx_vm_init. A VM that exists must have the same number, name, mode, grace time,
 *           copy rule, life, and limits; a limit of 0 fits every VM. Receives the values in force.
 *
 * Returns the node id, or the codes of mnx_vm_init, and:
 *   EMOLRSCBUSY     the VM has another parameter, or another VM has the number
 *   EMOLPRIVILEGES  the VM belongs to another user, also for root
 * Blocks until the daemon answers, and while a VM of this name is ending.
 */
int m3_vm_open_or_create(m3_vm_usr_t *params);

/*
 * Looks up a VM by its name.
 *
 *   name  name of a VM, under M3_MAXVMNAME bytes
 *
 * Returns the number of the VM, or:
 *   EMOLDRVSINIT      the node is not initialised
 *   EMOLNONODE        no VM has this name
 *   EMOLNAMESIZE      the name is too long
 *   EMOLINVAL         the name is no UTF-8
 *   EMOLPRIVILEGES    vm_mode does not let the caller read
 *   EMOLADDRNOTAVAIL  name cannot be read
 * Blocks until the daemon answers.
 */
int m3_vm_named(const char *name);

/*
 * Ends a VM and waits until every member has left.
 *
 * Each member gets SIGPIPE. A member that is still bound after the grace time of the VM gets
 * SIGKILL. The call returns when all memory, descriptors and mappings of the VM are given back.
 * If the caller is a member, it is unbound first and gets no signal. Other calls in the VM return
 * EMOLVMNOTRUN meanwhile.
 *
 *   vmid  number of the VM
 *
 * Returns 0, or:
 *   EMOLDRVSINIT    the node is not initialised
 *   EMOLBADVMID     vmid is out of range
 *   EMOLVMNOTRUN    the VM is not running
 *   EMOLPRIVILEGES  the caller does not own the VM
 * Blocks for at most the grace time and the time that the kernel needs to end the members.
 */
int mnx_vm_end(int vmid);

/*
 * Reads the parameters of a VM.
 *
 *   vmid  number of the VM; M3_PROC_NO_PID stands for the VM of the caller
 *   info  receives the parameters in force. Of a VM that does not run, vm_flags is M3_VM_FREE and
 *         all other fields are 0.
 *
 * Returns 0, or:
 *   EMOLDRVSINIT      the node is not initialised
 *   EMOLBADVMID       vmid is out of range, or is M3_PROC_NO_PID and the caller is not bound
 *   EMOLPRIVILEGES    vm_mode does not let the caller read
 *   EMOLADDRNOTAVAIL  info cannot be written
 * Blocks until the daemon answers.
 */
int mnx_getvminfo(int vmid, m3_vm_usr_t *info);

/*
 * Prints the VMs of the node to standard error.
 *
 * Returns 0, or EMOLDRVSINIT if the node is not initialised.
 * Blocks until the daemon answers.
 */
int mnx_vm_dump(void);

#ifdef __cplusplus
}
#endif

#endif /* M3IPC_NODE_H */
